"""What a job's function may know of its execution, and how it tells how far it is (SPEC sections 5, 16)."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from client_sdk.errors import NotWanted, SdkError
from client_sdk.target.reporting import AttemptReport, NoReporter, Reporter

LOG = logging.getLogger("client_sdk")
INTERVAL = 1.0
"""Seconds between two reports of progress; what comes between them is told with the next one."""


class Execution:
    """One attempt of a job, as the function that does its work sees it.

    `idempotency_key` is the same whenever the same step is sent again: use it to recognise work that is done
    already. `scheduled_at`: the planned moment, where work may be handed out early. `shard_index` from 0 and
    `shard_total`: the part of the work that is meant, None where there is one part. A parameter of this type
    is filled in by the SDK and is no parameter of the job.
    """

    def __init__(
        self,
        *,
        job_id: str,
        execute_number: int = 0,
        request_counts: int = 0,
        idempotency_key: str = "",
        scheduled_at: datetime | None = None,
        shard_index: int | None = None,
        shard_total: int | None = None,
        reporter: Reporter | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job_id = job_id
        self.execute_number = execute_number
        self.request_counts = request_counts
        self.idempotency_key = idempotency_key
        self.scheduled_at = scheduled_at
        self.shard_index = shard_index
        self.shard_total = shard_total
        self.loop = loop
        self._reporter = reporter or NoReporter()
        self._clock = clock

    def progress(self, total: int, *, message: str | None = None) -> "Progress":
        """Counts up to `total` and tells the scheduler, at most once a second.

        `async with execution.progress(60) as p: await p.advance()`; in a function that runs in a thread
        `with execution.progress(60) as p: p.advance()`.
        """
        return Progress(self, total=total, message=message, clock=self._clock)

    async def report(
        self, *, progress: str | None = None, message: str | None = None, data: Any = None
    ) -> None:
        """Tells that the work goes on. Raises NotWanted where nobody waits for it any more.

        A report that cannot be delivered is logged and given up: the next one says more. Does nothing in a
        synchronous call, whose answer says everything.
        """
        try:
            await self._reporter.report(AttemptReport(progress=progress, message=message, data=data))
        except NotWanted:
            raise
        except SdkError as error:
            LOG.warning("progress of %s was not taken: %s", self.job_id, error)

    async def conclude(self, verdict: AttemptReport) -> None:
        """Tells how the work ended; the SDK does it when the function has. Raises NotWanted, SdkError."""
        await self._reporter.report(verdict)


class Progress:
    """How far an execution is: `done` of `total`. Use it in `async with`, or in `with` within a thread."""

    def __init__(
        self, execution: Execution, *, total: int, message: str | None, clock: Callable[[], float]
    ) -> None:
        if total < 1:
            raise ValueError(f"total {total} is nothing to count to: give 1 or more")
        self.total = total
        self.done = 0
        self._message = message
        self._execution = execution
        self._clock = clock
        self._told: str | None = None
        self._told_at = float("-inf")

    def __enter__(self) -> "BlockingProgress":
        blocking = BlockingProgress(self, loop=self._execution.loop)
        blocking.run(self._tell())
        return blocking

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            BlockingProgress(self, loop=self._execution.loop).run(self._tell())

    async def __aenter__(self) -> Self:
        await self._tell()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self._tell()

    async def advance(self, by: int = 1, *, message: str | None = None) -> None:
        """`by` more are done. Raises NotWanted: stop."""
        await self.update(self.done + by, message=message)

    async def update(self, done: int, *, message: str | None = None) -> None:
        """`done` are done, at most `total`. Raises NotWanted: stop."""
        self.done = max(0, min(done, self.total))
        self._message = message if message is not None else self._message
        if self._clock() - self._told_at >= INTERVAL:
            await self._tell()

    async def _tell(self) -> None:
        text = f"{self.done}/{self.total}"
        if text == self._told:
            return
        self._told, self._told_at = text, self._clock()
        await self._execution.report(progress=text, message=self._message)


class BlockingProgress:
    """`Progress` for a function that runs in a thread."""

    def __init__(self, progress: Progress, *, loop: asyncio.AbstractEventLoop | None) -> None:
        self._progress = progress
        self._loop = loop

    @property
    def done(self) -> int:
        """So many are done."""
        return self._progress.done

    def advance(self, by: int = 1, *, message: str | None = None) -> None:
        """`by` more are done. Raises NotWanted: stop."""
        self.run(self._progress.advance(by, message=message))

    def update(self, done: int, *, message: str | None = None) -> None:
        """`done` are done, at most `total`. Raises NotWanted: stop."""
        self.run(self._progress.update(done, message=message))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Does `work` on the loop on which the execution lives; without one, here."""
        if self._loop is None:
            asyncio.run(work)
        else:
            asyncio.run_coroutine_threadsafe(work, self._loop).result()
