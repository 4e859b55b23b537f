"""Firings: planned ones of a job or of all, outcomes of past ones, and past ones run (SPEC section 3)."""

import asyncio
import heapq
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import chain, islice
from typing import Any

import msgspec
from starlette.responses import Response

from client_sdk.models import BackfillRequest, answers
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.bodies import read_model
from scheduler_service.api.job_answers import firing_preview
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.jobs import find_job
from scheduler_service.api.key_scopes import sees, upcoming
from scheduler_service.api.previews import read_moment, work_by_count
from scheduler_service.api.request import OF_JOBS, ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import invalid, no_job, succeed
from scheduler_service.domain.document import Cursor
from scheduler_service.domain.execution import TERMINAL, ExecutionState, JobState, write_execution_id
from scheduler_service.domain.job_key import read_job_key, write_job_key
from scheduler_service.domain.moments import DAY, rfc3339
from scheduler_service.domain.replies import StartedMany
from scheduler_service.domain.turn_events import Backfilled
from scheduler_service.language.json_values import as_json
from scheduler_service.persistence.common.pagination import Number, mark_list, read_cursor, write_cursor
from scheduler_service.persistence.history.queries import FiringQuery, PlannedExecution
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.security.callers import Role
from scheduler_service.timing.preview import Shown, preview, show
from scheduler_service.timing.schedule import (
    advance,
    between,
    keeps_grid,
    latest_planned,
    moments_of_run,
    planned_between,
    tally,
)
from scheduler_service.timing.timer import RECURRING, Timer

ROUTES = Routes("timers")

MAX_JOBS = 10_000
MAX_FIRINGS_OF_JOB = 10_000
MAX_PER_JOB = 1_000


class ListedFirings(msgspec.Struct, frozen=True):
    """Which planned firings are listed: `per_job` (None: all) of each job from `since` to `until` (wall ms).

    Those up to `after` (moment and job), the end of the page before, are counted and left out; `is_later`:
    there is such a page, so some may have fired since.
    """

    since: int
    until: int
    after: tuple[int, str]
    per_job: int | None
    is_later: bool = False


class PlannedPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last firing of a page: its moment and its job; and what the first page listed, from and to."""

    moment: Number
    name: str
    since: Number
    until: Number


@ROUTES.add(
    "GET /jobs/{jobId}/next",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        parameters.integer("count", "How many.", low=1, high=1_000, default=10),
        parameters.moment("until", "None after this moment."),
    ),
    data=answers.Preview,
    statuses=(404,),
)
async def show_next_firings(request: ApiRequest) -> Response:
    """Show a job's coming firings; none while it is paused or disabled."""
    entry, query = await find_job(request, request.job_key), request.query
    known = await timer_of(request, entry.job_id)
    if known is None:
        raise no_job(entry.job_id)
    timer, cursor = known
    shown = preview(timer, anchor=cursor.anchor, count=0, language=request.language)
    firings: tuple[Shown, ...] = ()
    if entry.state is JobState.ACTIVE and entry.next_fire is not None:
        count, until = query["count"], query["until"]
        firings = await work_by_count(
            count,
            lambda: show(timer, cursor, count=count, until=until, seed=entry.uid, language=request.language),
        )
    return succeed(firing_preview(shown, firings))


@ROUTES.add(
    "GET /jobs/{jobId}/firings",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        parameters.moment("from", "Planned at this moment or later."),
        parameters.moment("to", "Planned at this moment or earlier."),
        *parameters.paging(),
    ),
    data=answers.Listing[answers.FiringLine],
    statuses=(404,),
)
async def list_firings(request: ApiRequest) -> Response:
    """List the outcomes of the planned firings of a job's present or last life."""
    entry = await find_job(request, request.job_key, or_destroyed=True)
    query = FiringQuery(
        uid=entry.uid,
        planned_from=request.query["from"],
        planned_to=request.query["to"],
        limit=request.query["limit"],
        cursor=request.query["cursor"],
    )
    behind = await request.catch_up(entry.job_id)
    return succeed((await request.deps.history.firings(query)).wire(), warnings=behind)


