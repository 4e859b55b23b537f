"""How much there is: jobs, executions, deliveries, queued parts, over time and by day (SPEC section 10)."""

from collections.abc import Sequence

from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.jobs import find_job
from scheduler_service.api.key_scopes import upcoming
from scheduler_service.api.query_filters import (
    DELIVERY_FILTERS,
    EXECUTION_FILTERS,
    JOB_FILTERS,
    delivery_query,
    execution_query,
    find_labelled,
    job_query,
    key_of,
)
from scheduler_service.api.request import OF_JOBS, OF_SERVICES, ApiRequest, Routes
from scheduler_service.api.responses import invalid, succeed
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import read_job_key, write_job_key
from scheduler_service.domain.leases import QueueQuery
from scheduler_service.domain.moments import DAY, HOUR, MINUTE, SECOND, rfc3339
from scheduler_service.hosts.work_thread import work_apart
from scheduler_service.pacing.slices import Slices
from scheduler_service.persistence.history.day_statistics import SLOT, SLOT_DAYS, DayQuery, write_day
from scheduler_service.persistence.history.queries import SeriesQuery
from scheduler_service.ports.catalogue import CatalogueEntry, LastOutcome
from scheduler_service.security.callers import Role
from scheduler_service.timing.preview import FiringCounts

ROUTES = Routes("counts")

MOST_QUEUES = 1_000
"""The parts of so many queues are counted, in order of their names."""
MOST_NAMED = 20
KINDS = ("one_time", "timing", "cron", "external")
MOST_BUCKETS = 200
DEFAULT_BUCKETS = 96
# Widths that a chart can name, in minutes; beyond them whole days.
_WIDTHS = (5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1_440)
MOST_COUNTED = 10_000
"""Of so many jobs the next firing is counted."""
MOST_READ = 200
"""Of so many of them, those that fire soonest, all firings are counted, where MOST_STEPS allows it."""
MOST_STEPS = 50_000
"""About a second of work for timers that fire in every span: so much is done for one question."""
MOST_UPCOMING = 1_000
END_OF_TIMERS = 7_258_118_400_000
"""2200-01-01T00:00:00Z in wall ms."""


@ROUTES.add(
    "GET /counts/jobs",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=JOB_FILTERS,
    data=answers.JobCounts,
)
async def count_jobs(request: ApiRequest) -> Response:
    """Count jobs by state, kind and newest execution.

    Of those that cannot run as they stand the first are named, whatever the filter.
    """
    tally = await request.deps.catalogue.tally(job_query(request.caller, request.query))
    list_unfit = None if request.caller.is_narrow else request.deps.definitions.list_unfit
    unfit = [] if list_unfit is None else await list_unfit()
    own = [(read_job_key(key), problem) for key, problem in unfit]
    named = [(job_id, problem) for (tenant, job_id), problem in own if tenant == request.caller.tenant]
    return succeed(
        {
            "cannotRun": len(named),
            "cannotRunJobs": [
                {"jobId": job_id, "problem": one.message} for job_id, one in named[:MOST_NAMED]
            ],
            "total": {"value": tally.total, "isCapped": tally.is_capped},
            "byState": {state: tally.by_state.get(state, 0) for state in JobState},
            "byKind": {kind: tally.by_kind.get(kind, 0) for kind in KINDS},
            "byLastOutcome": {outcome: tally.by_outcome.get(outcome, 0) for outcome in LastOutcome},
        }
    )


@ROUTES.add(
    "GET /counts/executions",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(parameters.text("jobId", "Only of this job."), *EXECUTION_FILTERS),
    data=answers.ExecutionCounts,
)
async def count_executions(request: ApiRequest) -> Response:
    """Count executions by state and by error."""
    query = await execution_query(request, key_of(request, request.query), request.query)
    behind = await request.catch_up()
    return succeed(await request.deps.history.counts(query), warnings=behind)


@ROUTES.add(
    "GET /counts/deliveries",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=DELIVERY_FILTERS,
    data=answers.DeliveryCounts,
)
async def count_deliveries(request: ApiRequest) -> Response:
    """Count notifications by state."""
    query = await delivery_query(request)
    behind = await request.catch_up(query.job_id)
    return succeed(await request.deps.history.delivery_counts(query), warnings=behind)


@ROUTES.add("GET /counts/queues", Role.VIEWER, scopes=OF_SERVICES, data=answers.QueueCounts)
async def count_queued(request: ApiRequest) -> Response:
    """Count the parts that wait or are held in all queues."""
    caller = request.caller
    asked = QueueQuery(caller.tenant, caller.service, limit=MOST_QUEUES + 1)
    found = await request.deps.services.queues.figures(asked)
    counted = found[:MOST_QUEUES]
    oldest = min((one.oldest for one in counted if one.oldest is not None), default=None)
    return succeed(
        {
            "queues": {"value": len(counted), "isCapped": len(found) > len(counted)},
            "waiting": sum(one.depth for one in counted),
            "held": sum(one.held for one in counted),
            "oldestAt": None if oldest is None else rfc3339(oldest),
        }
    )


