"""Statistics per day: of a job, of those with a label, or of all (SPEC sections 10, 12)."""

from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.jobs import find_job
from scheduler_service.api.query_filters import find_labelled
from scheduler_service.api.request import OF_JOBS, ApiRequest, Routes
from scheduler_service.api.responses import invalid, succeed
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.day_statistics import DayQuery, write_day
from scheduler_service.security.callers import Role

ROUTES = Routes("statistics")
SPAN: tuple[parameters.Parameter, ...] = (
    parameters.day("from", "The first parameters.day, in UTC; by default six days before `to`."),
    parameters.day("to", "The last parameters.day, in UTC, included; by default today."),
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
    data=answers.JobStatistics,
    statuses=(404,),
)
async def show_statistics_of_job(request: ApiRequest) -> Response:
    """Show the outcomes, lateness and durations of a job by day, also of a destroyed one."""
    entry = await find_job(request, request.job_key, or_destroyed=True)
    span = _read_span(request, MOST_DAYS_OF_A_JOB)
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
    data=answers.DailyStatistics,
)
async def show_daily_statistics(request: ApiRequest) -> Response:
    """Show outcomes, lateness and durations by day, and the jobs that failed most or took longest."""
    job_id, labels = request.query["jobId"], request.query["label"]
    span = _read_span(request, MOST_DAYS if job_id is None else MOST_DAYS_OF_A_JOB)
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


def _read_span(request: ApiRequest, most: int) -> range:
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
