"""What happens, as it happens: the event stream, a response that never ends by itself (SPEC section 14)."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.bodies import header, read_preferences
from scheduler_service.api.key_scopes import sees
from scheduler_service.api.parameters import Values, check_length
from scheduler_service.api.request import OF_JOBS, ApiRequest, Routes
from scheduler_service.api.responses import ENCODER, ApiProblem, absent, count_fault, invalid, refuse
from scheduler_service.domain.job_key import DEFAULT_TENANT, read_job_key, write_job_key
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.http_server.exchange import ENDLESS
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.errors import StoreError
from scheduler_service.security.callers import Caller, Role
from scheduler_service.telemetry.event_feed import (
    UNKNOWN,
    EventFeed,
    EventId,
    EventReader,
    FeedClosed,
    FeedFull,
    RingEvent,
    Wants,
    read_event_id,
)
from scheduler_service.telemetry.log_summaries import Tally

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

HEADERS = {"x-accel-buffering": "no"}


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


KEPT = 10_000
"""Jobs whose labels one reader remembers."""

_CHANGES = frozenset({OccurrenceKind.JOB_CREATED, OccurrenceKind.JOB_UPDATED})
ROUTES = Routes("operation")
_KIND = parameters.choice("event", "Only this kind; given several times, any of them.", OccurrenceKind)
FULL_SECONDS = 10
LAST_EVENT_ID = "last-event-id"
LONGEST_ID = 64
ACCEPTED = frozenset({MEDIA_TYPE, "text/*", "*/*"})


class JobLabels:
    """Knows of jobs whether `caller` sees them, and they have all of `wanted`, each a name and a value.

    They are those that a job has when its event is read for this reader, not when it happened.
    """

    def __init__(
        self, *, wanted: Collection[tuple[str, str]], catalogue: Catalogue, caller: Caller | None = None
    ) -> None:
        self._wanted = tuple(wanted)
        self._catalogue = catalogue
        self._caller = caller
        self._known: dict[str, bool] = {}

    async def look_up(self, ahead: Sequence[Occurrence]) -> None:
        """Finds out about the jobs of these, once until they change. Raises StoreUnavailable."""
        jobs = {one.job_id for one in ahead if one.job_id is not None}
        changed = {one.job_id for one in ahead if one.kind in _CHANGES and one.job_id is not None}
        for job_id in changed:
            self._known.pop(job_id, None)
        asked = jobs - self._known.keys()
        if not asked:
            return
        found = await self._catalogue.some(sorted(asked))
        if len(self._known) + len(found) > KEPT:
            self._known = {job_id: self._known[job_id] for job_id in jobs & self._known.keys()}
        self._known |= {job_id: self._fits(entry) for job_id, entry in found.items()}

    def fit(self, job_id: str | None) -> bool:
        """Whether the job has them; what is about no job, or one that is unknown, has not."""
        return job_id is not None and self._known.get(job_id, False)

    def _fits(self, entry: CatalogueEntry) -> bool:
        is_seen = self._caller is None or sees(self._caller, entry)
        return is_seen and all(entry.labels.get(name) == value for name, value in self._wanted)


@ROUTES.add(
    "GET /events",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        replace(_KIND, schema={"type": "array", "items": _KIND.schema}, default=(), repeated=True),
        parameters.texts(
            "jobId", "Only of this job; given several times, of any of them.", example=["nightly"]
        ),
        parameters.texts("executionId", "Only of this execution; given several times, of any of them."),
        parameters.label(),
        parameters.Parameter(
            "lastEventId",
            read_event_id,
            {"type": "string", "pattern": "^[0-9a-z]{1,24}-[0-9]{1,18}$"},
            "What came after this event, for those who cannot send `Last-Event-ID`, which counts more.",
            example="7-1042",
        ),
    ),
    headers=("Last-Event-ID",),
    data=answers.Event,
    statuses=(404, 406, 429),
    media_type=MEDIA_TYPE,
)
async def stream_events(request: ApiRequest) -> Response:
    """Follow what happens, from now on or after an event, as server-sent events.

    A reader that is too slow, or comes back too late, is told by an event `gap`.
    """
    deps = request.deps
    if deps.shown.events is None:
        raise absent("", "this service has no event stream")
    _check_accept(header(request.scope, b"accept"))
    last = _read_last(request)
    if request.scope["method"] == "HEAD":
        return _head()
    feed, wanted = deps.shown.events, request.query["label"]
    executions = [await request.execution_id(given) for given in request.query["executionId"]]
    is_chosen = wanted or request.caller.is_narrow
    labels = JobLabels(wanted=wanted, catalogue=deps.catalogue, caller=request.caller) if is_chosen else None
    return EventStreamResponse(
        reader=await _follow(feed, last, request.caller.tenant),
        wants=choose({**request.query, "executionId": executions}, request.caller.tenant, labels),
        look_up=None if labels is None else labels.look_up,
        readers=lambda: feed.readers,
        wall=lambda: deps.clock.now().wall,
        store_faults=deps.shown.store_faults,
        watching=request.watching,
        counts_gaps=request.caller.tenant == DEFAULT_TENANT and not request.caller.is_narrow,
    )


def choose(filters: Values, tenant: str, labels: JobLabels | None = None) -> Wants:
    """Whether an occurrence is for a caller of `tenant` with these filters.

    Of several filters all must fit, of several values one. What concerns the service is for the tenant
    `default`, as `GET /nodes` is; a gap is for everybody, since what is lost may have been for them.
    """
    kinds = frozenset(filters["event"])
    jobs = frozenset(write_job_key(tenant, job_id) for job_id in filters["jobId"])
    executions = frozenset(filters["executionId"])

    def wants(occurrence: Occurrence) -> bool:
        kind = occurrence.kind
        if kind is OccurrenceKind.GAP:
            return True
        if (occurrence.tenant or DEFAULT_TENANT) != tenant:
            return False
        if kinds and kind.value not in kinds:
            return False
        if jobs and occurrence.job_id not in jobs:
            return False
        if labels is not None and not labels.fit(occurrence.job_id):
            return False
        return not executions or occurrence.execution_id in executions

    return wants


def _head() -> Response:
    """What `GET` begins with; as there, nothing says how long it is."""
    answer = Response(headers=HEADERS, media_type=MEDIA_TYPE)
    del answer.headers["content-length"]
    return answer


async def _follow(feed: EventFeed, last: EventId | None, tenant: str) -> EventReader:
    try:
        return await feed.follow(last, tenant)
    except FeedFull as error:
        status = HTTPStatus.TOO_MANY_REQUESTS
        raise refuse(status, "", "limit", str(error), retry_seconds=FULL_SECONDS) from None
    except FeedClosed as error:
        status = HTTPStatus.SERVICE_UNAVAILABLE
        raise refuse(status, "", "unavailable", str(error), retry_seconds=1) from None


def _read_last(request: ApiRequest) -> EventId | None:
    """The header counts before the query: a browser that connects again has both, and the header is newer."""
    given = header(request.scope, LAST_EVENT_ID.encode())
    if not given:
        found: EventId | None = request.query["lastEventId"]
        return found
    check_length("Last-Event-ID", given, LONGEST_ID)
    try:
        return read_event_id(given)
    except ValueError as error:
        raise invalid("/Last-Event-ID", "invalid", f"Last-Event-ID {given!r} {error}") from None


def _check_accept(accept: str | None) -> None:
    if not accept:
        return
    if not any(read_preferences(accept).get(one) for one in ACCEPTED):
        message = f"this is a stream of {MEDIA_TYPE}; send 'Accept: {MEDIA_TYPE}', or none"
        raise refuse(HTTPStatus.NOT_ACCEPTABLE, "/Accept", "media_type", message)
