"""What happens, as it happens: the event stream (SPEC section 14)."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from http import HTTPStatus

from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.bodies import header, read_preferences
from scheduler_service.api.event_stream import HEADERS, MEDIA_TYPE, EventStreamResponse
from scheduler_service.api.narrow_keys import sees
from scheduler_service.api.parameters import Values, check_length
from scheduler_service.api.request import OF_JOBS, ApiRequest, Routes
from scheduler_service.api.responses import absent, invalid, refuse
from scheduler_service.domain.job_key import DEFAULT_TENANT, write_job_key
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.security.callers import Caller, Role
from scheduler_service.telemetry.event_feed import (
    EventFeed,
    EventId,
    EventReader,
    FeedClosed,
    FeedFull,
    Wants,
    read_event_id,
)

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
    statuses=(406, 429),
    media_type=MEDIA_TYPE,
)
async def stream_events(request: ApiRequest) -> Response:
    """Follow what happens, from now on or after an event, as server-sent events.

    A reader that is too slow, or comes back too late, is told by an event `gap`.
    """
    deps = request.deps
    if deps.events is None:
        raise absent("", "this service has no event stream")
    _check_accept(header(request.scope, b"accept"))
    last = _read_last(request)
    if request.scope["method"] == "HEAD":
        return _head()
    feed, wanted = deps.events, request.query["label"]
    executions = [await request.execution_id(given) for given in request.query["executionId"]]
    is_chosen = wanted or request.caller.is_narrow
    labels = JobLabels(wanted=wanted, catalogue=deps.catalogue, caller=request.caller) if is_chosen else None
    return EventStreamResponse(
        reader=await _follow(feed, last, request.caller.tenant),
        wants=choose({**request.query, "executionId": executions}, request.caller.tenant, labels),
        look_up=None if labels is None else labels.look_up,
        readers=lambda: feed.readers,
        wall=lambda: deps.clock.now().wall,
        store_faults=deps.store_faults,
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
