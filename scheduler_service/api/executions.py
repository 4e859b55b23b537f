"""Executions: listed, read, cancelled, replayed, released (SPEC section 10)."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from client_sdk.models import Cancellation, ReplayRequest, answers
from scheduler_service.api import openapi_examples, parameters
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.bodies import read_model
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.jobs import find_job, read_definition, show_started
from scheduler_service.api.key_scopes import as_seen, sees
from scheduler_service.api.query_filters import EXECUTION_FILTERS, execution_query, key_of
from scheduler_service.api.request import OF_JOBS, ApiRequest, PostedBody, Routes, no_execution
from scheduler_service.api.request_room import WaitingLine
from scheduler_service.api.responses import ApiProblem, FoundFlaw, invalid, refuse, succeed
from scheduler_service.domain.execution import ExecutionState, JobState, parse_execution_id
from scheduler_service.domain.job_key import write_job_key
from scheduler_service.domain.records import Exchange
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import CancelRequested, Released, Replay, Triggered
from scheduler_service.engine.job_summary import Queued, find_queued_parts
from scheduler_service.hosts.work_thread import work_by_size
from scheduler_service.language.json_values import as_json
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.state import Remembered
from scheduler_service.security.callers import Role

ROUTES = Routes("executions")
MOST_JOBS = 100
MOST_OF_A_JOB = 50


@ROUTES.add(
    "GET /executions",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(parameters.text("jobId", "Only of this job."), *EXECUTION_FILTERS, *parameters.paging()),
    data=answers.Listing[answers.Execution],
)
@ROUTES.add(
    "GET /main/execution",
    Role.VIEWER,
    scopes=OF_JOBS,
    name="listExecutionsBySourcePath",
    query=(parameters.text("jobId", "The job.", required=True), *EXECUTION_FILTERS, *parameters.paging()),
    data=answers.Listing[answers.Execution],
    tag="main",
)
async def list_executions(request: ApiRequest) -> Response:
    """List executions."""
    return await _list(request, key_of(request, request.query))


@ROUTES.add(
    "GET /jobs/{jobId}/executions",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(*EXECUTION_FILTERS, *parameters.paging()),
    data=answers.Listing[answers.Execution],
    statuses=(404,),
)
async def list_executions_of_job(request: ApiRequest) -> Response:
    """List the executions of a job, also of a destroyed one: its history stays until it is cleaned."""
    await find_job(request, request.job_key, or_destroyed=True)
    return await _list(request, request.job_key)


@ROUTES.add(
    "GET /executions/{executionId}",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(parameters.integer("requestCounts", "Only this attempt, and the notifications about it."),),
    data=answers.ExecutionInFull,
    statuses=(404,),
    answer_line=WaitingLine.HISTORY,
)
async def read_execution(request: ApiRequest) -> Response:
    """Read an execution in full: attempts, steps, checks, feedback and notifications."""
    behind = await request.catch_up()
    execution_id, counts = await _named(request), request.query["requestCounts"]
    execution = await find_execution(request, execution_id, behind, request_counts=counts)
    parsed = parse_execution_id(execution_id)
    assert parsed is not None, "the history has it"
    acts = await request.deps.security.audit.of_execution(request.caller.tenant, *parsed)
    shown = {**await _with_queue(request, execution), "acts": acts}
    return succeed(await as_seen(request, shown), warnings=behind)


@ROUTES.add(
    "GET /executions/{executionId}/log",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=parameters.paging(),
    data=answers.Listing[answers.LogLine],
    statuses=(404,),
    answer_line=WaitingLine.HISTORY,
)
async def read_log(request: ApiRequest) -> Response:
    """Read the log of an execution."""
    execution_id, tenant = await _named(request), request.caller.tenant
    limit, cursor = request.query["limit"], request.query["cursor"]
    behind = await request.catch_up()
    page = await request.deps.history.log(tenant, execution_id, limit=limit, cursor=cursor)
    if page is None:
        raise not_found(request, execution_id, behind)
    shown, hide = page.wire(), request.deps.security.masking.hide_in_line
    if not request.caller.role.includes(Role.EDITOR):
        size = sum(len(str(one["text"])) for one in page.items)
        shown["items"] = await work_by_size(
            size, lambda: [{**one, "text": hide(str(one["text"]))} for one in page.items]
        )
    return succeed(shown, warnings=behind)


@ROUTES.add(
    "POST /executions/{executionId}/cancel",
    Role.OPERATOR,
    scopes=OF_JOBS,
    body=PostedBody(Cancellation, {"reason": "wrong day"}),
    data=answers.Held,
    statuses=(404, 409),
    audit=Way.TURN,
)
async def cancel_execution(request: ApiRequest) -> Response:
    """Cancel an execution that has not ended; 409 if it has."""
    raw, value = await request.json_object()
    posted = read_model(Cancellation, value)
    execution_id = await _meant(request, raw)
    remembered = request.remembered(f"executions/{execution_id}/cancel", raw)
    number = await cancel_one(request, execution_id, posted.reason, remembered)
    state = ExecutionState.CANCELLED
    return succeed({"executionId": execution_id, "executeNumber": number, "state": state})


@ROUTES.add(
    "POST /executions/{executionId}/release",
    Role.OPERATOR,
    scopes=OF_JOBS,
    body=PostedBody(dict),
    data=answers.Held,
    statuses=(404, 409),
    audit=Way.TURN,
)
async def release_execution(request: ApiRequest) -> Response:
    """Run an execution that a debug switch holds."""
    raw, _ = await request.json_object()
    execution_id = await _meant(request, raw)
    entry, number = await _find_life(request, execution_id)
    remembered = request.remembered(f"executions/{execution_id}/release", raw)
    act = request.act(execute_number=number)
    await run_command(request, entry.job_id, Command(Released(number), remembered=remembered, act=act))
    return succeed({"executionId": execution_id, "executeNumber": number})


@ROUTES.add(
    "POST /executions/{executionId}/replay",
    Role.OPERATOR,
    scopes=OF_JOBS,
    body=PostedBody(ReplayRequest, openapi_examples.REPLAY),
    data=answers.Triggered,
    statuses=(404, 409),
    audit=Way.TURN,
)
async def replay_execution(request: ApiRequest) -> Response:
    """Run an execution again, from the start or from a step."""
    raw, value = await request.json_object()
    posted = read_model(ReplayRequest, value)
    execution_id = await _meant(request, raw)
    remembered = request.remembered(f"executions/{execution_id}/replay", raw)
    behind = await request.catch_up()
    return show_started((await replay_one(request, execution_id, posted, remembered, behind))[1])


async def cancel_one(
    request: ApiRequest, execution_id: str, reason: str | None, remembered: Remembered | None
) -> int:
    """Ends one execution, and returns its number. Raises ApiProblem (404, 409), StoreError.

    The reason goes into lists, events and the log, so no value of a secret may be in it.
    """
    entry, number = await _find_life(request, execution_id)
    reason = request.secret_mask.text(reason) if reason else None
    event = CancelRequested(number, reason) if reason else CancelRequested(number)
    act = request.act({"given": {"reason": reason}} if reason else None, execute_number=number)
    await run_command(request, entry.job_id, Command(event, remembered=remembered, act=act))
    return number


async def replay_one(
    request: ApiRequest,
    execution_id: str,
    posted: ReplayRequest,
    remembered: Remembered | None,
    behind: Sequence[FoundFlaw],
) -> tuple[str, Reply]:
    """Runs one execution again: its job's id, and the reply. `behind` as in `find_execution`.

    Raises ApiProblem (404, 409, 422), StoreError.
    """
    execution = await find_execution(request, execution_id, behind)
    job_id, number = str(execution["jobId"]), execution["executeNumber"]
    assert isinstance(number, int)
    entry = await find_job(request, write_job_key(request.caller.tenant, job_id))
    await _check_step(request, entry, posted.from_step)
    responses = await _responses(request, execution_id, posted.from_step)
    params = await _recall_params(request, execution_id) if posted.params is None else as_json(posted.params)
    replay = Replay(number, posted.from_step, responses, str(execution["executionId"]))
    event = Triggered(params=params, replay=replay, trace=request.trace)
    act = request.act({"given": {"executionId": execution_id, "fromStep": posted.from_step}})
    return job_id, await run_command(request, entry.job_id, Command(event, remembered=remembered, act=act))


async def find_execution(
    request: ApiRequest, execution_id: str, behind: Sequence[FoundFlaw], *, request_counts: int | None = None
) -> Wire:
    """One execution in full, or with one attempt. `behind`: the warnings of `catch_up`.

    Raises ApiProblem (404), StoreUnavailable. One that is not there may only be missing in a history that is
    behind: then it is not known.
    """
    found = await request.deps.history.execution(request.caller.tenant, execution_id, request_counts)
    if found is None:
        raise not_found(request, execution_id, behind)
    return found


async def _named(request: ApiRequest) -> str:
    """The executionId of what the path names. Raises as `ApiRequest.execution_id`."""
    return await request.execution_id(request.path["executionId"])


async def _meant(request: ApiRequest, raw: bytes) -> str:
    """The same for a command: under a known Idempotency-Key that which was the last one then."""
    given = request.path["executionId"]
    if not given.endswith("#last"):
        return await _named(request)
    subject = f"executions/{given}/{request.operation}"
    found = await request.run_once(subject, raw, lambda: _named(request))
    return msgspec.json.decode(found, type=str) if isinstance(found, msgspec.Raw) else str(found)


async def _with_queue(request: ApiRequest, execution: Wire) -> Wire:
    """The execution, its attempts with `queue`: what the running one waits for, as the job's state says."""
    given = execution["attempts"]
    assert isinstance(given, list)
    attempts: list[Wire] = [{**attempt, "queue": None} for attempt in given]
    parsed = parse_execution_id(str(execution["executionId"]))
    is_running = execution["state"] == ExecutionState.PROCESSING
    # Asked for by its number it may be an earlier one.
    is_latest = request.query["requestCounts"] is None or (attempts and attempts[-1]["endedAt"] is None)
    if attempts and parsed and is_running and is_latest:
        queued = await _find_queued(request, str(execution["jobId"]), *parsed)
        attempts[-1]["queue"] = None if queued is None else _show_queued_parts(queued)
    return {**execution, "attempts": attempts}


