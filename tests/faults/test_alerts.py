"""What is lost of a running service is told, and that it is back: a worker process, the store of the jobs."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.app.store_opening import shard_of
from tests.wire.processes.process import Process, serve
from tests.wire.target import Target

pytestmark = pytest.mark.timeout(120)
PATIENCE = 60.0
WORKERS = 2
SECRET = "Bearer a-secret"


@asynccontextmanager
async def served(folder: Path, kind: str, *further: str) -> AsyncIterator[tuple[Process, Target]]:
    """A service with an alert for this kind, whose job lies in the shard of a worker process."""
    name = next(one for one in ("a", "b", "c", "d", "e") if shard_of(WORKERS)(f"alert.{one}") == 1)
    async with Target(lambda: int(time.time() * 1_000)) as target:
        alert = {
            "name": name,
            "on": [kind],
            "url": f"{target.url}/hook?key=a-key",
            "headers": {"Authorization": SECRET},
            "minIntervalSeconds": 0,
        }
        given = {"PUNCTUAL_ALERTS": json.dumps([alert]), "PUNCTUAL_EGRESS__ALLOW": '["127.0.0.0/8"]'}
        with serve(folder / "data", *further, **given) as process:
            await asyncio.to_thread(process.wait_for_line, '"ready"')
            yield process, target
            assert await asyncio.to_thread(process.stop) == 0


async def told(target: Target, many: int) -> list[dict[str, Any]]:
    """So many messages, each with the true header and query."""
    async with asyncio.timeout(PATIENCE):
        while len(target.at("/hook")) < many:  # noqa: ASYNC110 - another process sends them
            await asyncio.sleep(0.1)
    found = target.at("/hook")
    assert {one.headers["authorization"] for one in found} == {SECRET}
    assert [one.query for one in found] == [{"key": "a-key"}] * len(found)
    return [one.json for one in found]


@pytest.mark.long
async def test_a_killed_worker_process_is_told_and_that_it_runs_again(tmp_path: Path) -> None:
    """By its number; the job that sends it may lie in that very process."""
    async with served(tmp_path, "workerLost", "--workers", str(WORKERS)) as (process, target):
        pid = process.pid
        (worker,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(worker), signal.SIGKILL)
        messages = await told(target, 1)
        if messages[-1]["kind"] != "recovered":
            messages = await told(target, 2)
        assert {one["subject"] for one in messages} == {"1"}
        assert (messages[-1]["kind"], messages[-1]["of"]) == ("recovered", "workerLost")
