"""Whatever a real service of several processes sends is signed, by an implementation that is not ours."""

import asyncio
import json
import time
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
from tests.wire.target import HELD, Seen, Target

pytestmark = pytest.mark.timeout(180)
JOBS = [f"job-{number}" for number in range(6)]
"""So many that each of two processes has some of them."""
SECRETS = json.dumps({"default": {"shop": [NEW, OLD]}})


@asynccontextmanager
async def serving(data: Path, *further: str) -> AsyncIterator[httpx.AsyncClient]:
    """A service with these secrets, killed at the end."""
    environ = {"PUNCTUAL_SIGNING__SECRETS": SECRETS, "PUNCTUAL_SERVICES__OFFLINE_SECONDS": "600"}
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
