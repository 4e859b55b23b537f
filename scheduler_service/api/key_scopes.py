"""What a key of a service, or one for jobs with labels, may see and change (SPEC section 14)."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec
from msgspec.structs import replace

from scheduler_service.api.request import ApiOperation, ApiRequest, KeyScope, no_execution
from scheduler_service.api.responses import ENCODER, ApiProblem, absent, no_job, refuse
from scheduler_service.domain.execution import parse_execution_id
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.engine.program import Program
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.ports.catalogue import CatalogueEntry, JobQuery
from scheduler_service.security.callers import Caller, Role

CREATE = "createJob"
NOT_FREE = "not_free"
NOBODY = "\x00"
"""No job has such a creator."""


def check_scope(caller: Caller, operation: ApiOperation, service: str | None) -> None:
    """Refuses what is not for such a key; `service` is the name in the path, of a service or its queue.

    Raises ApiProblem (403; 404 for another service).
    """
    of_service, labels = caller.service, caller.labels
    is_refused = of_service and KeyScope.SERVICE not in operation.scopes
    if is_refused or (labels and KeyScope.LABELS not in operation.scopes):
        what = f"the service {of_service!r}" if of_service else f"jobs with {' and '.join(labels)}"
        message = f"this key is for {what} alone; take one of the whole tenant for this"
        raise refuse(HTTPStatus.FORBIDDEN, "/Authorization", "scope", message)
    if caller.service and service not in (None, caller.service):
        raise absent("/name", f"there is no {service!r}")


def check_service(caller: Caller) -> None:
    """Refuses the work of a service's processes to keys of people, of any role.

    Raises ApiProblem (403).
    """
    if caller.service is None and not caller.is_operator:
        message = (
            "instances and workers show a key of their service, or server.key: 'punctual keys create NAME "
            "--role editor --service SERVICE', where a worker's SERVICE is the name of its queue"
        )
        raise refuse(HTTPStatus.FORBIDDEN, "/Authorization", "scope", message)


async def check_sight(request: ApiRequest) -> None:
    """Refuses jobs and executions that such a key does not see, as if they were not there.

    What is not there goes on to the handler, which says so, or makes it. Raises ApiProblem (404; 409 for a
    creation), StoreError.
    """
    caller, path, catalogue = request.caller, request.path, request.deps.catalogue
    if "jobId" in path:
        entry = await catalogue.get(request.job_key)
        if entry is not None and not sees(caller, entry):
            raise _refuse_taken(request.job_key) if request.operation == CREATE else no_job(request.job_key)
    if "executionId" in path:
        parsed = parse_execution_id(await request.execution_id(path["executionId"]))
        entry = None if parsed is None else await catalogue.find(parsed[0])
        if entry is None or not sees(caller, entry):
            raise no_execution(path["executionId"])


async def check_reach(request: ApiRequest, program: Program) -> None:
    """Refuses one definition of many, as `check_within` and `check_sight` a creation. Raises as these."""
    check_within(request.caller, program)
    entry = await request.deps.catalogue.get(program.key)
    if entry is not None and not sees(request.caller, entry):
        raise _refuse_taken(program.key)


def _refuse_taken(job_key: str) -> ApiProblem:
    return refuse(HTTPStatus.CONFLICT, "/jobId", NOT_FREE, not_free(job_key))


def not_free(job_key: str) -> str:
    """What has this id, or had it, is not said: that it is taken cannot be hidden."""
    return f"the id {read_job_key(job_key)[1]!r} is not free for this key; choose another"


def sees(caller: Caller, entry: CatalogueEntry) -> bool:
    """Whether the caller sees this job; of a narrow one the entry has its labels."""
    return entry.tenant == caller.tenant and caller.covers(entry.creator, entry.labels)


def narrow(caller: Caller, query: JobQuery) -> JobQuery:
    """`query` with what the caller's key is for."""
    if not caller.is_narrow:
        return query
    creator = query.creator
    if caller.service is not None:
        creator = caller.service if query.creator in (None, caller.service) else NOBODY
    labels = (label.partition(":") for label in caller.labels)
    wanted = ((name, value) for name, _, value in labels)
    return replace(query, creator=creator, labels=(*query.labels, *wanted))


async def upcoming(request: ApiRequest, end: int, limit: int) -> Sequence[CatalogueEntry]:
    """The ordinary jobs of the caller that fire next by `end`, without labels. Raises StoreUnavailable."""
    own = narrow(request.caller, JobQuery(tenant=request.caller.tenant))
    return await request.deps.catalogue.upcoming(
        0, end, limit, tenant=own.tenant, creator=own.creator, labels=own.labels, with_labels=False
    )


def check_within(caller: Caller, program: Program) -> None:
    """Raises ApiProblem (403) for a definition of a job that the caller's key would not see."""
    if not caller.is_narrow or caller.covers(program.creator, program.labels):
        return
    if caller.service and program.creator != caller.service:
        pointer, message = "/creator", f"with this key creator is {caller.service!r}, or left out"
    else:
        pointer, message = "/labels", f"with this key a job has the labels {', '.join(caller.labels)}"
    raise refuse(HTTPStatus.FORBIDDEN, pointer, "scope", message)


async def as_seen(request: ApiRequest, execution: Wire) -> object:
    """An execution, or a delivery, for its caller: plain credentials are for who may edit.

    Operators see `params`, with which they replay.
    """
    role, masking = request.caller.role, request.deps.security.masking
    text = b"" if role.includes(Role.EDITOR) else ENCODER.encode(execution)
    if not masking.may_have_plain(text):
        return execution

    def hide() -> object:
        given = msgspec.json.decode(text)
        replays = "params" in given and role.includes(Role.OPERATOR)
        kept = {"params": given.pop("params")} if replays else {}
        return {name: masking.hide(value, name) for name, value in given.items()} | kept

    return await work_by_size(len(text), hide)
