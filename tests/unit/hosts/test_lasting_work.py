"""Work that has no end of its own goes on after a defect, and the log says so."""

import asyncio

import pytest

from scheduler_service.hosts.lasting_work import AGAIN_MS, keep_at
from scheduler_service.telemetry.vocabulary import VOCABULARY
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class Work:
    """Fails so often as `faults` says, then waits for its end."""

    def __init__(self, faults: int) -> None:
        self.begun = 0
        self.end = asyncio.Event()
        self._faults = faults

    async def run(self) -> None:
        """One life of it."""
        self.begun += 1
        if self.begun <= self._faults:
            raise ZeroDivisionError(f"fault {self.begun}")
        await self.end.wait()


async def test_work_begins_again_a_second_after_a_defect() -> None:
    """Each defect is one line with task, error and place; the work that then goes on is let alone."""
    clock, work, lines = ManualClock(), Work(faults=2), list[dict[str, object]]()

    def write(event: str, /, **keys: object) -> None:
        lines.append({"event": event, **keys})

    task = keep_at(work.run, name="sweep", clock=clock, log=write)
    for _ in range(3):
        for _ in range(5):
            await asyncio.sleep(0)
        clock.advance(AGAIN_MS - 1)
        for _ in range(5):
            await asyncio.sleep(0)
        seen = work.begun
        clock.advance(1)
        for _ in range(5):
            await asyncio.sleep(0)
        assert work.begun == min(seen + 1, 3)
    assert [line["event"] for line in lines] == ["task_failed"] * 2
    assert [line["error"] for line in lines] == ["ZeroDivisionError: fault 1", "ZeroDivisionError: fault 2"]
    assert all(line["task"] == "sweep" and "run" in str(line["where"]) for line in lines)
    assert "task_failed" in VOCABULARY
    work.end.set()
    await task


async def test_work_that_is_cancelled_does_not_begin_again() -> None:
    """A stop is no defect."""
    clock, work, lines = ManualClock(), Work(faults=0), list[str]()
    task = keep_at(work.run, name="sweep", clock=clock, log=lambda event, /, **keys: lines.append(event))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    clock.advance(AGAIN_MS)
    await asyncio.sleep(0)
    assert (work.begun, lines, task.cancelled()) == (1, [], True)
