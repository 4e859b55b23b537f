"""Executions: what happened, and what may still be done about them (SPEC section 10)."""

import asyncio
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from client_sdk.models import Cancellation, ReplayRequest
from scheduler_service.api.bodies import read_model
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.jobs import find_job, read_definition
from scheduler_service.api.problems import ApiProblem, absent, invalid, refuse
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.api.triggers import show_started
from scheduler_service.domain.events import CancelRequested, Released, Replay, Triggered
from scheduler_service.domain.execution import ExecutionState, JobState, TriggeredBy, parse_execution_id
from scheduler_service.domain.records import Exchange
from scheduler_service.language.values import as_json
from scheduler_service.persistence.history.queries import ExecutionQuery, Wire
from scheduler_service.ports.catalogue import CatalogueEntry, JobQuery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable

ALL_STATES = tuple(JobState)
FRESH = 1.0
"""Seconds that the reader of a live execution waits for what is not written yet."""
PAGE = 500


async def list_all(call: ApiRequest) -> Response:
    """`GET /executions` and `GET /main/execution`."""
    return await _list(call, call.query["jobId"])


async def list_of_job(call: ApiRequest) -> Response:
    """`GET /jobs/{jobId}/executions`, of a destroyed job too: its history stays until it is cleaned."""
    job_id = call.job_id
    if await call.parts.catalogue.get(job_id) is None:
        raise absent("/jobId", f"there is no job {job_id!r}")
    return await _list(call, job_id)


async def read(call: ApiRequest) -> Response:
    """`GET /executions/{executionId}`: every attempt, step, check, feedback and notification."""
    return succeed(await find_execution(call.parts, call.path["executionId"]))


async def read_log(call: ApiRequest) -> Response:
    """`GET /executions/{executionId}/log`."""
    execution_id, tenant = call.path["executionId"], call.parts.surroundings.tenant
    limit, cursor = call.query["limit"], call.query["cursor"]
    page = await call.parts.history.log(tenant, execution_id, limit=limit, cursor=cursor)
    if page is None:
        await find_execution(call.parts, execution_id)
        page = await call.parts.history.log(tenant, execution_id, limit=limit, cursor=cursor)
    return succeed(None if page is None else page.wire())


async def cancel(call: ApiRequest) -> Response:
    """`POST /executions/{executionId}/cancel`: ends a live or waiting one; 409 if it has ended."""
    raw, value = await call.object()
    asked = read_model(Cancellation, value)
    entry, number = await _find_life(call)
    event = CancelRequested(number, asked.reason) if asked.reason else CancelRequested(number)
    remembered = call.remembered(f"executions/{call.path['executionId']}/cancel", raw)
    await run_command(call.parts, entry.job_id, Command(event, remembered=remembered))
    return succeed(
        {"executionId": call.path["executionId"], "executeNumber": number, "state": ExecutionState.CANCELLED}
    )


async def release(call: ApiRequest) -> Response:
    """`POST /executions/{executionId}/release`: lets one go that a debug switch holds."""
    raw, _ = await call.object()
    entry, number = await _find_life(call)
    remembered = call.remembered(f"executions/{call.path['executionId']}/release", raw)
    await run_command(call.parts, entry.job_id, Command(Released(number), remembered=remembered))
    return succeed({"executionId": call.path["executionId"], "executeNumber": number})


async def replay(call: ApiRequest) -> Response:
    """`POST /executions/{executionId}/replay`: once more, from the start or from a step."""
    raw, value = await call.object()
    asked = read_model(ReplayRequest, value)
    execution = await find_execution(call.parts, call.path["executionId"])
    entry = await find_job(call.parts, str(execution["jobId"]))
    await _check_step(call.parts, entry, asked.from_step)
    responses = await _responses(call, asked.from_step)
    number = execution["executeNumber"]
    assert isinstance(number, int)
    params = await _recall_params(call) if asked.params is None else as_json(asked.params)
    event = Triggered(params=params, replay=Replay(number, asked.from_step, responses))
    remembered = call.remembered(f"executions/{call.path['executionId']}/replay", raw)
    return show_started(await run_command(call.parts, entry.job_id, Command(event, remembered=remembered)))


