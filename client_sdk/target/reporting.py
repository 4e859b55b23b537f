"""Reports of an execution to the scheduler: by feedback, or none (SPEC section 5)."""

from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from client_sdk.client.connection import Connection
from client_sdk.client.retrying import Patience
from client_sdk.errors import Absent, Conflict, Forbidden, NotWanted
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