async def _find_queued(request: ApiRequest, job_id: str, uid: str, number: int) -> Queued | None:
    """What is in a queue; None too where the job cannot be read: the history is shown all the same."""
    try:
        job = await request.deps.jobs.read(write_job_key(request.caller.tenant, job_id))
    except StoreError:
        return None
    return None if job is None else find_queued_parts(job, uid, number)


async def _list(request: ApiRequest, job_id: str | None) -> Response:
    filters = request.query
    query = msgspec.structs.replace(
        await execution_query(request, job_id, filters), limit=filters["limit"], cursor=filters["cursor"]
    )
    behind = await request.catch_up(job_id)
    return succeed((await request.deps.history.executions(query)).wire(), warnings=behind)


async def _find_life(request: ApiRequest, execution_id: str) -> tuple[CatalogueEntry, int]:
    """The job of the execution, in the life that ran it, and its number. Raises ApiProblem (404, 409)."""
    parsed = parse_execution_id(execution_id)
    if parsed is None:
        raise no_execution(execution_id)
    entry = await request.deps.catalogue.find(parsed[0])
    is_own = entry is not None and entry.tenant == request.caller.tenant
    if entry is not None and is_own and entry.state is not JobState.DESTROYED:
        return entry, parsed[1]
    await find_execution(request, execution_id, await request.catch_up())
    message = f"the execution {execution_id!r} has ended with its job"
    raise refuse(HTTPStatus.CONFLICT, "/executionId", "conflict", message)


