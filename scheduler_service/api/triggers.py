"""Manual triggers, and feedback of targets (SPEC sections 5, 10)."""

from hashlib import sha256

import msgspec
from starlette.responses import Response

from scheduler_service.api.bodies import read_json
from scheduler_service.api.job_commands import run_command, run_command_once
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import invalid, succeed
from scheduler_service.domain.events import FeedbackArrived, Triggered
from scheduler_service.domain.execution import ExecutionState, write_execution_id
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.replies import Reply, Started
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.state import Remembered

STATE_OF_RESET = {"failed": ExecutionState.TERMINATED, "succeeded": ExecutionState.SUCCEEDED}


async def trigger_job(request: ApiRequest) -> Response:
    """`POST /jobs/{jobId}/trigger`: one execution, now or later; under a known key that execution."""
    job_id = request.job_id
    raw, _ = await request.json_object()
    event = Triggered(params=raw, planned_at=_planned_at(request))
    remembered = request.remembered(f"jobs/{job_id}/trigger", raw)
    if remembered is None and request.query["reset"] is not None:
        raise invalid("/reset", "no_key", "reset starts a known execution afresh; send its Idempotency-Key")
    if remembered is None:
        return show_started(await run_command(request, job_id, Command(event)))
    # The query is when and how, not what: a key is one trigger whatever the query (SPEC section 10).
    remembered = msgspec.structs.replace(remembered, digest=sha256(raw).digest())
    return show_started(await _trigger_once(request, job_id, event, remembered))


async def report_feedback(request: ApiRequest) -> Response:
    """`POST /jobs/{jobId}/feedback/{requestCounts}`: a target's report, authenticated by its token."""
    job_id, request_counts = request.job_id, request.number("requestCounts")
    token, shard = request.query["token"] or "", request.query["shard"]
    raw = await request.body()
    event = FeedbackArrived(request_counts, token, read_json(raw), shard)
    remembered = request.remembered(f"jobs/{job_id}/feedback/{request_counts}", raw)
    await run_command(request, job_id, Command(event, remembered=remembered))
    return succeed(None)


def show_started(reply: Reply) -> Response:
    """The execution that a trigger or a replay started."""
    assert isinstance(reply, Started)
    execution_id = write_execution_id(reply.uid, reply.execute_number)
    data = {"executionId": execution_id, "executeNumber": reply.execute_number, "state": reply.state}
    return succeed(data, {"location": f"/executions/{execution_id}"})


def _planned_at(request: ApiRequest) -> int | None:
    delay, at = request.query["delaySeconds"], request.query["at"]
    if delay is not None and at is not None:
        raise invalid("/at", "contradiction", "give delaySeconds or at, not both")
    if delay is None:
        return int(at) if at is not None else None
    return request.deps.clock.now().wall + round(float(delay) * SECOND)


async def _trigger_once(request: ApiRequest, job_id: str, event: Triggered, remembered: Remembered) -> Reply:
    """The key's execution. With `reset`, one with that end is started afresh, under a key derived from it."""
    turn = await run_command_once(request, job_id, Command(event, remembered=remembered))
    reset = request.query["reset"]
    followed = {remembered.key}
    while reset is not None and turn.is_recalled:
        known = turn.reply
        if not isinstance(known, Started) or known.state is not STATE_OF_RESET[reset]:
            break
        key = f"{remembered.key}\n{write_execution_id(known.uid, known.execute_number)}"
        if key in followed:
            break
        followed.add(key)
        following = msgspec.structs.replace(remembered, key=key)
        turn = await run_command_once(request, job_id, Command(event, remembered=following))
    return turn.reply
