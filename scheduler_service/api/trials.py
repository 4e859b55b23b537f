"""A definition is run once without being saved (SPEC section 10)."""

from collections.abc import Iterable
from hashlib import sha256
from http import HTTPStatus
from secrets import token_hex

import msgspec
from starlette.responses import Response

from client_sdk.models import TrialRequest, answers
from scheduler_service.api import openapi_examples
from scheduler_service.api.audit_writing import Way
from scheduler_service.api.bodies import header, read_json_by_size, read_model
from scheduler_service.api.definitions import (
    PostedDefinition,
    check_posted,
    warnings_today,
)
from scheduler_service.api.job_commands import run_command
from scheduler_service.api.request import ApiRequest, PostedBody, Routes
from scheduler_service.api.responses import ENCODER, ApiProblem, FoundFlaw, refuse, succeed
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.execution import write_execution_id
from scheduler_service.domain.job_key import TRIALS, write_job_key, write_trial_id
from scheduler_service.domain.replies import Reply, Started
from scheduler_service.domain.turn_events import Created, Destroyed, Triggered
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.state import Remembered
from scheduler_service.security.callers import Role

ROUTES = Routes("definitions")

MOST_LIVING = 100
"""Trials that are not destroyed yet; a further one is refused. Nodes of a cluster that begin trials at one
moment may pass it by one each."""
SUBJECT = "definitions/try"
PLACE = "/definition"


class _PostedTrial(msgspec.Struct, frozen=True):
    definition: dict[str, msgspec.Raw]
    params: msgspec.Raw = msgspec.Raw(b"{}")


_DECODER = msgspec.json.Decoder(_PostedTrial)


@ROUTES.add(
    "POST /definitions/try",
    Role.EDITOR,
    body=PostedBody(TrialRequest, openapi_examples.TRIAL, required=True),
    data=answers.Trial,
    success=(201,),
    statuses=(429,),
    audit=Way.TURN,
)
async def try_definition(request: ApiRequest) -> Response:
    """Run a definition once without saving it, in a job that the service destroys by itself.

    Under a known Idempotency-Key the answer is that of the first request.
    """
    raw = await request.body()
    read_model(TrialRequest, await read_json_by_size(raw))
    posted = _DECODER.decode(raw)
    name = _name_of(request, raw)
    checked = await _check_as_posted(request, posted, name)
    warnings = await warnings_today(request.deps, checked)
    data = await request.run_once(SUBJECT, raw, lambda: _run(request, posted, name))
    return succeed(data, status=HTTPStatus.CREATED, warnings=_below(warnings))


def _name_of(request: ApiRequest, raw: bytes) -> str:
    """What names the trial: under an Idempotency-Key it follows from that, so that a repetition finds it."""
    remembered = request.remembered(SUBJECT, raw)
    if remembered is None:
        return token_hex(16)
    named = "\n".join((request.caller.tenant, remembered.key, remembered.digest.hex()))
    return sha256(named.encode()).hexdigest()[:32]


async def _check_as_posted(request: ApiRequest, posted: _PostedTrial, name: str) -> PostedDefinition:
    """Refuses what `POST /jobs` would; a definition needs no id here. Raises ApiProblem (422)."""
    has_id = bytes(posted.definition.get("jobId", b"null")) != b"null"
    members = posted.definition if has_id else posted.definition | {"jobId": _raw(write_trial_id(name))}
    return await _check(request, members)


async def _check(
    request: ApiRequest, members: dict[str, msgspec.Raw], *, is_trial: bool = False
) -> PostedDefinition:
    """As `check_posted`; pointers begin at the request's body."""
    text = ENCODER.encode(members)
    try:
        return await check_posted(request.deps, text, None, request.creator, is_trial=is_trial)
    except ApiProblem as problem:
        problem.errors = tuple({**one, "pointer": f"{PLACE}{one['pointer']}"} for one in problem.errors)
        raise


def _below(flaws: Iterable[FoundFlaw]) -> list[FoundFlaw]:
    return [Problem(f"{PLACE}{one.pointer}", one.code, one.message) for one in flaws]


async def _check_room(request: ApiRequest) -> None:
    if await request.deps.upkeep.trials.sweep(request.caller.tenant) >= MOST_LIVING:
        message = f"{MOST_LIVING} trials are kept; each goes ten minutes after its beginning, or delete one"
        raise refuse(HTTPStatus.TOO_MANY_REQUESTS, "", "limit", message, retry_seconds=60)


async def _run(request: ApiRequest, posted: _PostedTrial, name: str) -> dict[str, object]:
    """Creates the trial and triggers it, or neither; both have their effect once.

    Raises ApiProblem, StoreError.
    """
    job_id, params = write_trial_id(name), bytes(posted.params)
    now = request.deps.clock.now().wall
    # Of no job, so that it outlives the trial: else a repetition after its end would run it again.
    remembered = Remembered(f"jobs/{job_id}/trigger", "trial", sha256(params).digest(), b"", now, SUBJECT)
    trigger = Command(Triggered(params=params, trace=request.trace), remembered=remembered)
    job_key = write_job_key(request.caller.tenant, job_id)
    started = await _find_begun(request, job_key, trigger)
    if started is None:
        await _create(request, posted, job_id, job_key)
        try:
            started = await run_command(request, job_key, trigger)
        except ApiProblem:  # it would count among the trials and jobs of its tenant for ten minutes
            await run_command(request, job_key, Command(Destroyed()))
            raise
    assert isinstance(started, Started)
    return {
        "jobId": job_id,
        "executionId": write_execution_id(started.uid, started.execute_number),
        "executeNumber": started.execute_number,
        "state": started.state,
    }


async def _find_begun(request: ApiRequest, job_key: str, trigger: Command) -> Reply | None:
    """What an earlier request under this key began, also where the trial has gone; None: nothing."""
    if header(request.scope, b"idempotency-key") is None:
        return None
    try:
        return await run_command(request, job_key, trigger)
    except ApiProblem as problem:
        if problem.status is HTTPStatus.NOT_FOUND:
            return None
        raise


async def _create(request: ApiRequest, posted: _PostedTrial, job_id: str, job_key: str) -> None:
    changed = {"jobId": job_id, "timer": {"period": "external"}, "parentJob": TRIALS, "active": 1}
    text = posted.definition | {key: _raw(value) for key, value in changed.items()}
    for member in ("parentJobExecution", "startPolicy", "disabled"):
        text.pop(member, None)
    checked = await _check(request, text, is_trial=True)
    async with request.deps.upkeep.trials.beginning:
        await _check_room(request)
        await run_command(request, job_key, Command(Created(uid="", key=b""), checked.definition))


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(ENCODER.encode(value))