async def _check_step(request: ApiRequest, entry: CatalogueEntry, from_step: int) -> None:
    steps = len(msgspec.json.decode(await read_definition(request, entry))["request"])
    if from_step >= steps:
        message = f"fromStep {from_step} must be below {steps}, the number of steps"
        raise invalid("/fromStep", "range", message)


async def _recall_params(request: ApiRequest, execution_id: str) -> bytes:
    """The parameters of the replayed execution. Raises ApiProblem (409): the history has them incomplete."""
    known = await request.deps.history.params(request.caller.tenant, execution_id)
    if known is None:
        message = (
            "the history has the parameters of this execution masked, cut or not at all; "
            "give params, the parameters that the replay is to have"
        )
        raise refuse(HTTPStatus.CONFLICT, "/params", "conflict", message)
    return known


async def _responses(request: ApiRequest, execution_id: str, from_step: int) -> tuple[bytes, ...]:
    if from_step == 0:
        return ()
    known = await request.deps.history.exchanges(request.caller.tenant, execution_id)
    return tuple(_response_of(known or {}, index) for index in range(from_step))


def _response_of(exchanges: dict[int, Exchange], index: int) -> bytes:
    exchange = exchanges.get(index)
    if exchange is None:
        raise _no_response(index, "is not in the history, or the last attempt did not send it")
    if exchange.status is None:
        raise _no_response(index, "had no response")
    if exchange.response_redacted:
        raise _no_response(index, "has its response masked or left out in the history")
    if exchange.response_truncated:
        raise _no_response(index, "has its response cut in the history")
    return exchange.response_body or b""


