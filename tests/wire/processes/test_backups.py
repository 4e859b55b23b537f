"""`punctual db backup` of a service that runs with load, and `db restore`, by the command line."""

import asyncio
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.target import Seen, Target, open_target
from tests.unit.docs.pages import ROOT, fences, read
from tests.wire.processes.process import PATIENCE, Process, bare_environment, run, serve

pytestmark = pytest.mark.timeout(180)
JOBS = [f"job-{number}" for number in range(20)]


def punctual(*arguments: str, cwd: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """One command to its end."""
    return run(*arguments, cwd=cwd, environ=bare_environment(PYTHONPATH=str(ROOT), **environ))


def define(job_id: str, target: Target) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "jobName": "backed up",
        "creator": "1",
        "creatorName": "one",
        "timer": {"dueTime": "0s", "period": "200ms"},
        "qos": 1,
        "overlapPolicy": "queue",
        "request": [{"url": f"{target.url}/work", "body": {"fired": "${schedulingFireTime}"}}],
    }


async def arrive(target: Target, count: int) -> None:
    """Returns when the target has `count` requests."""
    async with asyncio.timeout(PATIENCE):
        await target.until(count)


async def start(data: Path, *further: str) -> tuple[Process, httpx.AsyncClient]:
    """A service that listens, and a client of it."""
    process = serve(data, *further, PYTHONPATH=str(ROOT))
    url = await asyncio.to_thread(process.wait_for_url)
    return process, httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False)


async def executions_of(client: httpx.AsyncClient, job_id: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/jobs/{job_id}/executions", params={"limit": 500})
    items: list[dict[str, Any]] = answer.json()["data"]["items"]
    return items


def of_job(seen: list[Seen]) -> set[tuple[str, int]]:
    return {(one.headers["x-scheduling-job-id"], one.execution) for one in seen}


async def test_a_service_under_load_is_copied_and_restored(tmp_path: Path) -> None:
    """Two processes that fire a hundred times a second; the copy is started by a single one."""
    async with open_target() as target:
        process, client = await start(tmp_path / "data", "--workers", "2")
        with process:
            created = (await client.post("/jobs", json=[define(one, target) for one in JOBS])).json()
            assert {one["status"] for one in created["data"]["items"]} == {"created"}, created
            await arrive(target, 201)
            before = len(target.seen)
            backing = asyncio.create_task(
                asyncio.to_thread(punctual, "db", "backup", "copies/one", "--data", "data", cwd=tmp_path)
            )
            answers = []
            while not backing.done():
                answers.append((await client.post("/jobs", json=[define("later", target)])).status_code)
            done = backing.result()
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
            assert "data is copied to copies/one (" in done.stderr
            assert set(answers) == {200}
            left = len(target.seen)
            await client.aclose()
        refused = punctual("db", "restore", "copies/one", "--data", "data", cwd=tmp_path)
        assert refused.returncode == 3
        assert "is not empty" in refused.stderr
        restored = punctual("db", "restore", "copies/one", "--data", "restored", cwd=tmp_path)
        assert restored.returncode == 0, restored.stderr
        target.life += 1
        process, client = await start(tmp_path / "restored")
        with process:
            await arrive(target, left + 201)
            for job_id in JOBS:
                assert (await client.put(f"/jobs/{job_id}?active=0&drain=true")).status_code == 200
            found = {job_id: await executions_of(client, job_id) for job_id in JOBS}
            await client.aclose()
            assert process.stop() == 0
    check_executions(found)
    # Whatever was answered some time before the copy was made is known to have succeeded.
    sure = of_job(target.seen[: before - 60])
    known = {
        (one["jobId"], one["executeNumber"])
        for items in found.values()
        for one in items
        if one["state"] == "succeeded"
    }
    assert {one for one in sure if one[0] in found} <= known
    # What is sent again is what was in flight: the same request by the same key.
    texts = {one.identity: one.text for one in target.seen[:before]}
    assert all(texts.get(one.identity, one.text) == one.text for one in target.seen[left:])


def check_executions(found: dict[str, list[dict[str, Any]]]) -> None:
    """No number and no planned moment is missing or there twice."""
    for items in found.values():
        numbers = sorted(one["executeNumber"] for one in items)
        assert numbers == list(range(1, len(items) + 1))
        planned = Counter(one["plannedAt"] for one in items)
        assert planned.most_common(1)[0][1] == 1


async def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """Those under `Backup` in docs/operations.md, while a service runs."""
    _, _, section = read("docs/operations.md").partition("\n## Backup\n")
    commands = "".join(fences(section.partition("\n## ")[0], "sh")).splitlines()
    assert [line.split()[:3] for line in commands] == [
        ["punctual", "db", "backup"],
        ["punctual", "db", "restore"],
    ]
    process, client = await start(tmp_path / "data")
    with process:
        for line in commands:
            done = await asyncio.to_thread(punctual, *line.split()[1:], cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        await client.aclose()
        assert process.stop() == 0
