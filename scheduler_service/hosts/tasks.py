"""The tasks of a node that nothing else awaits, and how a node drains (SPEC section 14)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from scheduler_service.domain.events import Activated, Created, Released, Triggered, Updated
from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log

STARTING = (Created, Updated, Triggered, Activated, Released)
"""The events that a draining host refuses, because they start something."""

STOPPING = "this node is stopping and starts nothing any more; ask again in a moment"
POLL_MS = 20
LEAST_PATIENCE_MS = 5 * SECOND
"""How long a node that stops waits for its history at least, also where its drain is over."""


class Tasks:
    """What was started here and has not ended yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs `work` as a task of its own, whoever stops waiting for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def wait_for_all(self) -> None:
        """Returns when those that run now have ended, however they end."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self) -> None:
        """Ends them all where they stand."""
        for task in self._tasks:
            task.cancel()
        await self.wait_for_all()


async def wait_for_rest(is_at_work: Callable[[], bool], *, clock: Timekeeper, end: int) -> None:
    """Returns when nothing is at work any more, or at `end` (steady ms)."""
    while is_at_work() and clock.now().steady < end:
        await clock.sleep(POLL_MS)


async def ends_within(pause: int, task: "asyncio.Task[Any]", *, clock: Timekeeper) -> bool:
    """Whether `task` has ended `pause` ms from now; it goes on in any case, also where this is cancelled."""
    late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    alarm = clock.call_after(pause, late.cancel)
    try:
        await asyncio.wait({task, late}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        alarm.cancel()
    return task.done()


async def close_history(history: History, log: Log, *, clock: Timekeeper, until: int) -> None:
    """Flushes the history as far as possible, then closes it. Never raises: the log says what failed.

    A history that hangs is left at `until` (steady ms), but not within the first five seconds. What it has
    not written of durable turns is in the store, and written after the next start.
    """
    patience = max(until - clock.now().steady, LEAST_PATIENCE_MS)
    closing = asyncio.create_task(_flush_and_close(history))
    if not await ends_within(patience, closing, clock=clock):
        closing.cancel()
        await asyncio.wait({closing})
        log("history_not_flushed", error=f"nothing was written in {patience} ms")
    elif error := closing.result():
        log("history_not_flushed", error=error)


async def _flush_and_close(history: History) -> str:
    """What has kept the history from writing; empty: all is written."""
    failure = ""
    try:
        await history.flush()
    except StoreError as error:
        failure = str(error)
    try:
        await history.close()
    except StoreError as error:
        failure = failure or str(error)
    return failure
