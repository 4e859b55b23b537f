"""What a target says of its work is long: `error`, `progress` and `message` of checks, feedback and parts."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import Service, job, open_service
from tests.attack.target import saying
from tests.unit.transport.servers import Peer, Stage

JOBS = 20
LONG = 300_000
"""Three of them are less than a response or a body may have."""
SHORTER = 10_000
ERROR, PROGRESS, MESSAGE = "x" * 255 + "…", "x" * 63 + "…", "x" * 4_095 + "…"
MIB = 1 << 20


def said(length: int, status: str = "failed") -> dict[str, str]:
    """A report with three long texts."""
    return {"status": status, "error": "x" * length, "progress": "x" * length, "message": "x" * length}


async def ended(service: Service, count: int) -> list[dict[str, Any]]:
    """The terminated executions, when there are so many."""

    async def look() -> list[dict[str, Any]]:
        page = await service.run.read("/executions", state="terminated", limit=500)
        return list(page["items"]) if len(page["items"]) >= count else []

    found: list[dict[str, Any]] = await service.run.until(look, f"{count} executions have ended")
    return found


async def check_attempt(service: Service, execution: dict[str, Any], progress: str | None) -> None:
    """What is kept of an execution that has failed by such a report."""
    assert (execution["error"], execution["progress"]) == (ERROR, progress)
    whole = await service.run.read(f"/executions/{execution['executionId']}")
    assert whole["attempts"][0]["message"] == MESSAGE


@pytest.mark.long
async def test_long_checks_are_cut_and_hurt_nobody(stage: Stage, tmp_path: Path) -> None:
    """The executions end with what is kept, lists and files stay small, the bystander's firings succeed."""
    target = await stage.server(saying(said(LONG)))
    check = {"checkUrl": f"{target.url}/check", "checkRateSeconds": 0.1, "async": True}
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        for number in range(JOBS):
            await service.create(job(f"long-{number}", f"{target.url}/run", **check))
        executions = await ended(service, JOBS)
        for one in executions:
            await check_attempt(service, one, PROGRESS)
        answer = await service.run.ask("GET", "/executions", params={"limit": 500})
        assert len(answer.content) < MIB
        assert sum(file.stat().st_size for file in (tmp_path / "data").iterdir()) < 20 * MIB
        await bystander.check()


async def test_long_feedback_is_cut(stage: Stage, tmp_path: Path) -> None:
    """As a check's answer is."""
    urls: asyncio.Queue[str] = asyncio.Queue()

    async def take(peer: Peer) -> None:
        head = (await peer.read()).decode("latin-1").split("\r\n")
        urls.put_nowait(next(line.partition(": ")[2] for line in head if line.startswith("X-Report: ")))
        await peer.say(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    target = await stage.server(take)
    step = {"url": f"{target.url}/run", "headers": {"X-Report": "${schedulingFeedbackUrl}"}}
    async with open_service(tmp_path / "data") as service:
        await service.create(job("long", target.url, request=[step], **{"async": True}))
        url = await urls.get()
        answer = await service.run.ask("POST", url.removeprefix(service.url), json=said(SHORTER))
        assert answer.status_code == 200, answer.text
        (execution,) = await ended(service, 1)
        await check_attempt(service, execution, PROGRESS)


@pytest.mark.long
async def test_long_completions_of_parts_are_cut(tmp_path: Path) -> None:
    """As a check's answer is; so is the progress of a lease."""
    async with open_service(tmp_path / "data") as service:
        await service.create(job("long", "", request=[{"url": "queue://work"}]))
        claim = {"instanceId": "w", "waitSeconds": 10}
        answer = await service.run.ask("POST", "/queues/work/claim", json=claim)
        (item,) = answer.json()["data"]["items"]
        lease = f"/leases/{item['lease']}"
        told = {"progress": "x" * LONG, "message": "x" * LONG}
        assert (await service.run.ask("POST", f"{lease}/renew", json=told)).status_code == 200
        end = {"status": "failed", "error": "x" * LONG, "message": "x" * LONG}
        assert (await service.run.ask("POST", f"{lease}/complete", json=end)).status_code == 200
        (execution,) = await ended(service, 1)
        await check_attempt(service, execution, PROGRESS)
