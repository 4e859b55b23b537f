"""A response that never ends by itself: the events of a reader as frames, as they come."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scheduler_service.api.responses import ENCODER, ApiProblem, count_fault
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.http_server.exchange import ENDLESS
from scheduler_service.ports.errors import StoreError
from scheduler_service.telemetry.event_feed import UNKNOWN, EventId, EventReader, RingEvent, Wants
from scheduler_service.telemetry.tally import Tally

HEARTBEAT_SECONDS = 15.0
RETRY_MS = 2_000
"""After so long a client that knows `retry` connects again."""

MOST_EVENTS = 100
"""In one write. What is more waits for its turn, in the memory that all readers share."""

TURN_SECONDS = 0.001
"""One write of all readers together in so much time: a crowd of them leaves the loop to the executions."""

MEDIA_TYPE = "text/event-stream"
LookUp = Callable[[Sequence[Occurrence]], Awaitable[None]]
"""Finds out what `wants` has to know of these. Raises StoreError."""

Watching = Callable[[], AbstractAsyncContextManager[None]]

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventStreamResponse(Response):
    """Streams what `reader` has for `wants`, until the caller or the feed has gone.

    `readers` is how many there are, `wall` gives wall ms. `look_up` is called before events are looked at;
    those of which nothing could be found out are told as lost, and counted in `store_faults`.
    `watching` raises ApiProblem inside when the caller's key ends. `counts_gaps`: a gap has its number, as
    the caller may know how much happens to all.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        *,
        reader: EventReader,
        wants: Wants,
        readers: Callable[[], int],
        wall: Callable[[], int],
        store_faults: Tally,
        look_up: LookUp | None = None,
        watching: Watching = nullcontext,
        counts_gaps: bool = True,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._reader = reader
        self._wants = wants
        self._readers = readers
        self._wall = wall
        self._store_faults = store_faults
        self._look_up = look_up
        self._watching = watching
        self._counts_gaps = counts_gaps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Returns when nothing comes any more, or nobody reads it."""
        gone = asyncio.ensure_future(_wait_until_gone(receive))
        try:
            begin = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send({**begin, ENDLESS: True})
            with suppress(ApiProblem):  # the answer has begun: who connects again is told why
                async with self._watching():
                    await self._stream(send, gone)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._reader.leave()

    async def _stream(self, send: Send, gone: "asyncio.Future[None]") -> None:
        await self._write(send, b"retry: %d\n%b" % (RETRY_MS, self._mark()))
        while not gone.done() and (self._reader.has_more or not self._reader.is_ended):
            if self._reader.has_more:
                await self._write(send, await self._read())
                await asyncio.sleep(TURN_SECONDS * self._readers())
            elif not await self._wait(gone):
                await self._write(send, b": heartbeat\n%b" % self._mark())

    async def _write(self, send: Send, body: bytes) -> None:
        """Returns when the caller has read what came before, up to what the connection buffers."""
        if body:
            await send({"type": "http.response.body", "body": body, "more_body": True})

    async def _wait(self, gone: "asyncio.Future[None]") -> bool:
        """Whether something happened before the next heartbeat is due."""
        changed = asyncio.ensure_future(self._reader.changed())
        ends: set[asyncio.Future[Any]] = {gone, changed}
        try:
            await asyncio.wait(ends, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            return gone.done() or changed.done()
        finally:
            changed.cancel()

    async def _read(self) -> bytes:
        end = None
        if self._look_up is not None:
            end, ahead = self._reader.look_ahead()
            try:
                await self._look_up(ahead)
            except StoreError as error:
                count_fault(self._store_faults, error)
                return self._gap(self._reader.skip(end))
        gap, events = self._reader.take(self._wants, MOST_EVENTS, end)
        frames = [self._frame(event) for event in events]
        if gap:
            frames.insert(0, self._gap(gap))
        return b"".join(frames)

    def _frame(self, event: RingEvent) -> bytes:
        is_hidden = event.occurrence.kind is OccurrenceKind.GAP and not self._counts_gaps
        return self._gap(UNKNOWN) if is_hidden else frame_of(self._reader, event)

    def _gap(self, count: int) -> bytes:
        return gap_frame(count if self._counts_gaps else UNKNOWN, self._wall())

    def _mark(self) -> bytes:
        """An id without an event: clients that come back name it, though they were sent nothing for long."""
        return b"id: %b\n\n" % str(self._reader.id).encode()


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event_wire(occurrence: Occurrence) -> dict[str, object]:
    """The `data` of an event (`client_sdk.models.answers.Event`); members without a value are left out."""
    planned_at = occurrence.planned_at
    members: dict[str, object] = {
        "kind": occurrence.kind,
        "at": rfc3339(occurrence.at),
        "jobId": None if occurrence.job_id is None else read_job_key(occurrence.job_id)[1],
        "executionId": occurrence.execution_id,
        "executeNumber": occurrence.execute_number,
        "requestCounts": occurrence.request_counts,
        "triggeredBy": occurrence.triggered_by,
        "state": occurrence.state,
        "reason": occurrence.reason,
        "error": occurrence.error,
        "failureType": occurrence.failure_type,
        "plannedAt": None if planned_at is None else rfc3339(planned_at),
        "latenessMs": occurrence.lateness_ms,
        "count": occurrence.count,
        "revision": occurrence.revision,
        "subject": occurrence.subject,
        "node": occurrence.node,
        "message": occurrence.message,
    }
    return {name: value for name, value in members.items() if value is not None}


def frame_of(reader: EventReader, event: RingEvent) -> bytes:
    """The frame of an event, made once for all readers."""
    if not event.frame:
        event.frame = _write(reader.id_of(event), event.occurrence)
    return event.frame


def gap_frame(count: int, at: int) -> bytes:
    """The frame that says that `count` events were lost (UNKNOWN: nobody knows how many). It has no id."""
    known = None if count == UNKNOWN else count
    return _write(None, Occurrence(kind=OccurrenceKind.GAP, at=at, count=known))


def _write(identity: EventId | None, occurrence: Occurrence) -> bytes:
    # JSON has no line break of its own: one line of `data` is enough.
    begin = "" if identity is None else f"id: {identity}\n"
    data = ENCODER.encode(event_wire(occurrence))
    return b"%bevent: %b\ndata: %b\n\n" % (begin.encode(), occurrence.kind.value.encode(), data)
