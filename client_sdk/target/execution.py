"""A job's execution as its function sees it; its reports to the scheduler (SPEC sections 5, 16)."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from client_sdk.client.call_retries import Patience
from client_sdk.client.connection import Connection
from client_sdk.errors import Absent, Conflict, Forbidden, NotWanted, SdkError
from client_sdk.outages import PROGRESS, OutageLog
from client_sdk.target.containment import readable
from client_sdk.traces import TRACEPARENT, current_traceparent

SUCCEED, FAILED = "succeed", "failed"
END_PATIENCE = Patience(retries=40, longest_wait=10.0)
"""An end is reported for minutes: the scheduler may be restarting."""
PROGRESS_PATIENCE = Patience(retries=1)
"""Progress is retried once: the work waits for the report, and the next one replaces it."""


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """A report in the form of SPEC section 5. `status` empty: the work continues."""

    status: str = ""
    error: str | None = None
    message: str | None = None
    progress: str | None = None
    data: Any = None

    def wire(self) -> dict[str, Any]:
        """The JSON to send, without members that are None."""
        given = {name: getattr(self, name) for name in ("error", "message", "progress", "data")}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {
            "status": self.status,
            "datetime": moment,
            **{name: value for name, value in given.items() if value is not None},
        }


class Reporter(Protocol):
    """Sends the reports of an execution."""

    async def report(self, report: AttemptReport) -> None:
        """Sends a report. Raises NotWanted if this attempt is no longer awaited, other SdkError."""


class FeedbackReporter:
    """Posts the feedback of one attempt to the scheduler of `connection`.

    Only the path and query of the call's feedback URL are used, never its host, so that a caller cannot make
    this service send requests to another host.
    """

    def __init__(self, *, connection: Connection, url: str, traceparent: str = "") -> None:
        self._connection = connection
        self._traceparent = traceparent
        self._path, self._query = read_feedback_url(url)

    async def report(self, report: AttemptReport) -> None:
        """Posts it, within the trace of the call. Raises NotWanted, other SdkError."""
        traceparent = current_traceparent() or self._traceparent
        try:
            await self._connection.send(
                "POST",
                self._path,
                query=self._query,
                body=report.wire(),
                headers={TRACEPARENT: traceparent} if traceparent else None,
                patience=END_PATIENCE if report.status else PROGRESS_PATIENCE,
            )
        except (Conflict, Absent, Forbidden) as refusal:
            raise NotWanted(f"this attempt is no longer awaited: {refusal.detail}") from refusal


def read_feedback_url(url: str) -> tuple[str, dict[str, str]]:
    """Path and query of a feedback URL. Raises ValueError if it is not one."""
    parts = urlsplit(url)
    segments = parts.path.rsplit("/", 4)[1:]
    if len(segments) != 4 or segments[0] != "jobs" or segments[2] != "feedback":
        raise ValueError(f"{_without_token(url)!r} is not a feedback URL")
    job_id, counts = unquote(segments[1]), segments[3]
    if not (counts.isascii() and counts.isdigit()):
        text = "is not a feedback URL: it does not end with requestCounts"
        raise ValueError(f"{_without_token(url)!r} {text}")
    return f"/jobs/{quote(job_id, safe=':')}/feedback/{counts}", dict(parse_qsl(parts.query))


def _without_token(url: str) -> str:
    return url.partition("?")[0][:200]


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
