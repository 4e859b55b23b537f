"""How an execution tells the scheduler of itself: by feedback, or not at all (SPEC section 5)."""

from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import msgspec

from client_sdk.client.connection import Connection
from client_sdk.client.retrying import Patience
from client_sdk.errors import Absent, Conflict, Forbidden, NotWanted

SUCCEED, FAILED = "succeed", "failed"
VERDICT = Patience(retries=40, longest_wait=10.0)
"""An end is told again and again, for minutes: the scheduler may just be starting anew."""
PASSING = Patience(retries=1)
"""Progress is told once more at most: the work does not wait for it, and the next report says more."""


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is told, in the one form of SPEC section 5. `status` empty: it goes on."""

    status: str = ""
    error: str | None = None
    message: str | None = None
    progress: str | None = None
    data: Any = None

    def wire(self) -> dict[str, Any]:
        """The JSON that is sent; what is not said is left out."""
        said = {name: getattr(self, name) for name in ("error", "message", "progress", "data")}
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {
            "status": self.status,
            "datetime": moment,
            **{name: value for name, value in said.items() if value is not None},
        }


class Reporter(Protocol):
    """The way of an execution's reports."""

    async def report(self, report: AttemptReport) -> None:
        """Tells it once. Raises NotWanted where nobody waits for this attempt any more, other SdkError."""


class NoReporter:
    """Nobody is told: the answer of a synchronous call says everything."""

    async def report(self, report: AttemptReport) -> None:
        """Does nothing."""


class FeedbackReporter:
    """Feedback of one attempt, posted to the scheduler that `connection` knows.

    Of the feedback URL that came with the call only what names the attempt is used, never its host: whoever
    calls this service cannot make it speak to somebody else.
    """

    def __init__(self, *, connection: Connection, url: str) -> None:
        self._connection = connection
        self._path, self._query = read_feedback_url(url)

    async def report(self, report: AttemptReport) -> None:
        """Posts it. Raises NotWanted, other SdkError."""
        try:
            await self._connection.send(
                "POST",
                self._path,
                query=self._query,
                body=report.wire(),
                patience=VERDICT if report.status else PASSING,
            )
        except (Conflict, Absent, Forbidden) as refusal:
            raise NotWanted(f"nobody waits for this attempt any more: {refusal.detail}") from refusal


def read_feedback_url(url: str) -> tuple[str, dict[str, str]]:
    """Path and query of the feedback route that `url` leads to. Raises ValueError where it is none."""
    parts = urlsplit(url)
    segments = parts.path.rsplit("/", 4)[1:]
    if len(segments) != 4 or segments[0] != "jobs" or segments[2] != "feedback":
        raise ValueError(f"{url[:200]!r} is no feedback URL")
    job_id, counts = unquote(segments[1]), segments[3]
    if not (counts.isascii() and counts.isdigit()):
        raise ValueError(f"{url[:200]!r} is no feedback URL: it ends with no requestCounts")
    return f"/jobs/{quote(job_id, safe=':')}/feedback/{counts}", dict(parse_qsl(parts.query))