def _no_response(index: int, what: str) -> ApiProblem:
    """A later step could get wrong data, so the replay is refused."""
    return invalid("/fromStep", "no_response", f"step {index} {what}; replay from it or from an earlier one")


def not_found(request: ApiRequest, execution_id: str, behind: Sequence[FoundFlaw]) -> Exception:
    """A 404, or a 503 where it may be that the history lacks an execution which is there."""
    if behind and parse_execution_id(execution_id) is not None:
        return StoreUnavailable(behind[0].message, is_public=True)
    return no_execution(request.path.get("executionId", execution_id))


@ROUTES.add(
    "GET /outcomes",
    Role.VIEWER,
    scopes=OF_JOBS,
    query=(
        parameters.texts("jobId", "Of these jobs.", required=True, example=["nightly"], most=MOST_JOBS),
        parameters.integer("count", "So many of each, at most.", low=1, high=MOST_OF_A_JOB, default=20),
    ),
    data=answers.Outcomes,
)
async def list_outcomes(request: ApiRequest) -> Response:
    """List the latest executions of many jobs in brief, in the order asked for; of destroyed ones too."""
    tenant = request.caller.tenant
    keys = {job_id: write_job_key(tenant, job_id) for job_id in request.query["jobId"]}
    if request.caller.is_narrow:
        entries = await request.deps.catalogue.some(list(keys.values()))
        seen = {key for key, entry in entries.items() if sees(request.caller, entry)}
        keys = {job_id: key for job_id, key in keys.items() if key in seen}
    behind = await request.catch_up()
    found = await request.deps.history.outcomes(tenant, list(keys.values()), request.query["count"])
    items = [{"jobId": job_id, "executions": found[key]} for job_id, key in keys.items()]
    return succeed({"items": items}, warnings=behind)


def _show_queued_parts(queued: Queued) -> dict[str, Any]:
    """What an attempt has in a queue."""
    return {
        "step": queued.step,
        "name": queued.queue,
        "parts": queued.unclaimed + queued.claimed + queued.ended,
        "unclaimed": queued.unclaimed,
        "claimed": queued.claimed,
        "ended": queued.ended,
    }