@ROUTES.add(
    "GET /upcoming",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        parameters.moment("from", "From this moment on; default: now."),
        parameters.moment("to", "Up to this moment; default: a day after `from`."),
        parameters.texts(
            "jobId", "Only of this job; given several times, of any of them.", example=["nightly"]
        ),
        parameters.integer(
            "perJob",
            "How many firings of a job at most, counted from `from` on; default: all.",
            low=1,
            high=MAX_PER_JOB,
        ),
        *parameters.paging(),
    ),
    data=answers.Listing[answers.Planned],
)
async def list_upcoming(request: ApiRequest) -> Response:
    """List the planned firings of all jobs between two moments, in order of time."""
    limit = request.query["limit"]
    plan = _read_plan(request)
    items = await _merge(request, plan, await _planned_jobs(request, plan.until), limit + 1)
    page, more = items[:limit], None
    if len(items) > limit:
        moment, entry = page[-1]
        # What had fired before the first page is no part of the list.
        since = plan.since if plan.is_later else max(plan.since, request.deps.clock.now().wall)
        more = write_cursor(_mark(request), PlannedPlace(moment, entry.job_id, since, plan.until))
    return succeed({"items": [_line(moment, entry) for moment, entry in page], "nextCursor": more})


def _read_plan(request: ApiRequest) -> ListedFirings:
    """What a page lists; later ones go by the moments of the first. Raises CursorError."""
    query, now = request.query, request.deps.clock.now().wall
    if query["cursor"] is not None:
        place = read_cursor(_mark(request), query["cursor"], PlannedPlace)
        until = place.until if query["to"] is None else query["to"]
        return ListedFirings(place.since, until, (place.moment, place.name), query["perJob"], is_later=True)
    since = now if query["from"] is None else query["from"]
    until = since + DAY if query["to"] is None else query["to"]
    return ListedFirings(since, until, (since, ""), query["perJob"])


def _mark(request: ApiRequest) -> str:
    query = request.query
    return mark_list("upcoming", request.caller.tenant, sorted(set(query["jobId"])), query["perJob"])


async def _planned_jobs(request: ApiRequest, until: int) -> Sequence[CatalogueEntry]:
    """The jobs that fire next by `until`: those of `jobId`, else all ordinary ones."""
    tenant = request.caller.tenant
    wanted = [write_job_key(tenant, job_id) for job_id in dict.fromkeys(request.query["jobId"])]
    if not wanted:
        return await upcoming(request, until, MAX_JOBS)
    entries = await request.deps.catalogue.some(wanted)
    found = [entry for entry in entries.values() if sees(request.caller, entry)]
    return [entry for entry in found if entry.next_fire is not None and entry.next_fire <= until]


async def _merge(
    request: ApiRequest, plan: ListedFirings, entries: Sequence[CatalogueEntry], limit: int
) -> list[tuple[int, CatalogueEntry]]:
    """The first `limit` firings of `plan`, merged over all jobs."""
    heap = [(entry.next_fire or 0, entry.job_id, entry) for entry in entries]
    heapq.heapify(heap)
    occurrences: dict[str, Iterator[int]] = {}
    found: list[tuple[int, CatalogueEntry]] = []
    while heap and len(found) < limit:
        moment, job_id, entry = heap[0]
        if job_id not in occurrences:
            spent = await _spent(request, entry, plan)
            if plan.per_job is not None and spent >= plan.per_job:
                heapq.heappop(heap)
                continue
            occurrences[job_id] = await _following(request, entry, plan, spent)
        if (moment, job_id) > plan.after:
            found.append((moment, entry))
        following = next(occurrences[job_id], None)
        if following is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following, job_id, entry))
    return found