@ROUTES.add(
    "GET /series/executions",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        parameters.text("jobId", "Only of this job."),
        *EXECUTION_FILTERS,
        parameters.integer(
            "bucketSeconds", "The width of a bucket, a multiple of 300.", low=300, high=DAY // SECOND
        ),
        parameters.integer("buckets", "About so many buckets, at most.", low=1, high=MOST_BUCKETS),
    ),
    data=answers.Series,
)
async def show_series(request: ApiRequest) -> Response:
    """Show executions by buckets of time: states, lateness, durations.

    Buckets begin at multiples of their width, the first at `from` or before.
    """
    first, last = _read_span(request)
    width = _read_width(request, last - first)
    begin = first - first % width
    executions = await execution_query(request, key_of(request, request.query), request.query)
    query = SeriesQuery(executions=executions, first=begin, last=last, width=width)
    behind = await request.catch_up()
    found = await request.deps.history.series(query)
    span = {"from": rfc3339(begin), "to": rfc3339(last), "bucketSeconds": width // SECOND}
    return succeed({**span, **found}, warnings=behind)


def _read_span(request: ApiRequest) -> tuple[int, int]:
    """The moments from `from` to `to`, by default a day up to now. Raises ApiProblem (422)."""
    now = request.deps.clock.now().wall
    first, last = request.query["from"], request.query["to"]
    if last is None:
        last = now if first is None else max(now, first)
    if first is None:
        first = last - DAY
    if first > last:
        raise invalid("/from", "range", f"from {rfc3339(first)} is after to, {rfc3339(last)}")
    oldest = now - now % DAY - SLOT_DAYS * DAY
    if not oldest <= first <= last <= now + SLOT_DAYS * DAY:
        message = f"a series reaches from {rfc3339(oldest)} to {SLOT_DAYS} days from now"
        raise invalid("/from", "range", f"{message}; GET /statistics has longer spans, by day")
    return first, last


def _read_width(request: ApiRequest, length: int) -> int:
    """The width of a bucket in ms. Raises ApiProblem (422)."""
    seconds, wanted = request.query["bucketSeconds"], request.query["buckets"]
    if seconds is None:
        # The first bucket may begin before the span: there is one more then.
        least = length / min(wanted or DEFAULT_BUCKETS, MOST_BUCKETS - 1)
        fitting = (width * MINUTE for width in _WIDTHS if width * MINUTE >= least)
        return next(fitting, -(-int(least) // DAY) * DAY)
    if wanted is not None:
        raise invalid("/buckets", "contradiction", "give bucketSeconds or buckets, not both")
    width = int(seconds) * SECOND
    if width % SLOT:
        message = f"bucketSeconds {seconds} must be a multiple of {SLOT // SECOND}"
        raise invalid("/bucketSeconds", "invalid", message)
    if length // width + 2 > MOST_BUCKETS:
        least = -(-length // (MOST_BUCKETS - 2) // SLOT) * (SLOT // SECOND)
        message = f"that is more than {MOST_BUCKETS} buckets; give bucketSeconds of {least} or more"
        raise invalid("/bucketSeconds", "range", message)
    return width


@ROUTES.add(
    "GET /counts/upcoming",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        parameters.moment("from", "From the bucket of this moment on; default: now."),
        parameters.integer("bucketSeconds", "The width of a bucket.", low=60, high=DAY // SECOND, default=60),
        parameters.integer("buckets", "How many.", low=1, high=MOST_UPCOMING, default=60),
    ),
    data=answers.UpcomingCounts,
)
async def count_upcoming(request: ApiRequest) -> Response:
    """Count the planned firings of all jobs by buckets of time, from now or `from` on.

    Raises ApiProblem (422) for buckets beyond the end of timers.
    """
    query = request.query
    width = query["bucketSeconds"] * SECOND
    since = request.deps.clock.now().wall if query["from"] is None else query["from"]
    first = since - since % width
    if first + width * query["buckets"] > END_OF_TIMERS:
        raise invalid("/from", "range", "these buckets end after 2199, where timers end; look earlier")
    starts = [first + number * width for number in range(query["buckets"])]
    counts, is_capped = await count_planned(request, starts, width)
    data = {
        "from": rfc3339(first),
        "to": rfc3339(starts[-1] + width),
        "bucketSeconds": query["bucketSeconds"],
        "total": {"value": sum(counts), "isCapped": is_capped},
        "counts": counts,
    }
    return succeed(data)


async def count_planned(
    request: ApiRequest, starts: Sequence[int], width: int, left_out: str | None = None
) -> tuple[list[int], bool]:
    """The firings of ordinary jobs that the caller sees, in the spans of `width` ms at `starts`.

    And whether some are not counted.

    The spans follow each other. `left_out`: the jobId of a job that does not count. Raises StoreUnavailable.
    """
    end = starts[-1] + width - 1
    found = await upcoming(request, end, MOST_COUNTED + 1)
    own = None if left_out is None else write_job_key(request.caller.tenant, left_out)
    entries = [entry for entry in found[:MOST_COUNTED] if entry.job_id != own]
    spans, most = [0] * len(starts), most_read(len(starts), width)
    slices, firings = Slices(), []
    for entry in entries[:most]:
        await slices.pause()
        if (one := await _read_firings(request, entry)) is not None:
            firings.append(one)
    await work_apart(lambda: _add_all(firings, starts[0], width, spans))
    for entry in entries[most:]:
        index = max(((entry.next_fire or 0) - starts[0]) // width, 0)
        spans[index] += 1
    return spans, len(entries) > most


def most_read(count: int, width: int) -> int:
    """Of how many jobs all firings in so many spans of `width` ms are counted; a step: a span, an hour."""
    steps = count + count * width // HOUR
    return max(1, min(MOST_READ, MOST_STEPS // steps))


async def _read_firings(request: ApiRequest, entry: CatalogueEntry) -> tuple[FiringCounts, int] | None:
    """What counts the firings of a job, and the next one of them; None: it has ended meanwhile."""
    job = await request.deps.jobs.read(entry.job_id)
    if job is None or job.document is None or entry.next_fire is None:
        return None
    head = job.document.head
    return FiringCounts(job.programs[head.revision].timer, head.cursor.anchor), entry.next_fire


def _add_all(firings: Sequence[tuple[FiringCounts, int]], begin: int, width: int, spans: list[int]) -> None:
    """Adds what is planned of jobs, each from its next firing on; spans without any are passed over."""
    for counts, next_fire in firings:
        at: int | None = max(next_fire, begin)
        while at is not None and (index := (at - begin) // width) < len(spans):
            stop = begin + (index + 1) * width
            spans[index] += counts.within(at, stop)
            at = counts.first(stop)


SPAN: tuple[parameters.Parameter, ...] = (
    parameters.day("from", "The first day, in UTC; by default six days before `to`."),
    parameters.day("to", "The last day, in UTC, included; by default today."),
)

DEFAULT_DAYS = 7
MOST_DAYS_OF_A_JOB = 400
MOST_DAYS = 92
# The days of all jobs with a label together: each is a row that is read.
MOST_ROWS = 50_000


@ROUTES.add(
    "GET /jobs/{jobId}/statistics",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=SPAN,
    tag="statistics",
    data=answers.JobStatistics,
    statuses=(404,),
)
async def show_statistics_of_job(request: ApiRequest) -> Response:
    """Show the outcomes, lateness and durations of a job by day, also of a destroyed one."""
    entry = await find_job(request, request.job_key, or_destroyed=True)
    span = _read_days(request, MOST_DAYS_OF_A_JOB)
    query = DayQuery(
        tenant=request.caller.tenant, first=span[0], last=span[-1], job_ids=frozenset({entry.job_id})
    )
    behind = await request.catch_up(entry.job_id)
    found = await request.deps.history.days(query)
    return succeed({"jobId": request.job_id, **_bounds(span), **found}, warnings=behind)


@ROUTES.add(
    "GET /statistics",
    Role.VIEWER,
    query=(*SPAN, parameters.text("jobId", "Only of this job."), parameters.label()),
    tag="statistics",
    data=answers.DailyStatistics,
)
async def show_daily_statistics(request: ApiRequest) -> Response:
    """Show outcomes, lateness and durations by day, and the jobs that failed most or took longest."""
    job_id, labels = request.query["jobId"], request.query["label"]
    span = _read_days(request, MOST_DAYS if job_id is None else MOST_DAYS_OF_A_JOB)
    job_ids = None if job_id is None else frozenset({write_job_key(request.caller.tenant, job_id)})
    if labels:
        labelled = await find_labelled(request, labels)
        job_ids = labelled if job_ids is None else labelled & job_ids
        _check_size(len(job_ids), len(span))
    query = DayQuery(tenant=request.caller.tenant, first=span[0], last=span[-1], job_ids=job_ids)
    behind = await request.catch_up()
    found = await request.deps.history.days(query)
    top = await request.deps.history.top(query)
    return succeed({**_bounds(span), **found, **top}, warnings=behind)


def _read_days(request: ApiRequest, most: int) -> range:
    """The days from `from` to `to`, by default a week up to today (UTC). Raises ApiProblem (422)."""
    first, last = request.query["from"], request.query["to"]
    if last is None:
        last = max(request.deps.clock.now().wall // DAY, 0 if first is None else first)
    if first is None:
        first = last - DEFAULT_DAYS + 1
    if first > last:
        raise invalid("/from", "range", f"from {write_day(first)} is after to, {write_day(last)}")
    if last - first >= most:
        message = (
            f"from {write_day(first)} to {write_day(last)} are {last - first + 1:,} days; ask for {most}"
        )
        raise invalid("/from", "range", f"{message} at most")
    return range(first, last + 1)


def _check_size(jobs: int, days: int) -> None:
    if jobs * days > MOST_ROWS:
        message = (
            f"{jobs:,} jobs have this label, which is too much for {days} days; "
            f"ask for {MOST_ROWS // jobs} days at most, or for a label of fewer jobs"
        )
        raise invalid("/label", "too_many", message)


def _bounds(span: range) -> dict[str, object]:
    return {"from": write_day(span[0]), "to": write_day(span[-1])}
