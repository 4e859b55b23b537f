"""The routes under `/main`: children of an execution, and clean-up (SPEC section 10)."""

from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from client_sdk.models import answers
from scheduler_service.api import parameters
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.executions import find_execution
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.key_scopes import as_seen
from scheduler_service.api.request import ApiRequest, Routes
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import ApiProblem, FoundFlaw, absent, succeed
from scheduler_service.domain.audit_acts import ActKind
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import read_job_key, write_job_key
from scheduler_service.domain.turn_events import Destroyed
from scheduler_service.persistence.common.pagination import mark_list, read_cursor, write_cursor
from scheduler_service.persistence.history.answer_budget import AnswerBudget
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreUncertain
from scheduler_service.security.callers import Role

ROUTES = Routes("main")

PAGE = 500


class ChildPlace(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last child of a page."""

    job_id: str


@ROUTES.add(
    "DELETE /main/schedule/clean",
    Role.EDITOR,
    query=(
        parameters.flag(
            "cleanDestroyJob", "Remove all that there is of destroyed jobs; false: leave it.", default=True
        ),
        parameters.integer("retainExecutionCount", "How many executions each living job keeps.", default=10),
    ),
    data=answers.Cleaned,
    kind=ActKind.HISTORY,
)
async def clean_history(request: ApiRequest) -> Response:
    """Remove the history of destroyed jobs and old executions, also of what ended just before."""
    behind = await request.catch_up()
    removed = await request.deps.upkeep.clean(
        tenant=request.caller.tenant,
        destroyed=request.query["cleanDestroyJob"],
        retain=request.query["retainExecutionCount"],
    )
    return succeed(removed, warnings=behind)


@ROUTES.add(
    "GET /main/getChildJobLogs",
    Role.VIEWER,
    query=(
        parameters.text("parentJobId", "The parent.", required=True),
        parameters.integer("execution", "Its executeNumber.", required=True),
        *parameters.paging(default=PAGE),
    ),
    data=answers.Listing[answers.ExecutionInFull],
    answer_line=WaitingLine.HISTORY,
)
async def read_child_logs(request: ApiRequest) -> Response:
    """Read the newest execution of each child of an execution."""
    behind = await request.catch_up()
    return await _show_children(request, request.query["parentJobId"], request.query["execution"], behind)


@ROUTES.add(
    "GET /main/getChildJobLogsByExecutionId",
    Role.VIEWER,
    query=(
        parameters.text("executionId", "The parent's execution.", required=True),
        *parameters.paging(default=PAGE),
    ),
    data=answers.Listing[answers.ExecutionInFull],
    statuses=(404,),
    answer_line=WaitingLine.HISTORY,
)
async def read_child_logs_by_execution(request: ApiRequest) -> Response:
    """Read the newest execution of each child, by the id of the parent's execution."""
    behind = await request.catch_up()
    parent = await find_execution(request, await request.execution_id(request.query["executionId"]), behind)
    number = parent["executeNumber"]
    assert isinstance(number, int)
    return await _show_children(request, str(parent["jobId"]), number, behind)


@ROUTES.add(
    "DELETE /main/destroyByParentJob",
    Role.EDITOR,
    query=(parameters.text("parentJobId", "The parent.", required=True),),
    data=answers.Family,
    statuses=(404,),
    audit=Way.TURN,
)
async def destroy_family(request: ApiRequest) -> Response:
    """Destroy a job and all that it started, children first."""
    parent = request.query["parentJobId"]
    family = await _find_family(request, write_job_key(request.caller.tenant, parent))
    destroyed: list[str] = []
    for job_id in reversed(family):
        try:
            if await _destroy(request, job_id):
                destroyed.append(read_job_key(job_id)[1])
        except StoreError as error:
            raise half_done(error, destroyed) from error
    if not destroyed:
        raise absent("/parentJobId", f"there is no job {parent[:140]!r}, and none that it started")
    return succeed({"jobs": destroyed})


def half_done(error: StoreError, done: Sequence[str]) -> StoreError:
    """The error of a store that failed midway; if jobs are destroyed, it does not say that none was."""
    if not done:
        return error
    return StoreUncertain(f"{len(done)} jobs are destroyed; then {error}", is_public=error.is_public)


async def _show_children(
    request: ApiRequest, parent: str, execution: int, behind: Sequence[FoundFlaw]
) -> Response:
    """A page of children; it ends early where they use up the room of an answer."""
    limit, cursor = request.query["limit"], request.query["cursor"]
    mark = mark_list("children", request.caller.tenant, parent, execution)
    after = "" if cursor is None else read_cursor(mark, cursor, ChildPlace).job_id
    items: list[Wire] = []
    room, more, last = AnswerBudget(), True, after  # the last child of the tenant: a cursor names no other
    while more:
        page = await request.deps.catalogue.children(parent, execution, after=after, limit=PAGE)
        own = [entry.job_id for entry in page if entry.tenant == request.caller.tenant]
        read = await request.deps.history.children_latest(
            request.caller.tenant, own, room=room, limit=limit - len(items)
        )
        items += read.items
        last = own[read.count - 1] if read.count else last
        if read.count < len(own):
            break
        more = len(page) == PAGE
        after = page[-1].job_id if page else after
    following = write_cursor(mark, ChildPlace(last)) if more else None
    shown = [await as_seen(request, one) for one in items]
    return succeed({"items": shown, "nextCursor": following}, warnings=behind)


async def _children(request: ApiRequest, parent: str, execution: int | None) -> AsyncIterator[CatalogueEntry]:
    after = ""
    while True:
        page = await request.deps.catalogue.children(parent, execution, after=after, limit=PAGE)
        for entry in page:
            if entry.tenant == request.caller.tenant:
                yield entry
        if len(page) < PAGE:
            return
        after = page[-1].job_id


async def _find_family(request: ApiRequest, parent: str) -> list[str]:
    """The job and all its descendants, parents first; each once, also where they form a circle."""
    family = [parent]
    seen = {parent}
    for job_id in family:  # the loop appends to it
        async for entry in _children(request, read_job_key(job_id)[1], None):
            if entry.job_id not in seen and entry.state is not JobState.DESTROYED:
                seen.add(entry.job_id)
                family.append(entry.job_id)
    return family


async def _destroy(request: ApiRequest, job_id: str) -> bool:
    try:
        await run_command(request, job_id, Command(Destroyed()))
    except ApiProblem as problem:
        if problem.status is not HTTPStatus.NOT_FOUND:
            raise
        return False
    return True
