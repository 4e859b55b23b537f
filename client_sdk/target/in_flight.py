"""The attempts that run in this instance: each once, however often it is requested."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from client_sdk.target.execution import Execution


class AttemptName(NamedTuple):
    """Identifies an attempt. `key` is its Idempotency-Key, empty if it came without one."""

    job_id: str
    request_counts: int
    key: str


class _Running(NamedTuple):
    task: asyncio.Task[Any]
    execution: Execution


class AttemptsInFlight:
    """Tasks by attempt. A repeated call, as after a crash of the scheduler, joins the running task.

    The later deadline of the two then counts.
    """

    def __init__(self) -> None:
        self._running: dict[AttemptName, _Running] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._running)

    def start(
        self, name: AttemptName, execution: Execution, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> asyncio.Task[Any]:
        """The task of this attempt: the running one, or a new one."""
        known = self._find(name)
        if known is not None:
            known.execution.extend(execution.deadline)
            return known.task
        task = asyncio.get_running_loop().create_task(work())
        unique = name if name.key else name._replace(key=f"\n{id(task)}")
        self._running[unique] = _Running(task, execution)
        self._idle.clear()
        task.add_done_callback(lambda _: self._forget(unique))
        return task

    def cancel(self, job_id: str, request_counts: int) -> int:
        """Cancels the tasks of one attempt; returns how many."""
        found = [
            running.task
            for name, running in self._running.items()
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
            for running in list(self._running.values()):
                running.task.cancel()
            await self._idle.wait()

    def _find(self, name: AttemptName) -> _Running | None:
        """The running attempt of the same key: a retry of a synchronous job has another attempt number."""
        if not name.key:
            return None
        wanted = (name.job_id, name.key)
        same = (running for one, running in self._running.items() if (one.job_id, one.key) == wanted)
        return next(same, None)

    def _forget(self, name: AttemptName) -> None:
        self._running.pop(name, None)
        if not self._running:
            self._idle.set()