async def find_execution(parts: ApiDependencies, execution_id: str) -> Wire:
    """One execution in full, be it this moment's. Raises ApiProblem (404), StoreUnavailable.

    One that has not ended may have moved on by a turn that was answered and is not written yet: that is
    waited for, unless it cannot be written within a second.
    """
    tenant = parts.surroundings.tenant
    found = await parts.history.execution(tenant, execution_id)
    if found is not None and found["endedAt"] is not None:
        return found
    if found is None and parse_execution_id(execution_id) is None:
        raise _no_execution(execution_id)
    try:
        async with asyncio.timeout(None if found is None else FRESH):
            await parts.flush()
    except (StoreUnavailable, TimeoutError):
        if found is None:
            raise
        return found
    found = await parts.history.execution(tenant, execution_id)
    if found is None:
        raise _no_execution(execution_id)
    return found


async def _list(call: ApiRequest, job_id: str | None) -> Response:
    asked = call.query
    labels: tuple[tuple[str, str], ...] = asked.get("label", ())
    query = ExecutionQuery(
        tenant=call.parts.surroundings.tenant,
        job_id=job_id,
        job_ids=await _jobs_with(call.parts, labels) if labels else None,
        state=None if asked["state"] is None else ExecutionState(asked["state"]),
        error=asked["error"],
        triggered_by=None if asked["triggeredBy"] is None else TriggeredBy(asked["triggeredBy"]),
        planned_from=asked["from"],
        planned_to=asked["to"],
        limit=asked["limit"],
        cursor=asked["cursor"],
    )
    return succeed((await call.parts.history.executions(query)).wire())


async def _jobs_with(parts: ApiDependencies, labels: tuple[tuple[str, str], ...]) -> frozenset[str]:
    found: set[str] = set()
    query = JobQuery(
        tenant=parts.surroundings.tenant, states=ALL_STATES, labels=labels, system=None, limit=PAGE
    )
    while True:
        page = await parts.catalogue.list(query)
        found.update(entry.job_id for entry in page.items)
        if page.next_cursor is None:
            return frozenset(found)
        query = msgspec.structs.replace(query, cursor=page.next_cursor)


async def _find_life(call: ApiRequest) -> tuple[CatalogueEntry, int]:
    """The job of which the execution is, in its present life. Raises ApiProblem (404, 409)."""
    execution_id = call.path["executionId"]
    parsed = parse_execution_id(execution_id)
    if parsed is None:
        raise _no_execution(execution_id)
    entry = await call.parts.catalogue.find(parsed[0])
    if entry is not None and entry.state is not JobState.DESTROYED:
        return entry, parsed[1]
    await find_execution(call.parts, execution_id)
    message = f"the execution {execution_id!r} has ended with its job"
    raise refuse(HTTPStatus.CONFLICT, "/executionId", "conflict", message)


async def _check_step(parts: ApiDependencies, entry: CatalogueEntry, from_step: int) -> None:
    steps = len(msgspec.json.decode(await read_definition(parts, entry))["request"])
    if from_step >= steps:
        raise invalid(
            "/fromStep", "range", f"fromStep {from_step} must be below {steps}, the number of steps"
        )


async def _recall_params(call: ApiRequest) -> bytes:
    """The parameters of the execution that is replayed. Raises ApiProblem (409): they are not kept whole."""
    known = await call.parts.history.params(call.parts.surroundings.tenant, call.path["executionId"])
    if known is None:
        message = (
            "the history has the parameters of this execution masked, cut or not at all; "
            "give params, the parameters that the replay is to have"
        )
        raise refuse(HTTPStatus.CONFLICT, "/params", "conflict", message)
    return known


async def _responses(call: ApiRequest, from_step: int) -> tuple[bytes, ...]:
    if from_step == 0:
        return ()
    known = await call.parts.history.exchanges(call.parts.surroundings.tenant, call.path["executionId"])
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
    """A later step could be given wrong data: nothing is sent."""
    return invalid("/fromStep", "no_response", f"step {index} {what}; replay from it or from an earlier one")


def _no_execution(execution_id: str) -> ApiProblem:
    return absent("/executionId", f"there is no execution {execution_id[:200]!r}")
