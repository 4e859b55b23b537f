"""The filters of jobs and executions, as lists and everything that works on many of them take them."""

from collections.abc import Mapping

import msgspec

from scheduler_service.api.key_scopes import narrow
from scheduler_service.api.parameters import Parameter, Values, choice, flag, integer, label, moment, text
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import invalid
from scheduler_service.domain.execution import DeliveryState, ExecutionState, JobState, TriggeredBy
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.persistence.history.queries import DeliveryQuery, ExecutionQuery
from scheduler_service.ports.catalogue import LIVING, JobQuery, LastOutcome
from scheduler_service.security.callers import Caller

KINDS = ("one_time", "timing", "timeing", "cron", "external")
ALL_STATES = tuple(JobState)
OUTCOMES: Mapping[str, ExecutionState] = {
    "succeeded": ExecutionState.SUCCEEDED,
    "failed": ExecutionState.TERMINATED,
    "cancelled": ExecutionState.CANCELLED,
    "skipped": ExecutionState.SKIPPED,
}
"""How an execution ended, in the words of those who ask, and the state that this is."""
PAGE = 500

JOB_FILTERS: tuple[Parameter, ...] = (
    choice("state", "Only in this state; without it all but the destroyed.", JobState),
    choice("kind", "Only with a timer of this kind.", KINDS),
    label(),
    text("creator", "Only of this creator."),
    text("objectId", "Only with this reference of the caller."),
    text("parentJob", "Only children of this job."),
    integer("parentJobExecution", "Only children of this execution of it."),
    text("text", "Only those with this text in jobId, jobName, objectId, creator or a label's value."),
    choice("lastOutcome", "Only those whose newest execution came to this.", LastOutcome),
    flag("system", "The system's own jobs instead.", default=False),
)
"""What `job_query` reads."""

EXECUTION_FILTERS: tuple[Parameter, ...] = (
    choice("state", "Only in this state; `failed` waits for a retry.", ExecutionState),
    choice("outcome", "Only those that ended so; `failed` for good.", tuple(OUTCOMES)),
    text("error", "Only with this error code.", example="500"),
    choice("triggeredBy", "Only those triggered by this.", TriggeredBy),
    moment("from", "Planned at this moment or later."),
    moment("to", "Planned at this moment or earlier."),
    label(),
)
"""What `execution_query` reads, beside `jobId`."""


DELIVERY_FILTERS: tuple[Parameter, ...] = (
    text("jobId", "Only of this job."),
    choice("state", "Only in this state.", DeliveryState),
    text("event", "Only of this event.", example="finalFailed"),
)
"""Those of notifications."""


def job_query(caller: Caller, filters: Values) -> JobQuery:
    """The jobs that the caller sees and that fit the filters of `GET /jobs`, in order of id."""
    query = JobQuery(
        tenant=caller.tenant,
        states=LIVING if filters["state"] is None else (JobState(filters["state"]),),
        kind="timing" if filters["kind"] == "timeing" else filters["kind"],
        labels=filters["label"],
        creator=filters["creator"],
        object_id=filters["objectId"],
        parent_job=filters["parentJob"],
        parent_execution=filters["parentJobExecution"],
        text=filters["text"],
        system=filters["system"],
        last_outcome=None if filters["lastOutcome"] is None else LastOutcome(filters["lastOutcome"]),
    )
    return narrow(caller, query)


async def execution_query(request: ApiRequest, job_id: str | None, filters: Values) -> ExecutionQuery:
    """The executions, of one job or of all, that fit the filters of `GET /executions`, the newest first.

    Raises ApiProblem (422) for filters that exclude each other, StoreError.
    """
    labels: tuple[tuple[str, str], ...] = filters.get("label", ())
    return ExecutionQuery(
        tenant=request.caller.tenant,
        job_id=job_id,
        job_ids=await find_labelled(request, labels) if labels or request.caller.is_narrow else None,
        state=_state_of(filters["state"], filters["outcome"]),
        error=filters["error"],
        triggered_by=None if filters["triggeredBy"] is None else TriggeredBy(filters["triggeredBy"]),
        planned_from=filters["from"],
        planned_to=filters["to"],
        labels=labels,
    )


async def delivery_query(request: ApiRequest) -> DeliveryQuery:
    """The notifications that fit `DELIVERY_FILTERS`, the newest first. Raises StoreError."""
    filters = request.query
    return DeliveryQuery(
        tenant=request.caller.tenant,
        job_id=key_of(request, filters),
        job_ids=await find_labelled(request, ()) if request.caller.is_narrow else None,
        state=filters["state"],
        event=filters["event"],
    )


def key_of(request: ApiRequest, filters: Values) -> str | None:
    """The key of the caller's job that the filter `jobId` names, if it is given."""
    job_id = filters["jobId"]
    return None if job_id is None else write_job_key(request.caller.tenant, job_id)


async def find_labelled(request: ApiRequest, labels: tuple[tuple[str, str], ...]) -> frozenset[str]:
    """The keys of all jobs with these labels that the caller sees. Raises StoreError."""
    found: set[str] = set()
    tenant = request.caller.tenant
    query = JobQuery(tenant=tenant, states=ALL_STATES, labels=labels, system=None, limit=PAGE)
    query = narrow(request.caller, query)
    while True:
        page = await request.deps.catalogue.list(query)
        found.update(entry.job_id for entry in page.items)
        if page.next_cursor is None:
            return frozenset(found)
        query = msgspec.structs.replace(query, cursor=page.next_cursor)


def _state_of(state: str | None, outcome: str | None) -> ExecutionState | None:
    """The state to look for. Raises ApiProblem (422) for a state and an outcome that exclude each other."""
    ended = None if outcome is None else OUTCOMES[outcome]
    if state is None or ended is None:
        return ended if state is None else ExecutionState(state)
    if state != ended:
        message = f"outcome {outcome!r} is the state {ended.value!r}, not {state!r}; give one of the two"
        raise invalid("/outcome", "contradiction", message)
    return ended
