"""A crowd whose turns are taken ahead of its moment, killed between those and the moment (decision 17)."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler_service.engine.admission import NOTHING_SENT
from tests.faults.processes import Caller, Run, start_run
from tests.faults.target import Seen, Target, open_target

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

CROWD = 600
BEGINS = 4.0
"""Seconds until the moment, at least: the crowd is created long before, also on a busy machine."""
POINTS = (1, 3, 5, 7, 11)
"""Before commits, and after them: the first ones are those of the firings, ahead of the moment."""
BEARABLE = 0.002
"""Seconds by which two clocks of this machine may differ when one is read after the other."""
AT_ONCE = 2
MOST_CROWDS = 10
SETTINGS = {"store.durability": "process"}


class Crowd:
    """Jobs of one step, all due at one whole second."""

    def __init__(self, target: Target, qos: int) -> None:
        self.moment = int(time.time() + BEGINS) + 1
        due = datetime.fromtimestamp(self.moment, UTC).strftime("%Y-%m-%d %H:%M:%S")
        self.jobs = [
            {
                "jobId": f"job-{number}", "jobName": "crowd", "creator": "1", "creatorName": "one",
                "qos": qos, "timer": {"dueTime": due, "period": "0s", "timezone": "UTC"},
                "request": [{"url": f"{target.url}/{number}", "body": {"n": number}}],
            }
            for number in range(CROWD)
        ]  # fmt: skip

    async def create(self, run: Run) -> None:
        """All in one array. Raises Crashed."""
        answer = await run.ask("POST", "/jobs", json=self.jobs)
        items = answer.json()["data"]["items"]
        assert Counter((item["status"], len(item["warnings"])) for item in items) == {("created", 0): CROWD}

    async def ended(self, run: Caller) -> list[dict[str, Any]]:
        """Their executions, when all have ended. Raises Crashed."""

        async def look() -> list[dict[str, Any]]:
            found = await _read_all(run)
            return found if sum(one["state"] in ("succeeded", "terminated") for one in found) >= CROWD else []

        found: list[dict[str, Any]] = await run.until(look, f"{CROWD} executions have ended")
        return found


class Fate(msgspec.Struct):
    """What became of one crowd: what was sent in each life, and how its executions ended in the second."""

    moment: float
    killed: float
    first: list[Seen]
    second: list[Seen]
    executions: list[dict[str, Any]]
    begun_anew: int

    @property
    def lost(self) -> list[str]:
        """The jobs whose executions were cut off."""
        return [one["jobId"] for one in self.executions if one["error"] == "lost"]


async def kill_one(folder: Path, qos: int, points: int) -> Fate:
    """A crowd in a service that dies so many points after the creation, and what is made of it."""
    async with open_target() as target:
        run = start_run(folder, settings=SETTINGS, only=("state.commit",), tells=True)
        assert await run.is_up(), run.message
        crowd = Crowd(target, qos)
        await crowd.create(run)
        await run.pass_points(points)
        await run.kill()
        killed = time.monotonic()
        first = list(target.seen)
        again = start_run(folder, settings=SETTINGS)
        assert await again.is_up(), again.message
        executions = await crowd.ended(again)
        details = [await again.read(f"/executions/{one['executionId']}") for one in executions]
        begun_anew = sum(one["attempts"][0]["reason"] == NOTHING_SENT for one in details)
        assert await again.terminate() == 0
        moment = crowd.moment - time.time() + time.monotonic()
        return Fate(moment, killed, first, target.seen[len(first) :], executions, begun_anew)


async def kill_many(folder: Path, qos: int, is_ahead: Callable[[Fate], bool]) -> list[Fate]:
    """The same at each of `POINTS`; on a busy machine again, until one was killed ahead of its moment."""
    fates: list[Fate] = []
    while not any(map(is_ahead, fates)):
        assert len(fates) < MOST_CROWDS, f"none of {len(fates)} was killed ahead of its moment"
        fates += await kill_each(folder / str(len(fates)), qos)
    return fates


async def kill_each(folder: Path, qos: int) -> list[Fate]:
    """One crowd for each of `POINTS`."""
    folder.mkdir()
    places = asyncio.Semaphore(AT_ONCE)

    async def kill(point: int) -> Fate:
        async with places:
            return await kill_one(folder / str(point), qos, point)

    return await asyncio.gather(*map(kill, POINTS))


def check(fate: Fate) -> None:
    """What holds at both qos: each job has one execution, nothing leaves ahead of the moment."""
    assert Counter(one["jobId"] for one in fate.executions) == {f"job-{n}": 1 for n in range(CROWD)}
    seen = [*fate.first, *fate.second]
    assert all(one.at >= fate.moment - BEARABLE for one in seen)
    assert len({one.text for one in seen}) == len({one.path for one in seen})


async def test_what_was_durable_is_sent_at_qos_1(tmp_path: Path) -> None:
    """Every job succeeds once; what was on its way when the service died is sent again, with its key."""
    fates = await kill_many(tmp_path, 1, lambda fate: not fate.first)
    for fate in fates:
        check(fate)
        assert {one["state"] for one in fate.executions} == {"succeeded"}
        assert len({one.path for one in (*fate.first, *fate.second)}) == CROWD
        assert set(Counter(one.path for one in fate.second).values()) <= {1}


async def test_what_had_begun_is_lost_at_qos_0(tmp_path: Path) -> None:
    """It is closed as lost and never sent again; all others are sent once, late: all, ahead of the moment."""
    fates = await kill_many(tmp_path, 0, lambda fate: fate.begun_anew > 0)
    for fate in fates:
        check(fate)
        sent = Counter(one.path.strip("/") for one in (*fate.first, *fate.second))
        assert set(sent.values()) <= {1}
        kept = {one["jobId"] for one in fate.executions if one["state"] == "succeeded"}
        assert len(kept) + len(fate.lost) == CROWD
        assert kept <= {f"job-{number}" for number in sent}
        assert {one.path for one in fate.second}.isdisjoint(f"/{name[4:]}" for name in fate.lost)
        if fate.killed < fate.moment:
            assert (fate.first, fate.lost) == ([], [])


async def _read_all(run: Caller) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await run.read("/executions", limit=500, **cursor)
        found += page["items"]
        if page["nextCursor"] is None:
            return found
        cursor = {"cursor": page["nextCursor"]}