async def _spent(request: ApiRequest, entry: CatalogueEntry, plan: ListedFirings) -> int:
    """How many of a job's firings in `plan` have fired since its first page; at most `per_job`."""
    if plan.per_job is None or not plan.is_later:
        return 0
    known = await timer_of(request, entry.job_id)
    if known is None or (last := known[1].last) is None or last < plan.since:
        return 0
    timer, cursor = known
    found = tally(timer, Cursor(cursor.anchor, plan.since - 1), last, plan.per_job)
    return plan.per_job if found is None else found


async def _following(
    request: ApiRequest, entry: CatalogueEntry, plan: ListedFirings, spent: int
) -> Iterator[int]:
    """The moments of one job after its next firing, as many as `plan` has room for beside those `spent`."""
    next_fire = entry.next_fire or 0
    room = None if plan.per_job is None else plan.per_job - spent - (next_fire >= plan.since)
    if room == 0:
        return iter(())
    await asyncio.sleep(0)
    known = await timer_of(request, entry.job_id)
    if known is None:
        return iter(())
    timer, cursor = known
    # Without a limit of each job nothing before the page needs to be counted.
    since = max(next_fire + 1, plan.after[0] if plan.per_job is None else plan.since)
    earlier = latest_planned(timer, cursor, entry.uid, since) if timer.repeats is None else None
    if earlier is not None:
        cursor = advance(cursor, earlier)
    walk = islice(between(timer, cursor, entry.uid, plan.until), MAX_FIRINGS_OF_JOB)
    return islice((firing.planned_at for firing in walk if firing.planned_at >= since), room)


async def timer_of(request: ApiRequest, job_id: str) -> tuple[Timer, Cursor] | None:
    """The timer of a job and what of it is used up; None: there is no such job. Raises StoreUnavailable."""
    job = await request.deps.jobs.read(job_id)
    if job is None or job.document is None:
        return None
    head = job.document.head
    return job.programs[head.revision].timer, head.cursor


def _line(moment: int, entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "jobId": read_job_key(entry.job_id)[1],
        "jobName": entry.job_name,
        "kind": entry.kind,
        "plannedAt": rfc3339(moment),
    }


MOST_MOMENTS = 1_000


class Came(IntEnum):
    """What became of a moment, in the executions that the history has of it; the best one counts."""

    MISSING = 0  # none, or they were skipped
    FAILED = 1
    OPEN = 2
    DONE = 3


RUN: dict[str, tuple[Came, ...]] = {
    "missing": (Came.MISSING,),
    "failed": (Came.MISSING, Came.FAILED),
    "all": (Came.MISSING, Came.FAILED, Came.DONE),
}
"""Which moments are run, by `which`; none of which an execution is under way."""


class Known(msgspec.Struct, frozen=True):
    """The execution that says what became of a moment."""

    came: Came
    execution: PlannedExecution


@ROUTES.add(
    "POST /jobs/{jobId}/backfill",
    Role.OPERATOR,
    scopes=OF_JOBS,
    body=PostedBody(BackfillRequest, openapi_examples.BACKFILL, required=True),
    data=answers.Backfill,
    statuses=(404, 409, 429),
    audit=Way.TURN,
)
async def backfill_job(request: ApiRequest) -> Response:
    """Run the past moments of a job's timer between two moments, in order, behind all else that waits."""
    raw, value = await request.json_object()
    posted = read_model(BackfillRequest, value)
    entry = await find_job(request, request.job_key)
    behind = await request.catch_up(entry.job_id)
    moments = await _moments(request, entry, posted)
    known = await _known(request, entry, moments)
    wanted = RUN[posted.which]
    chosen = [one for one in moments if one not in known or known[one].came in wanted]
    if posted.dry_run:
        started = StartedMany(0, tuple(chosen))
    else:
        params = b"{}" if posted.params is None else as_json(posted.params)
        event = Backfilled(tuple(chosen), params, request.trace)
        given = {"from": posted.from_, "to": posted.to, "which": posted.which, "executions": len(chosen)}
        remembered = request.remembered(f"jobs/{request.job_id}/backfill", raw)
        command = Command(event, remembered=remembered, act=request.act({"given": given}))
        reply = await run_command(request, entry.job_id, command)
        assert isinstance(reply, StartedMany)
        started = reply
    begun = set(started.moments)
    left = [one for one in moments if one not in begun]
    data = {
        "items": _begun(started),
        "left": [_left_out(known[one].execution) for one in left if one in known],
    }
    return succeed(data, warnings=behind)


