"""The attempts that run in this instance: each once, however often it is requested."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from client_sdk.loops import cancel
from client_sdk.target.execution import Execution
from client_sdk.target.invoke import STOP_SECONDS

NOTICE_SECONDS = 0.25
"""The end of an execution may be noticed here so much later than the begin of the next one."""


class AttemptName(NamedTuple):
    """Identifies an attempt. `key` is its Idempotency-Key, empty if it came without one."""

    job_id: str
    request_counts: int
    key: str


class RunningAttempt:
    """One attempt, and how many callers wait for its end."""

    def __init__(self, task: "asyncio.Task[Any]", execution: Execution) -> None:
        self.task = task
        self.execution = execution
        self.callers = 0
        self.is_stopping = False

    def stop(self) -> None:
        """Cancels it; a thread sees `is_wanted`."""
        self.is_stopping = True
        self.execution.is_wanted = False
        self.task.cancel()


class AttemptsInFlight:
    """Tasks by attempt. A repeated call, as after a crash of the scheduler, joins the running task.

    The later deadline of the two then counts.
    """

    def __init__(self) -> None:
        self._running: dict[AttemptName, RunningAttempt] = {}
        self._threads: set[Execution] = set()
        """Executions that have ended, and whose threads run on."""
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._running)

    def start(
        self, name: AttemptName, execution: Execution, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> RunningAttempt:
        """This attempt: the running one, or a new one."""
        known = self._find(name)
        if known is not None:
            known.execution.extend(execution.deadline)
            return known
        task = asyncio.get_running_loop().create_task(work())
        running = RunningAttempt(task, execution)
        unique = name if name.key and name not in self._running else name._replace(key=f"\n{id(task)}")
        self._running[unique] = running
        self._idle.clear()
        task.add_done_callback(lambda _: self._forget(unique))
        return running

    async def wait(self, running: RunningAttempt, gone: Callable[[], Awaitable[Any]]) -> bool:
        """Waits for its end, or for `gone`; whether it has ended. Without a caller an attempt is stopped."""
        running.callers += 1
        leaving = asyncio.ensure_future(gone())
        try:
            await asyncio.wait([running.task, leaving], return_when=asyncio.FIRST_COMPLETED)
            return running.task.done()
        finally:
            running.callers -= 1
            if not running.callers and not running.task.done():
                running.stop()
            await cancel(leaving)

    async def wait_for_older(self, execution: Execution, most: float) -> None:
        """Returns when earlier attempts of fewer than `most` executions of the job run here.

        What was cancelled has some seconds to end. Others are waited for only as long as it may take until
        their cancellation is noticed: the scheduler knows how many may run.
        """
        loop = asyncio.get_running_loop()
        since = loop.time()
        while True:
            running = [one for one in self._running.values() if _is_older(one.execution, execution)]
            threads = [one for one in self._threads if _is_older(one, execution)]
            is_stopping = bool(threads) or any(one.is_stopping for one in running)
            left = since + (STOP_SECONDS if is_stopping else NOTICE_SECONDS) - loop.time()
            older = {one.execute_number for one in (*threads, *(one.execution for one in running))}
            if len(older) < most or left <= 0:
                return
            ends = [
                *(one.task for one in running),
                *(one.thread for one in threads if one.thread is not None),
            ]
            await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)

    def cancel(self, job_id: str, request_counts: int) -> int:
        """Cancels the tasks of one attempt; returns how many."""
        found = [
            running
            for name, running in self._running.items()
            if (name.job_id, name.request_counts) == (job_id, request_counts)
        ]
        for running in found:
            running.stop()
        return len(found)

    async def finish(self, grace: float) -> None:
        """Returns when all tasks are done; those that are not after `grace` seconds are cancelled."""
        try:
            async with asyncio.timeout(grace):
                await self._idle.wait()
        except TimeoutError:
            for running in list(self._running.values()):
                running.stop()
            await self._idle.wait()

    def _find(self, name: AttemptName) -> RunningAttempt | None:
        """The running attempt of the same key: a retry of a synchronous job has another attempt number."""
        if not name.key:
            return None
        wanted = (name.job_id, name.key)
        same = (
            running
            for one, running in self._running.items()
            if (one.job_id, one.key) == wanted and not running.is_stopping
        )
        return next(same, None)

    def _forget(self, name: AttemptName) -> None:
        execution = self._running.pop(name).execution
        thread = execution.thread
        if thread is not None and not thread.done():
            self._threads.add(execution)
            thread.add_done_callback(lambda _: self._threads.discard(execution))
        if not self._running:
            self._idle.set()


def _is_older(one: Execution, other: Execution) -> bool:
    """Attempts are counted over all executions of a job; a part of the same one has the same number."""
    return one.job_id == other.job_id and 0 < one.request_counts < other.request_counts
