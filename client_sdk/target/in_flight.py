"""The work that is under way in this instance: each attempt once, however often it is asked for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple


class AttemptName(NamedTuple):
    """Names a piece of work. `key` is its Idempotency-Key, empty where it came with none."""

    job_id: str
    request_counts: int
    key: str


class AttemptsInFlight:
    """Tasks by what they work at. A call that repeats one, as after a crash of the scheduler, joins it."""

    def __init__(self) -> None:
        self._tasks: dict[AttemptName, asyncio.Task[Any]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, name: AttemptName, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """The task that does this work: the one that runs already, or a new one."""
        known = self._find(name)
        if known is not None:
            return known
        task = asyncio.get_running_loop().create_task(work())
        place = name if name.key else name._replace(key=f"\n{id(task)}")
        self._tasks[place] = task
        self._idle.clear()
        task.add_done_callback(lambda _: self._forget(place))
        return task

    def cancel(self, job_id: str, request_counts: int) -> int:
        """Stops the work of one attempt; answers how much that was."""
        found = [
            task
            for name, task in self._tasks.items()
            if (name.job_id, name.request_counts) == (job_id, request_counts)
        ]
        for task in found:
            task.cancel()
        return len(found)

    async def finish(self, grace: float) -> None:
        """Returns when all work is done; what is not done after `grace` seconds is stopped."""
        try:
            async with asyncio.timeout(grace):
                await self._idle.wait()
        except TimeoutError:
            for task in list(self._tasks.values()):
                task.cancel()
            await self._idle.wait()

    def _find(self, name: AttemptName) -> asyncio.Task[Any] | None:
        """A retry of a synchronous job has another attempt, but the same key."""
        if not name.key:
            return None
        same = (task for one, task in self._tasks.items() if (one.job_id, one.key) == (name.job_id, name.key))
        return next(same, None)

    def _forget(self, name: AttemptName) -> None:
        self._tasks.pop(name, None)
        if not self._tasks:
            self._idle.set()
