"""The clock is set by an hour: nothing is repeated, what was missed is accounted for (SPEC section 3)."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.faults.inside import Inside, Wall, open_inside
from tests.faults.jobs import ended, plain
from tests.faults.processes import Caller
from tests.faults.target import Target, open_target

HOUR = 3600


async def followed(inside: Inside) -> None:
    """Returns when the service has noticed."""

    async def look() -> bool:
        return "clock_stepped" in inside.log

    await inside.until(look, "the service has noticed that the clock was set")


async def create(inside: Caller, definition: dict[str, Any]) -> None:
    answer = await inside.ask("POST", "/jobs/job", json=definition)
    assert answer.status_code == 201, answer.text


async def test_set_forward_it_makes_misfires(tmp_path: Path) -> None:
    """Sixty firings of an hour: the missed ones become one, and the last one is merely late."""
    wall = Wall()
    async with open_target() as target, open_inside(tmp_path / "data", wall=wall) as inside:
        timer = {"dueTime": "30s", "period": "60s"}
        await create(inside, plain(target, timer=timer, overlapPolicy="queue"))
        wall.shift += HOUR
        await followed(inside)
        executions = await ended(inside, 2)

        async def accounted() -> list[dict[str, Any]] | None:
            items: list[dict[str, Any]] = (await inside.read("/jobs/job/firings"))["items"]
            return items if any(one["outcome"] == "skipped" for one in items) else None

        firings = await inside.until(accounted, "the missed firings stand in the ledger")
    assert [one["state"] for one in executions] == ["succeeded", "succeeded"]
    assert executions[0]["latenessMs"] > 60_000 > executions[1]["latenessMs"] > 1000
    missed = [one for one in firings if one["outcome"] == "skipped"]
    assert {one["reason"] for one in missed} == {"misfire"}
    assert sum(one["count"] or 1 for one in missed) + len(executions) == 60
    assert len(target.seen) == 2


async def test_set_back_it_repeats_nothing(tmp_path: Path) -> None:
    """A firing that was is not made again; a moment that comes a second time is not the next one."""
    wall = Wall()
    async with open_target() as target, open_inside(tmp_path / "data", wall=wall) as inside:
        await create(inside, plain(target, timer={"dueTime": "0s", "period": "60s"}))
        await ended(inside, 1)
        first = (await inside.read("/jobs/job"))["nextFireTime"]
        wall.shift -= HOUR
        await followed(inside)
        trigger = await inside.ask("POST", "/jobs/job/trigger")
        assert trigger.status_code == 200
        executions = await ended(inside, 2)
        job = await inside.read("/jobs/job")
        firings = (await inside.read("/jobs/job/firings"))["items"]
    assert job["nextFireTime"] >= first
    assert [one["triggeredBy"] for one in executions] == ["timer", "manual"]
    assert [one["outcome"] for one in firings] == ["fired"]
    assert len(target.seen) == 2


@pytest.mark.parametrize("step", [HOUR, -HOUR])
async def test_limits_and_waits_keep_what_is_left(tmp_path: Path, step: int) -> None:
    """A call in flight is not timed out by the step, and the wait for a retry neither ends nor stretches."""
    wall = Wall()
    async with open_target() as target, open_inside(tmp_path / "data", wall=wall) as inside:
        gate = target.hold("/two")
        request = [{"url": f"{target.url}/two"}]
        retry = [{"errorEquals": "500", "intervalSeconds": 1.5}]
        await create(inside, plain(target, qos=1, request=request, retry=retry, timer={}))
        await inside.until(lambda: _asked(target, 1), "the target was asked")
        wall.shift += step
        await followed(inside)
        gate.set()
        answered = time.monotonic()
        executions = await ended(inside, 1)
        assert [(one["state"], one["attemptCount"]) for one in executions] == [("succeeded", 2)]
    assert 1.4 < target.seen[1].at - answered < 30


async def test_a_skew_outlives_a_restart(tmp_path: Path) -> None:
    """A retry that waits while the clock is set and the service restarted comes when it was planned."""
    wall = Wall()
    async with open_target() as target:
        retry = [{"errorEquals": "500", "intervalSeconds": 3}]
        definition = plain(target, qos=1, request=[{"url": f"{target.url}/two"}], retry=retry, timer={})
        async with open_inside(tmp_path / "data", wall=wall) as inside:
            await create(inside, definition)
            await inside.until(lambda: _asked(target, 1), "the target was asked")
            wall.shift -= HOUR
            await followed(inside)
        async with open_inside(tmp_path / "data", wall=wall) as inside:
            executions = await ended(inside, 1)
            assert [(one["state"], one["attemptCount"]) for one in executions] == [("succeeded", 2)]


async def _asked(target: Target, count: int) -> bool:
    return len(target.seen) >= count


async def test_a_call_names_its_deadline_by_the_clock_of_the_service(tmp_path: Path) -> None:
    """`X-Scheduling-Deadline` and the moments of the execution are of one time line (SPEC section 13)."""
    wall = Wall()
    wall.shift += HOUR
    async with open_target() as target, open_inside(tmp_path / "data", wall=wall) as inside:
        await create(inside, plain(target, timer={"dueTime": "0s"}, timeoutSeconds=60))
        (execution,) = await ended(inside, 1)
    said = datetime.fromisoformat(target.seen[0].headers["x-scheduling-deadline"])
    assert 50 < (said - datetime.fromisoformat(execution["startedAt"])).total_seconds() < 70
