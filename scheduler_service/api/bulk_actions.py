"""Which jobs or executions a bulk request is about, and what is done with each: what its own route does."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import Any

import msgspec

from client_sdk.models import BulkExecutions, BulkJobs, ReplayRequest, write_pointer
from client_sdk.models.request_bodies import JobSelection
from scheduler_service.api.executions import cancel_one, replay_one
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.jobs import edit_definition, find_job
from scheduler_service.api.parameters import Parameter, Values, check_known, read_pairs, text
from scheduler_service.api.query_filters import (
    EXECUTION_FILTERS,
    JOB_FILTERS,
    execution_query,
    job_query,
    key_of,
)
from scheduler_service.api.request import ApiRequest, write_scope
from scheduler_service.api.responses import ApiProblem, FoundFlaw, invalid, invalid_all, no_job, store_problem
from scheduler_service.domain.execution import ExecutionState, JobState, write_execution_id
from scheduler_service.domain.job_key import read_job_key, write_job_key
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.replies import Started as ExecutionStarted
from scheduler_service.domain.turn_events import Activated, Destroyed, Event, Paused, Triggered
from scheduler_service.engine.definition_checks import find_too_many
from scheduler_service.hosts.operations.operation_run import (
    Outcome,
    StartedExecution,
    read_piece,
    write_piece,
)
from scheduler_service.language.json_values import as_json
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable, StoreError
from scheduler_service.ports.state import Remembered

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


def _relabel(posted: BulkJobs, before: Any) -> Any:
    """The labels of the job with those of the request; None removes one. Raises ApiProblem (422)."""
    labels = {**(before or {}), **(posted.labels or {})}
    after = {name: value for name, value in labels.items() if value is not None}
    if too_many := tuple(find_too_many({"labels": after})):
        raise invalid_all(too_many)
    return after or (before and after)


EDITS: Mapping[str, tuple[str, Callable[[BulkJobs, Any], object]]] = {
    "label": ("labels", _relabel),
    "disable": ("disabled", lambda _, before: True),
    "enable": ("disabled", lambda _, before: before and False),
}
"""The actions that change a member of the definition: its name, and the new value."""


class JobWork:
    """The command for each of many jobs, in the life in which it was chosen; under `key` it is given once."""

    def __init__(self, request: ApiRequest, posted: BulkJobs, key: str) -> None:
        self._request = request
        self._posted = posted
        self._key = key
        self._params = as_json(posted.params or {})

    async def do(self, piece: str) -> Outcome:
        """Does it for one job."""
        return await _outcome(self._do(*read_piece(piece)))

    async def _do(self, job_id: str, life: str) -> StartedExecution | None:
        try:
            return await self._do_to(job_id, life)
        except ApiProblem as problem:
            # Gone is what `destroy` wants: it was destroyed meanwhile, maybe by an earlier try of this one.
            if self._posted.action == "destroy" and life and problem.status is HTTPStatus.NOT_FOUND:
                return None
            raise

    async def _do_to(self, job_id: str, life: str) -> StartedExecution | None:
        posted, job_key = self._posted, write_job_key(self._request.caller.tenant, job_id)
        if (await find_job(self._request, job_key)).uid != life:
            raise no_job(job_key)
        remembered = remember(self._request, f"jobs/{job_id}/{posted.action}", self._key, self._params)
        if posted.action in EDITS:
            name, change = EDITS[posted.action]
            await edit_definition(self._request, job_key, name, partial(change, posted), remembered)
            return None
        # The answer of a destruction would end with the life that it ends.
        kept = None if posted.action == "destroy" else remembered
        command = Command(self._event(), remembered=kept)
        return show_started(job_id, await run_command(self._request, job_key, command))

    def _event(self) -> Event:
        posted = self._posted
        events: dict[str, Callable[[], Event]] = {
            "pause": lambda: Paused(drain=posted.drain),
            "resume": lambda: Activated(misfire=posted.misfire),
            "destroy": Destroyed,
            "trigger": lambda: Triggered(params=self._params, trace=self._request.trace),
        }
        return events[posted.action]()


class ExecutionWork:
    """The command for each of many executions; `behind` as in `executions.find_execution`."""

    def __init__(
        self, request: ApiRequest, posted: BulkExecutions, key: str, behind: Sequence[FoundFlaw]
    ) -> None:
        self._request = request
        self._posted = posted
        self._key = key
        self._behind = behind
        self._replay = ReplayRequest(from_step=posted.from_step, params=posted.params)

    async def do(self, execution_id: str) -> Outcome:
        """Does it for one execution."""
        return await _outcome(self._do(execution_id))

    async def _do(self, execution_id: str) -> StartedExecution | None:
        request, posted = self._request, self._posted
        if posted.action == "cancel":
            subject, body = f"executions/{execution_id}/cancel", (posted.reason or "").encode()
            remembered = remember(request, subject, self._key, body)
            await cancel_one(request, execution_id, posted.reason, remembered)
            return None
        if self._behind:
            self._behind = await request.catch_up()
        subject, body = f"executions/{execution_id}/replay", as_json(self._replay.model_dump())
        remembered = remember(request, subject, self._key, body)
        return show_started(*await replay_one(request, execution_id, self._replay, remembered, self._behind))


async def _outcome(done: Awaitable[StartedExecution | None]) -> Outcome:
    try:
        return Outcome(started=await done)
    except ApiProblem as problem:
        return Outcome(problem=problem.body())
    except StoreError as error:
        is_passing = not isinstance(error, StateUnreadable)
        return Outcome(problem=store_problem(error).body(), is_passing=is_passing)


def remember(request: ApiRequest, subject: str, key: str, body: bytes) -> Remembered:
    """What makes a command have its effect once under `key`."""
    scope = write_scope(request.caller, subject)
    return Remembered(scope, key, sha256(body).digest(), b"", request.deps.clock.now().wall)


def show_started(job_id: str, reply: Reply) -> StartedExecution | None:
    """The execution that a command started, if it started one."""
    if not isinstance(reply, ExecutionStarted):
        return None
    return StartedExecution(job_id, write_execution_id(reply.uid, reply.execute_number))


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
    query = job_query(request.caller, read_filter(select.filter or {}, JOB_FILTERS))
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


async def _name(request: ApiRequest, given: str) -> str:
    """The executionId; what names no execution stays, so that it is refused alone. Raises StoreError."""
    try:
        return await request.execution_id(given)
    except ApiProblem:
        return given


async def select_executions(
    request: ApiRequest, posted: BulkExecutions
) -> tuple[Sequence[str], Sequence[FoundFlaw]]:
    """The executionIds, each once, and the warnings of `catch_up`; for `cancel` a filter finds open ones.

    Raises as `select_jobs`.
    """
    select, behind = posted.select, await request.catch_up()
    _check_way(select.execution_ids, select.filter, "executionIds")
    if select.execution_ids is not None:
        return list(dict.fromkeys([await _name(request, one) for one in select.execution_ids])), behind
    filters = read_filter(select.filter or {}, (text("jobId", "Only of this job."), *EXECUTION_FILTERS))
    query = await execution_query(request, key_of(request, filters), filters)
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
