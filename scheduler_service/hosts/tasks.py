"""The tasks of a node that nobody else awaits: kept until they end, so that a stop can wait for them."""

import asyncio
from collections.abc import Coroutine
from typing import Any


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
