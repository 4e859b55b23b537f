"""A job's execution as its function sees it, and its progress reports (SPEC sections 5, 16)."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Self

from client_sdk.errors import NotWanted, SdkError
from client_sdk.outages import PROGRESS, OutageLog
from client_sdk.target.containment import readable
from client_sdk.target.reporting import AttemptReport, Reporter

REPORT_SECONDS = 1.0
"""Between two progress reports; updates between them go out with the next one."""


class Execution:
    """One attempt of a job, as its function sees it.

    `idempotency_key` is the same whenever the same step is sent again: use it to recognise work that is
    already done. `scheduled_at`: the planned moment, if work may be handed out early. `shard_index` (from 0)
    and `shard_total` identify the part of the work; None if there is one part. `deadline`: until when the
    work is awaited. Then a coroutine is cancelled, and `is_wanted` is False: a thread cannot be cancelled.
    `traceparent`: the context of the call's trace, to pass on with what it sends; empty: none.
    The SDK fills in a function's parameter of this type; it is not a parameter of the job.
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
        deadline: datetime | None = None,
        traceparent: str = "",
        reporter: Reporter | None = None,
        outages: OutageLog | None = None,
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
        self.deadline = deadline
        self.traceparent = traceparent
        self.is_wanted = True
        self.thread: asyncio.Future[None] | None = None
        """Done when the thread in which the function runs has ended, for the SDK."""
        self.loop = loop
        self._reporter = reporter
        self._outages = outages or OutageLog()
        self._clock = clock

    def progress(self, total: int, *, message: str | None = None) -> "Progress":
        """Counts up to `total` and reports to the scheduler, at most once a second.

        `async with execution.progress(60) as p: await p.advance()`; in a function that runs in a thread
        `with execution.progress(60) as p: p.advance()`.
        """
        return Progress(self, total=total, message=message, clock=self._clock)

    def __str__(self) -> str:
        return f"execution {self.execute_number}, attempt {self.request_counts}"

    async def report(
        self, *, progress: str | None = None, message: str | None = None, data: Any = None
    ) -> None:
        """Reports progress. Raises NotWanted if the work is no longer awaited.

        A report that cannot be delivered is dropped, as the next one replaces it; an outage is logged when it
        begins, once a minute, and when it ends. Sends nothing in a synchronous call, whose outcome is its
        answer.
        """
        if not self.is_wanted:
            raise NotWanted("the work is no longer awaited: it was cancelled, or its deadline has passed")
        if self._reporter is None:
            return
        try:
            text = None if message is None else readable(message)
            await self._reporter.report(AttemptReport(progress=progress, message=text, data=data))
        except NotWanted:
            raise
        except SdkError as error:
            self._outages.failed(PROGRESS, self.job_id, error)
        else:
            self._outages.succeeded(PROGRESS)

    def extend(self, deadline: datetime | None) -> None:
        """Sets the later deadline; None is no limit. A repeated call awaits the work that runs already."""
        if self.deadline is not None and (deadline is None or deadline > self.deadline):
            self.deadline = deadline

    async def conclude(self, verdict: AttemptReport) -> None:
        """Reports the end of the work; the SDK calls it after the function. Raises NotWanted, SdkError."""
        if self._reporter is not None:
            await self._reporter.report(verdict)


class Progress:
    """The progress of an execution, `done` of `total`. Use it in `async with`, or in `with` in a thread."""

    def __init__(
        self, execution: Execution, *, total: int, message: str | None, clock: Callable[[], float]
    ) -> None:
        if total < 1:
            raise ValueError(f"total {total} is too small: give 1 or more")
        self.total = total
        self.done = 0
        self._message = message
        self._execution = execution
        self._clock = clock
        self._reported: str | None = None
        self._reported_at = float("-inf")

    def __enter__(self) -> "BlockingProgress":
        blocking = BlockingProgress(self, loop=self._execution.loop)
        blocking.run(self._report())
        return blocking

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            BlockingProgress(self, loop=self._execution.loop).run(self._report())

    async def __aenter__(self) -> Self:
        await self._report()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self._report()

    async def advance(self, by: int = 1, *, message: str | None = None) -> None:
        """Adds `by` to what is done. Raises NotWanted: stop."""
        await self.update(self.done + by, message=message)

    async def update(self, done: int, *, message: str | None = None) -> None:
        """Sets what is done, at most `total`. Raises NotWanted: stop."""
        self.done = max(0, min(done, self.total))
        self._message = message if message is not None else self._message
        if self._clock() - self._reported_at >= REPORT_SECONDS:
            await self._report()

    async def _report(self) -> None:
        text = f"{self.done}/{self.total}"
        if text == self._reported:
            return
        self._reported, self._reported_at = text, self._clock()
        await self._execution.report(progress=text, message=self._message)


class BlockingProgress:
    """`Progress` for a function that runs in a thread."""

    def __init__(self, progress: Progress, *, loop: asyncio.AbstractEventLoop | None) -> None:
        self._progress = progress
        self._loop = loop

    @property
    def done(self) -> int:
        """How many are done."""
        return self._progress.done

    def advance(self, by: int = 1, *, message: str | None = None) -> None:
        """Adds `by` to what is done. Raises NotWanted: stop."""
        self.run(self._progress.advance(by, message=message))

    def update(self, done: int, *, message: str | None = None) -> None:
        """Sets what is done, at most `total`. Raises NotWanted: stop."""
        self.run(self._progress.update(done, message=message))

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` on the execution's event loop; without one, in this thread.

        Raises NotWanted where the application has ended, and its loop with it.
        """
        if self._loop is None:
            asyncio.run(work)
            return
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise NotWanted("the work is no longer awaited: its application has ended") from None
        future.result()
