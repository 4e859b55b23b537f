"""The routes under `/main`: children of an execution, and cleaning up (SPEC section 10)."""

from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus

from starlette.responses import Response

from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.executions import find_execution
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.problems import ApiProblem, absent
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.events import Destroyed
from scheduler_service.domain.execution import JobState
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain

PAGE = 500


async def clean(call: ApiRequest) -> Response:
    """`DELETE /main/schedule/clean`: what was removed."""
    removed = await call.parts.clean(
        destroyed=call.query["cleanDestroyJob"], retain=call.query["retainExecutionCount"]
    )
    return succeed(removed)


async def read_child_logs(call: ApiRequest) -> Response:
    """`GET /main/getChildJobLogs`: the newest execution of each child, in full."""
    return await _show_children(call.parts, call.query["parentJobId"], call.query["execution"])


async def read_child_logs_of_execution(call: ApiRequest) -> Response:
    """`GET /main/getChildJobLogsByExecutionId`: the same by the parent's execution."""
    parent = await find_execution(call.parts, call.query["executionId"])
    number = parent["executeNumber"]
    assert isinstance(number, int)
    return await _show_children(call.parts, str(parent["jobId"]), number)


async def destroy_family(call: ApiRequest) -> Response:
    """`DELETE /main/destroyByParentJob`: the children, theirs too, and the job itself; children first."""
    parent = call.query["parentJobId"]
    family = await _find_family(call.parts, parent)
    destroyed: list[str] = []
    for job_id in reversed(family):
        try:
            if await _destroy(call.parts, job_id):
                destroyed.append(job_id)
        except StoreUnavailable as error:
            raise half_done(error, destroyed) from error
    if not destroyed:
        raise absent("/parentJobId", f"there is no job {parent[:140]!r}, and none that it started")
    return succeed({"jobs": destroyed})


def half_done(error: StoreUnavailable, done: Sequence[str]) -> StoreError:
    """What to say where the store went away after some of it was done: not that nothing was."""
    return StoreUncertain(f"{len(done)} jobs are destroyed; then {error}") if done else error


async def _show_children(parts: ApiDependencies, parent: str, execution: int) -> Response:
    children = [entry.job_id async for entry in _children(parts, parent, execution)]
    items = await parts.history.children_latest(parts.surroundings.tenant, children)
    return succeed({"items": items, "nextCursor": None})


async def _children(
    parts: ApiDependencies, parent: str, execution: int | None
) -> AsyncIterator[CatalogueEntry]:
    after = ""
    while True:
        page = await parts.catalogue.children(parent, execution, after=after, limit=PAGE)
        for entry in page:
            if entry.tenant == parts.surroundings.tenant:
                yield entry
        if len(page) < PAGE:
            return
        after = page[-1].job_id


async def _find_family(parts: ApiDependencies, parent: str) -> list[str]:
    """The job and all that descend from it, each before its children; a circle ends where it began."""
    family = [parent]
    seen = {parent}
    for job_id in family:  # grows while it is walked
        async for entry in _children(parts, job_id, None):
            if entry.job_id not in seen and entry.state is not JobState.DESTROYED:
                seen.add(entry.job_id)
                family.append(entry.job_id)
    return family


async def _destroy(parts: ApiDependencies, job_id: str) -> bool:
    try:
        await run_command(parts, job_id, Command(Destroyed()))
    except ApiProblem as problem:
        if problem.status is not HTTPStatus.NOT_FOUND:
            raise
        return False
    return True
