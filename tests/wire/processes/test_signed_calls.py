"""Whatever a real service of several processes sends is signed, by an implementation that is not ours."""

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from scheduler_service.security.signing import RESTART_SECONDS
from tests.unit.client_sdk.signed import NEW, OLD
from tests.unit.docs.pages import ROOT
from tests.wire.processes.process import PATIENCE, serve
from tests.wire.service import data_of
from tests.wire.target import HELD, Seen, Target

pytestmark = pytest.mark.timeout(180)
JOBS = [f"job-{number}" for number in range(6)]
"""So many that each of two processes has some of them."""
SECRETS = json.dumps({"default": {"shop": [NEW, OLD]}})


@asynccontextmanager
async def serving(data: Path, *further: str, **settings: str) -> AsyncIterator[httpx.AsyncClient]:
    """A service with these secrets, killed at the end."""
    environ = {"PUNCTUAL_SIGNING__SECRETS": SECRETS, "PUNCTUAL_SERVICES__OFFLINE_SECONDS": "600", **settings}
    with serve(data, *further, PYTHONPATH=str(ROOT), **environ) as process:
        url = await asyncio.to_thread(process.wait_for_url)
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False) as client:
            yield client


async def come(target: Target, path: str, count: int) -> list[Seen]:
    """The requests for `path`, once there are so many, each verified with both secrets."""
    async with asyncio.timeout(PATIENCE):
        while len(target.at(path)) < count:  # noqa: ASYNC110 - the target has no event for it
            await asyncio.sleep(0.02)
    found = target.at(path)
    for seen in found:
        for secret in (NEW, OLD):
            Webhook(secret).verify(seen.body, seen.headers, json_parse=False)
    return found


def define(job_id: str, step: str, **members: Any) -> dict[str, Any]:
    return {
        "jobId": job_id,
        "jobName": "signed",
        "creator": "1",
        "creatorName": "one",
        "timer": {"dueTime": "0s"},
        "request": [{"url": step, "body": {"text": "作业"}}],
        **members,
    }


async def test_calls_of_all_processes_are_signed(tmp_path: Path) -> None:
    """To an instance that was chosen, and to the service, whose secret another process knows."""
    async with Target(lambda: 0) as shop, serving(tmp_path / "data", "--workers", "2") as client:
        answers = [
            await client.put("/services/shop", json={"signing": "shop"}),
            await client.put("/services/shop/instances/1", json={"address": shop.url}),
        ]
        told = {"notification": [{"url": "service://shop/told", "stateEquals": "finalSucceed"}]}
        answers.append(
            await client.post("/jobs", json=[define(one, "service://shop/run", **told) for one in JOBS])
        )
        assert [one.is_success for one in answers] == [True] * 3, [one.text for one in answers]
        for path in ("/run", "/told"):
            found = await come(shop, path, len(JOBS))
            assert {one.headers["x-scheduling-job-id"] for one in found} == set(JOBS)
        unknown = define("other", "http://127.0.0.1:1/")
        unknown["request"][0]["sign"] = "none"
        refused = await client.post("/jobs/other", json=unknown)
        assert (refused.status_code, refused.json()["errors"][0]["code"]) == (422, "unknown_secret")


async def test_calendars_and_secrets_count_at_once_in_all_processes(tmp_path: Path) -> None:
    """For jobs that are created just after them, and after a change of them."""
    environ = {"PUNCTUAL_SECRETS_KEY": b64encode(bytes(range(32))).decode()}
    async with (
        Target(lambda: 0) as target,
        serving(tmp_path / "data", "--workers", "2", **environ) as client,
    ):
        for number in range(12):
            day = {"week": [1, 2, 3, 4, 5, 6, 7] if number % 2 else []}
            assert (await client.put(f"/calendars/days{number // 2}", json=day)).status_code == 200
            timer = {"period": "0 0 12 * * ?", "calendar": f"days{number // 2}"}
            noon = define(f"noon-{number}", target.url, timer=timer)
            data = data_of(await client.post(f"/jobs/noon-{number}", json=noon), 201)
            assert (data["nextFireTime"] is not None) == bool(number % 2)
            answer = await client.put(f"/secrets/S{number}", json={"value": f"t0p-secret-{number}"})
            assert answer.is_success, answer.text
            step = {"url": f"{target.url}/told", "headers": {"X-Secret": f"${{secrets.S{number}}}"}}
            told = define(f"told-{number}", "", request=[step])
            data_of(await client.post(f"/jobs/told-{number}", json=told), 201)
        async with asyncio.timeout(PATIENCE):
            while len(target.at("/told")) < 12:  # noqa: ASYNC110 - the target has no event for it
                await asyncio.sleep(0.02)
        assert {one.headers["x-secret"] for one in target.at("/told")} == {
            f"t0p-secret-{number}" for number in range(12)
        }


async def test_what_is_sent_again_after_a_kill_is_signed_then(tmp_path: Path) -> None:
    """Under the same id, with a time and a signature of its own."""
    async with Target(lambda: 0) as target:
        target.answers("/run", HELD)
        async with serving(tmp_path / "data") as client:
            step = {"url": f"{target.url}/run", "sign": "shop"}
            created = await client.post("/jobs/one", json=define("one", "", qos=1, request=[step]))
            assert created.status_code == 201, created.text
            (first,) = await come(target, "/run", 1)
            # A start takes longer than this forked one: no two are in one second.
            begun = int(first.headers["webhook-timestamp"]) - RESTART_SECONDS
            while time.time() < begun + 1:  # noqa: ASYNC110 - the clock of the machine has no event
                await asyncio.sleep(0.02)
        async with serving(tmp_path / "data"):
            first, again = await come(target, "/run", 2)
            assert first.headers["webhook-id"] == again.headers["webhook-id"]
            assert first.headers["webhook-timestamp"] < again.headers["webhook-timestamp"]
