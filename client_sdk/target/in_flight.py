"""The attempts that run in this instance: each once, however often it is requested."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple


class AttemptName(NamedTuple):
    """Identifies an attempt. `key` is its Idempotency-Key, empty if it came without one."""

    job_id: str
    request_counts: int
    key: str


class AttemptsInFlight:
    """Tasks by attempt. A repeated call, as after a crash of the scheduler, joins the running task."""

    def __init__(self) -> None:
        self._tasks: dict[AttemptName, asyncio.Task[Any]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, name: AttemptName, work: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """The task of this attempt: the running one, or a new one."""
        known = self._find(name)
        if known is not None:
            return known
        task = asyncio.get_running_loop().create_task(work())
        unique = name if name.key else name._replace(key=f"\n{id(task)}")
        self._tasks[unique] = task
        self._idle.clear()
        task.add_done_callback(lambda _: self._forget(unique))
        return task

    def cancel(self, job_id: str, request_counts: int) -> int:
        """Cancels the tasks of one attempt; returns how many."""
        found = [
            task
            for name, task in self._tasks.items()
            if (name.job_id, name.request_counts) == (job_id, request_counts)
        ]
        for task in found:
            task.cancel()
        return len(found)

    async def finish(self, grace: float) -> None:
        """Returns when all tasks are done; those that are not after `grace` seconds are cancelled."""
        try:
            async with asyncio.timeout(grace):
                await self._idle.wait()
        except TimeoutError:
            for task in list(self._tasks.values()):
                task.cancel()
            await self._idle.wait()

    def _find(self, name: AttemptName) -> asyncio.Task[Any] | None:
        """The running task of the same key: a retry of a synchronous job has another attempt number."""
        if not name.key:
            return None
        same = (task for one, task in self._tasks.items() if (one.job_id, one.key) == (name.job_id, name.key))
        return next(same, None)

    def _forget(self, name: AttemptName) -> None:
        self._tasks.pop(name, None)
        if not self._tasks:
            self._idle.set()
