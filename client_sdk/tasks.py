"""Tasks that outlive the call that starts them: kept until they end, so that a stop can wait for them."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Tasks:
    """The tasks that were started here and have not ended yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs `work` as a task."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_for_one(self) -> None:
        """Returns when one of them has ended; at once if there are none."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def wait_for_all(self, timeout: float | None = None) -> None:
        """Returns when all have ended, also those started meanwhile, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                while self._tasks:
                    await asyncio.wait(self._tasks)
        except TimeoutError:
            return

    async def cancel(self) -> None:
        """Cancels all and returns when they have ended."""
        await cancel(*self._tasks)


async def cancel(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels the tasks and returns when they have ended, however they end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
