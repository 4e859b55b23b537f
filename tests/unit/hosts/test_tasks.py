"""The end of a node waits for the history, but not for ever (SPEC section 14)."""

import asyncio

import pytest

from scheduler_service.hosts.tasks import LEAST_PATIENCE_MS, close_history
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch, History
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
