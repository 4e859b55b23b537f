"""`punctual events`, and how other commands wait for what happens instead of asking again and again."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scheduler_service.cli.errors import CommandError
from scheduler_service.cli.options import End, JobLabels, Output, SomeJobs
from scheduler_service.cli.output import Format, moment_text, text_of
from scheduler_service.cli.service_connection import ApiConnection

if TYPE_CHECKING:
    from client_sdk.models.answers import Event

POLL_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 15.0


def show_events(
    api: ApiConnection,
    output: Output = Format.TABLE,
    job: SomeJobs = None,
    event: Annotated[
        list[str] | None, typer.Option(help="Only of this kind, as finalFailed; may be given again.")
    ] = None,
    execution: Annotated[
        str | None,
        typer.Option(help="Only of this execution, as nightly#7 or nightly#last.", metavar="EXECUTION"),
    ] = None,
    label: JobLabels = None,
    after: Annotated[str | None, typer.Option(help="What came after the event with this id.")] = None,
    timeout: End = None,
) -> None:
    """Print what happens as it happens, a line for each event; stop with Ctrl-C.

    Example: punctual events --event finalFailed --timeout 1s
    """
    following = Following(
        api, kinds=event or [], jobs=job or [], execution=execution, labels=label or [], after=after
    )
    deadline = None if timeout is None else time.monotonic() + timeout
    with suppress(KeyboardInterrupt):
        while (left := _left(deadline)) > 0:
            found = following.next(left)
            if found is not None:
                print(_describe(found, output), flush=True)
            elif following.no_stream is not None:
                raise CommandError(
                    f"no stream of events can be read: {following.no_stream}; the service is older than this "
                    "command ('punctual version'), or something else answers"
                )


class Following:
    """The events of a service, one after the other, for a program without an event loop."""

    def __init__(
        self,
        connection: ApiConnection,
        *,
        kinds: list[str],
        jobs: list[str],
        execution: str | None = None,
        labels: Sequence[str] = (),
        after: str | None = None,
    ) -> None:
        query = {"event": kinds, "jobId": jobs, "executionId": execution, "label": list(labels)}
        self._connection = connection
        self._events: AsyncIterator[Event] = connection.follow(query, after)
        self.no_stream: str | None = None
        self._longest_wait = POLL_SECONDS

    def next(self, seconds: float) -> "Event | None":
        """The next event, or None after so many seconds, or where there is no stream (`no_stream` says why).

        Raises CommandError.
        """
        found, self.no_stream = self._connection.wait_for(self._events, seconds)
        return found

    def wait(self, seconds: float, *, poll: float = POLL_SECONDS) -> None:
        """Returns when something may have happened: after an event, or `poll` where there is no stream."""
        longest, self._longest_wait = self._longest_wait, LONGEST_WAIT_SECONDS
        if self.no_stream is None:
            try:
                self.next(min(seconds, longest))  # the first time short: the stream has just begun
            except CommandError as error:
                self.no_stream = error.message
        if self.no_stream is not None:
            time.sleep(max(0.0, min(poll, seconds)))


def _left(deadline: float | None) -> float:
    return LONGEST_WAIT_SECONDS if deadline is None else deadline - time.monotonic()


def _describe(event: "Event", output: Format) -> str:
    members: dict[str, Any] = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    if output is not Format.TABLE:
        return json.dumps(members, ensure_ascii=True)
    what = event.job_id or event.subject or ""
    if event.execute_number is not None:
        what = f"{what}#{event.execute_number}"
    why = event.error or event.reason or event.message or ""
    if event.kind == "gap":
        why = f"{event.count} events were lost" if event.count else "events were lost"
    return text_of("  ".join(filter(None, (moment_text(members["at"]), f"{event.kind:<14}", what, why))))
