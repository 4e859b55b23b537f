"""Tasks that begin again or are light, and the end of a node, which waits for its history."""

import asyncio
from typing import Any

import pytest

from scheduler_service.hosts.background_tasks import (
    AGAIN_MS,
    LEAST_PATIENCE_MS,
    LightTasks,
    close_history,
    keep_at,
)
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch, History
from scheduler_service.telemetry.log_events import VOCABULARY
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class HangingHistory(History):
    """Writes when the test lets it, or fails with `fault`."""

    fault: StoreUnavailable | None = None

    def __init__(self) -> None:
        self.may_write = asyncio.Event()
        self.closings = 0

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Takes nothing."""

    def is_behind(self) -> bool:
        return False

    async def flush(self) -> None:
        await self.close()

    async def close(self) -> None:
        self.closings += 1
        if self.fault is not None:
            raise self.fault
        await self.may_write.wait()


class Scene:
    """A history that is being closed, with the time and the log of it."""

    def __init__(self, history: HangingHistory, *, until: int) -> None:
        self.clock = ManualClock()
        self.said: list[tuple[str, object]] = []
        self.closing = asyncio.create_task(
            close_history(
                history,
                lambda event, /, **keys: self.said.append((event, keys["error"])),
                clock=self.clock,
                until=until,
            )
        )

    async def advance(self, pause: int) -> bool:
        """Whether the close has ended after so many ms."""
        for _ in range(5):
            await asyncio.sleep(0)
        self.clock.advance(pause)
        for _ in range(5):
            await asyncio.sleep(0)
        return self.closing.done()


@pytest.mark.parametrize(
    ("until", "patience"), [(0, LEAST_PATIENCE_MS), (3 * LEAST_PATIENCE_MS, 3 * LEAST_PATIENCE_MS)]
)
async def test_a_history_that_hangs_is_left_at_the_end_of_the_drain(until: int, patience: int) -> None:
    """It has five seconds in any case; then the log says what is not written."""
    scene = Scene(HangingHistory(), until=until)
    assert not await scene.advance(patience - 1)
    assert await scene.advance(1)
    await scene.closing
    assert scene.said == [("history_not_flushed", f"nothing was written in {patience} ms")]


async def test_a_history_that_writes_ends_the_wait() -> None:
    """Nothing is left behind: no alarm, no line."""
    history = HangingHistory()
    scene = Scene(history, until=0)
    assert not await scene.advance(1)
    history.may_write.set()
    assert await scene.advance(0)
    await scene.closing
    assert (scene.said, scene.clock.next_call(), history.closings) == ([], None, 2)


async def test_a_history_that_cannot_write_is_closed_all_the_same() -> None:
    """The rest of the node closes as well: the error is a line, no exception."""
    history = HangingHistory()
    history.fault = StoreUnavailable("the disk is full")
    scene = Scene(history, until=0)
    assert await scene.advance(0)
    await scene.closing
    assert history.closings == 2
    assert scene.said == [("history_not_flushed", "the disk is full")]


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


async def test_an_errand_runs_to_its_first_wait_at_once() -> None:
    """And goes on when that wait ends, with what came of it."""
    errands, said = LightTasks(), []
    send_guard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        said.append("before")
        said.append(await send_guard)

    errands.start(run())
    assert said == ["before"]
    assert len(errands) == 1
    send_guard.set_result("after")
    await errands.wait_for_all()
    assert said == ["before", "after"]


async def test_one_that_starts_soon_runs_nothing_inside_of_its_caller() -> None:
    """What it awaits is none of the caller's business."""
    errands, said = LightTasks(), []

    async def run() -> None:
        said.append(asyncio.current_task())

    errands.start_soon(run())
    assert said == []
    await errands.wait_for_all()
    assert said == [None]


async def test_an_error_that_is_awaited_is_raised_in_the_errand() -> None:
    """As in a task."""
    errands, caught = LightTasks(), []
    send_guard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            await send_guard
        except ValueError as error:
            caught.append(str(error))
        await asyncio.sleep(0)

    errands.start(run())
    send_guard.set_exception(ValueError("so"))
    await errands.wait_for_all()
    assert caught == ["so"]


@pytest.mark.parametrize("is_over", [False, True])
async def test_cancelling_ends_an_errand_where_it_waits(is_over: bool) -> None:
    """Also where its wait has just ended and it was not told yet: cleanly, by the way of its finally."""
    errands, said = LightTasks(), []
    send_guard: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            await send_guard
            said.append("on")
        finally:
            said.append("cleaned up")

    errand = errands.start(run())
    if is_over:
        send_guard.set_result(None)
    errand.cancel()
    await errands.wait_for_all()
    assert said == ["cleaned up"]


async def test_cancelling_before_the_start_runs_nothing() -> None:
    """A call that is abandoned in the turn that made it is never sent."""
    errands, said = LightTasks(), []

    async def run() -> None:
        said.append("on")

    errands.start_soon(run()).cancel()
    await errands.wait_for_all()
    assert said == []


async def test_an_errand_that_breaks_is_told_of_and_stops_nothing_else() -> None:
    """By the loop's handler, as a task's error is."""
    errands = LightTasks()
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    async def run() -> None:
        raise ValueError("so")

    errands.start(run())
    assert [str(one["exception"]) for one in told] == ["so"]
    assert len(errands) == 0


async def test_each_end_is_told_by_its_label() -> None:
    """Of one that ran through, broke, was cancelled, or never began."""
    ended: list[str] = []
    errands = LightTasks(on_end=ended.append)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(wait: bool, breaks: bool = False) -> None:
        if breaks:
            raise ValueError
        if wait:
            await never

    errands.start(run(wait=False), "through")
    errands.start(run(wait=False, breaks=True), "broken")
    assert ended == ["through", "broken"]
    errands.start(run(wait=True), "cancelled")
    errands.start_soon(run(wait=True), "never begun")
    errands.cancel()
    await errands.wait_for_all()
    assert sorted(ended[2:]) == ["cancelled", "never begun"]


async def test_waiting_ends_with_the_first_that_ends() -> None:
    """So that a place among many is taken again."""
    errands = LightTasks()
    gates = [asyncio.get_running_loop().create_future() for _ in range(2)]

    async def run(send_guard: "asyncio.Future[None]") -> None:
        await send_guard

    for send_guard in gates:
        errands.start(run(send_guard))
    waiting = asyncio.create_task(errands.wait())
    await asyncio.sleep(0)
    gates[1].set_result(None)
    await waiting
    assert len(errands) == 1
    gates[0].set_result(None)
    await errands.wait_for_all()
    await errands.wait()
