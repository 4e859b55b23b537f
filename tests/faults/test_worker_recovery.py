"""A worker process that is killed inside its recovery: what it had begun is taken up again, once."""

import asyncio
import json
import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.app.store_opening import shard_of
from tests.faults.processes import Run, start_run
from tests.faults.stories import TERMINAL
from tests.wire.target import HELD, Reply, Target

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]
SHARDS = 2
SHARD = 1
IN_SHARD = [name for name in (f"job-{number}" for number in range(80)) if shard_of(SHARDS)(name) == SHARD]
SETTINGS = {"server.workers": SHARDS, "server.drain_seconds": 1}


class Death:
    """Kills the worker process of the next start at the `at`-th commit to the file since it is there."""

    def __init__(self, data: Path, *, at: int) -> None:
        self.killed = 0
        self._lock = data / f"lock-{SHARD}"
        self._place = data / "state.db"
        self._before = self._lock.read_text()
        self._at = at
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self) -> None:
        """Watches no longer."""
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        with closing(sqlite3.connect(self._place)) as connection:
            while self._lock.read_text() in ("", self._before) and not self._is_over.is_set():
                time.sleep(0.0005)
            known, passed = self._version(connection), 0
            while passed < self._at and not self._is_over.is_set():
                time.sleep(0.0005)
                version = self._version(connection)
                passed += version - known
                known = version
        if passed >= self._at:
            self.killed = int(self._lock.read_text())
            os.kill(self.killed, signal.SIGKILL)

    @staticmethod
    def _version(connection: sqlite3.Connection) -> int:
        """A number that grows with each commit of another process."""
        found: int = connection.execute("PRAGMA data_version").fetchone()[0]
        return found


def define(job_id: str, target: Target) -> dict[str, Any]:
    """A job whose call is made again after a crash."""
    step = {"url": f"{target.url}/run/{job_id}", "method": "POST"}
    return {"jobId": job_id, "jobName": job_id, "qos": 1, "timer": {"period": "external"}, "request": [step]}


async def begin_all(run: Run, target: Target) -> set[str]:
    """The executions, one of each job, whose calls are under way."""
    jobs = [define(job_id, target) for job_id in IN_SHARD]
    assert (await run.ask("POST", "/jobs", json=jobs)).status_code == 200
    begun = set()
    for job_id in IN_SHARD:
        answer = await run.ask("POST", f"/jobs/{job_id}/trigger", json={})
        begun.add(answer.json()["data"]["executionId"])

    async def are_sent() -> bool:
        return len(target.at("/run")) == len(IN_SHARD)

    await run.until(are_sent, "all calls are under way")
    return begun


async def end_all(run: Run, wanted: int) -> dict[str, str]:
    """Execution → state, once so many have ended."""

    async def look() -> dict[str, str]:
        answer = await run.ask("GET", "/executions", params={"limit": 500})
        items = answer.json()["data"]["items"] if answer.is_success else []
        ended = {one["executionId"]: one["state"] for one in items if one["state"] in TERMINAL}
        return ended if len(ended) >= wanted else {}

    found: dict[str, str] = await run.until(look, f"{wanted} executions have ended")
    return found


def events(run: Run) -> list[str]:
    """What the log of a service, over all its lives, says of its starts and of its worker process."""
    lines = Path(run.order.log).read_text(encoding="utf-8").splitlines()
    told = (json.loads(line)["event"] for line in lines)
    return [event for event in told if event in ("ready", "worker_lost", "worker_restarted")]


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_what_was_taken_up_is_taken_up_again(tmp_path: Path, at: int) -> None:
    """Each execution ends once and succeeds; each call is the same one, made once more for each death."""
    data = tmp_path / "data"
    async with Target(lambda: 0) as target:
        target.always("/run", HELD)
        first = start_run(data, settings=SETTINGS)
        assert await first.is_up(), first.message
        begun = await begin_all(first, target)
        await first.kill()
        target.always("/run", Reply())
        death = Death(data, at=at)
        second = start_run(data, settings=SETTINGS)
        try:
            assert await second.is_up(), second.message
            ended = await end_all(second, len(begun))
        finally:
            await asyncio.to_thread(death.end)
        assert death.killed
        # Commits are counted from outside: on a busy machine the last of them is seen when the start is over.
        told = events(second)
        assert [event for event in told if event != "ready"] == ["worker_lost", "worker_restarted"]
        assert (told[0], told.count("ready")) == ("ready", 2)
        assert ended == dict.fromkeys(begun, "succeeded")
        sent = Counter(one.headers["idempotency-key"] for one in target.at("/run"))
        assert len(sent) == len(begun)
        assert max(sent.values()) <= 3
        assert await second.terminate() == 0
