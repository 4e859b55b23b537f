"""The tasks of a node that nothing else awaits, and how a node drains (SPEC section 14)."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from scheduler_service.domain.events import Activated, Created, Released, Triggered, Updated
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log

STARTING = (Created, Updated, Triggered, Activated, Released)
"""The events that a draining host refuses, because they start something."""

STOPPING = "this node is stopping and starts nothing any more; ask again in a moment"
POLL_MS = 20


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


async def wait_for_rest(is_at_work: Callable[[], bool], *, clock: Timekeeper, grace: int) -> None:
    """Returns when nothing is at work any more, or after `grace` ms."""
    end = clock.now().steady + grace
    while is_at_work() and clock.now().steady < end:
        await clock.sleep(POLL_MS)


async def close_history(history: History, log: Log) -> None:
    """Flushes the history as far as possible, then closes it."""
    try:
        await history.flush()
    except StoreError as error:
        log("history_not_flushed", error=str(error))
    await history.close()
