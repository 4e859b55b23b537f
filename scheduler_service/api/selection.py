"""Which jobs or executions a bulk request is about: those that it names, or those that its filters find."""

from collections.abc import Mapping, Sequence

import msgspec

from client_sdk.models import BulkExecutions, write_pointer
from client_sdk.models.requests import JobSelection
from scheduler_service.api.filters import EXECUTION_FILTERS, JOB_FILTERS, execution_query, job_query
from scheduler_service.api.parameters import Parameter, Values, check_known, read_pairs, text
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ApiProblem, Flaw, invalid
from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.domain.job_key import read_job_key, write_job_key
from scheduler_service.hosts.operations.operation import write_piece
from scheduler_service.persistence.history.queries import ExecutionQuery

PAGE = 500
MOST_JOBS = 100_000
MOST_EXECUTIONS = 10_000
"""So many may be selected by one request."""
OPEN_STATES = (
    ExecutionState.PROCESSING,
    ExecutionState.FAILED,
    ExecutionState.ENQUEUED,
    ExecutionState.SCHEDULED,
)
"""Those in which an execution can be cancelled."""
READ_AT_ONCE = 20
"""Of so many jobs the entries are read together: each may have labels of a MiB."""
PLACE = "/select/filter"


async def select_jobs(
    request: ApiRequest, select: JobSelection, *, is_checked: bool = False
) -> Sequence[str]:
    """The jobs, each once, in its present life (`write_piece`); `is_checked`: the jobIds of those that exist.

    Raises ApiProblem (422): none or both of the ways to select, a wrong filter, too many; StoreError.
    """
    _check_way(select.job_ids, select.filter, "jobIds")
    if select.job_ids is not None:
        named = list(dict.fromkeys(select.job_ids))
        lives = await _lives(request, named)
        return list(lives) if is_checked else [write_piece(name, lives.get(name, "")) for name in named]
    query = job_query(request.caller.tenant, read_filter(select.filter or {}, JOB_FILTERS))
    query, found = msgspec.structs.replace(query, limit=PAGE), list[str]()
    while True:
        page = await request.deps.catalogue.list(query)
        for entry in page.items:
            job_id = read_job_key(entry.job_id)[1]
            found.append(job_id if is_checked else write_piece(job_id, entry.uid))
        _check_number(found, MOST_JOBS)
        if page.next_cursor is None:
            return found
        query = msgspec.structs.replace(query, cursor=page.next_cursor)


async def select_executions(
    request: ApiRequest, posted: BulkExecutions
) -> tuple[Sequence[str], Sequence[Flaw]]:
    """The executionIds, each once, and the warnings of `catch_up`; for `cancel` a filter finds open ones.

    Raises as `select_jobs`.
    """
    select, behind = posted.select, await request.catch_up()
    _check_way(select.execution_ids, select.filter, "executionIds")
    if select.execution_ids is not None:
        return list(dict.fromkeys(select.execution_ids)), behind
    filters = read_filter(select.filter or {}, (text("jobId", "Only of this job."), *EXECUTION_FILTERS))
    query = await execution_query(request, filters["jobId"], filters)
    states = (query.state,) if query.state or posted.action != "cancel" else OPEN_STATES
    found: list[str] = []
    for state in states:
        await _find_executions(request, msgspec.structs.replace(query, state=state, limit=PAGE), found)
    return list(dict.fromkeys(found)), behind


def read_filter(given: Mapping[str, object], parameters: tuple[Parameter, ...]) -> Values:
    """The values of `parameters`, given as members of an object with the words of the query.

    A value is a text, a number, true or false; of a parameter that may be repeated also a list of texts.
    A member always narrows: null and an empty list are refused, not left out.
    Raises ApiProblem (422) naming the member.
    """
    try:
        for name in given:
            check_known(name, parameters)
        # Not a list: of a long one no more is read than as many as may be.
        pairs = ((name, word) for name, value in given.items() for word in _words(name, value))
        return read_pairs(pairs, parameters)
    except ApiProblem as problem:
        moved = tuple({**error, "pointer": PLACE + error["pointer"]} for error in problem.errors)
        raise ApiProblem(problem.status, problem.detail, errors=moved) from None


def _words(name: str, value: object) -> Sequence[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, int | str):
        return [str(value)]
    if value is None or value == []:
        shown = "null" if value is None else "an empty list"
        raise invalid(write_pointer([name]), "empty", f"{name} is {shown}; give a value, or leave {name} out")
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    message = f"{name} must be a text, a number, true or false, or a list of texts"
    raise invalid(write_pointer([name]), "type", message)


def _check_way(named: object, filters: object, name: str) -> None:
    if (named is None) == (filters is None):
        raise invalid("/select", "required", f"give {name} or filter, one of them; a filter of {{}} is all")


def _check_number(found: Sequence[str], most: int) -> None:
    if len(found) > most:
        message = f"the filter finds more than {most:,}; narrow it, and send several requests"
        raise invalid(PLACE, "too_many", message)


async def _lives(request: ApiRequest, job_ids: Sequence[str]) -> dict[str, str]:
    """Those of the jobs that live, in their order, with their uids."""
    found: dict[str, str] = {}
    for start in range(0, len(job_ids), READ_AT_ONCE):
        some = job_ids[start : start + READ_AT_ONCE]
        keys = {write_job_key(request.caller.tenant, job_id): job_id for job_id in some}
        entries = await request.deps.catalogue.some(list(keys))
        for key, job_id in keys.items():
            if key in entries and entries[key].state is not JobState.DESTROYED:
                found[job_id] = entries[key].uid
    return found


async def _find_executions(request: ApiRequest, query: ExecutionQuery, found: list[str]) -> None:
    while True:
        page = await request.deps.history.executions(query)
        found.extend(str(item["executionId"]) for item in page.items)
        _check_number(found, MOST_EXECUTIONS)
        if page.next_cursor is None:
            return
        query = msgspec.structs.replace(query, cursor=page.next_cursor)
