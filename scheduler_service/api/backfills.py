"""Backfill: past moments of a job's timer are run (SPEC section 3)."""

from collections.abc import Sequence
from enum import IntEnum
from itertools import islice
from typing import Any

import msgspec
from starlette.responses import Response

from client_sdk.models import BackfillRequest, answers
from scheduler_service.api import examples
from scheduler_service.api.auditing import Way
from scheduler_service.api.bodies import read_model
from scheduler_service.api.firings import timer_of
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.jobs import find_job
from scheduler_service.api.previews import read_moment, work_by_count
from scheduler_service.api.request import OF_JOBS, ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import invalid, no_job, succeed
from scheduler_service.domain.execution import TERMINAL, ExecutionState, write_execution_id
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.replies import StartedMany
from scheduler_service.domain.turn_events import Backfilled
from scheduler_service.language.values import as_json
from scheduler_service.persistence.history.queries import PlannedExecution
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.security.callers import Role
from scheduler_service.timing.schedule import planned_between
from scheduler_service.timing.timer import RECURRING

ROUTES = Routes("timers")
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
    body=PostedBody(BackfillRequest, examples.BACKFILL, required=True),
    data=answers.Backfill,
    statuses=(404, 409, 429),
    audit=Way.TURN,
)
async def backfill_job(request: ApiRequest) -> Response:
    """Run the past moments of a job's timer between two moments, in order, behind all else that waits."""
    raw, value = await request.json_object()
    posted = read_model(BackfillRequest, value)
    entry = await find_job(request, request.job_key)
    moments = await _moments(request, entry, posted)
    behind = await request.catch_up(entry.job_id)
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
    data = {"items": _begun(started), "left": [_line(known[one].execution) for one in left if one in known]}
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
    planned = planned_between(timer, cursor.anchor, entry.uid, since, until)
    found = await work_by_count(
        MOST_MOMENTS, lambda: [one.planned_at for one in islice(planned, MOST_MOMENTS + 1)]
    )
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


def _line(execution: PlannedExecution) -> dict[str, Any]:
    """A moment that is left out, with the execution for which it is."""
    return {
        "plannedAt": rfc3339(execution.planned_at),
        "executionId": write_execution_id(execution.uid, execution.execute_number),
        "executeNumber": execution.execute_number,
        "state": execution.state,
    }