async def _moments(request: ApiRequest, entry: CatalogueEntry, posted: BackfillRequest) -> Sequence[int]:
    """The moments of the timer in the range, both ends included. Raises ApiProblem (404, 422)."""
    known = await timer_of(request, entry.job_id)
    if known is None:
        raise no_job(entry.job_id)
    timer, cursor = known
    if timer.kind not in RECURRING or timer.from_end:
        message = "the job has no plan of moments: its timer is no cron or period, or counts from the end of "
        message += "each execution; trigger it"
        raise invalid("/jobId", "no_moments", message)
    since = read_moment("/from", posted.from_, timer)
    until = read_moment("/to", posted.to, timer)
    now = request.deps.clock.now().wall
    if until > now:
        raise invalid(
            "/to", "in_the_future", f"to is after now, {rfc3339(now)}; the timer fires those itself"
        )
    if until < since:
        raise invalid("/to", "range", "to lies before from; give a later one")
    runs: Sequence[tuple[int, int, int | None]] = ()
    if not keeps_grid(timer) and since < cursor.anchor:
        # Each resumption and update begins another grid: only the ledger knows what was planned before.
        until_anchor = min(until, cursor.anchor - 1)
        runs = await request.deps.history.planned_runs(entry.uid, since, until_anchor, MOST_MOMENTS + 1)
    planned = planned_between(timer, cursor, entry.uid, since, until)

    def find() -> list[int]:
        earlier = chain.from_iterable(moments_of_run(timer, *one, since) for one in runs)
        before = islice((one for one in earlier if one <= until), MOST_MOMENTS + 1)
        return sorted({*before, *(one.planned_at for one in islice(planned, MOST_MOMENTS + 1))})

    found = await work_by_count(MOST_MOMENTS, find)
    if len(found) > MOST_MOMENTS:
        message = (
            f"the timer has more than {MOST_MOMENTS:,} moments in this range; give a shorter one: to at most "
            f"{rfc3339(found[MOST_MOMENTS - 1])}"
        )
        raise invalid("/to", "too_many", message)
    return found


async def _known(request: ApiRequest, entry: CatalogueEntry, moments: Sequence[int]) -> dict[int, Known]:
    """What the history has of the moments: of the executions of each the one that came furthest."""
    known: dict[int, Known] = {}
    if moments:
        history = request.deps.history
        for one in await history.planned(entry.tenant, entry.job_id, moments[0], moments[-1]):
            came = _came(one.state)
            if one.planned_at not in known or known[one.planned_at].came < came:
                known[one.planned_at] = Known(came, one)
    return known


def _came(state: ExecutionState) -> Came:
    match state:
        case ExecutionState.SUCCEEDED:
            return Came.DONE
        case ExecutionState.SKIPPED:
            return Came.MISSING
        case ended if ended in TERMINAL:
            return Came.FAILED
        case _:
            return Came.OPEN


def _begun(started: StartedMany) -> list[dict[str, Any]]:
    """The moments that are run, with their executions; without them where they are only shown."""
    return [
        {
            "plannedAt": rfc3339(moment),
            "executionId": write_execution_id(started.uid, number) if started.uid else None,
            "executeNumber": number if started.uid else None,
        }
        for number, moment in enumerate(started.moments, started.first)
    ]


def _left_out(execution: PlannedExecution) -> dict[str, Any]:
    """A moment that is left out, with the execution for which it is."""
    return {
        "plannedAt": rfc3339(execution.planned_at),
        "executionId": write_execution_id(execution.uid, execution.execute_number),
        "executeNumber": execution.execute_number,
        "state": execution.state,
    }
