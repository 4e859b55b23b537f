"""What is sent to a job while it lives: triggers by hand, and feedback of targets (SPEC sections 5, 10)."""

from hashlib import sha256

import msgspec
from starlette.responses import Response

from scheduler_service.api.bodies import read_json
from scheduler_service.api.job_commands import run_command, run_command_once
from scheduler_service.api.problems import invalid
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import succeed
from scheduler_service.domain.events import FeedbackArrived, Triggered
from scheduler_service.domain.execution import ExecutionState, write_execution_id
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.replies import Reply, Started
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.state import Remembered

ENDED_AS = {"failed": ExecutionState.TERMINATED, "succeeded": ExecutionState.SUCCEEDED}


async def trigger(call: ApiRequest) -> Response:
    """`POST /jobs/{jobId}/trigger`: one execution, now or later; under a known key that execution."""
    job_id = call.job_id
    raw, _ = await call.object()
    event = Triggered(params=raw, planned_at=_planned_at(call))
    remembered = call.remembered(f"jobs/{job_id}/trigger", raw)
    if remembered is None and call.query["reset"] is not None:
        raise invalid("/reset", "no_key", "reset starts a known execution afresh; send its Idempotency-Key")
    if remembered is None:
        return show_started(await run_command(call.parts, job_id, Command(event)))
    # What follows a `?` says when and how, not what: the same key is the same trigger (SPEC section 10).
    remembered = msgspec.structs.replace(remembered, digest=sha256(raw).digest())
    return show_started(await _trigger_once(call, job_id, event, remembered))


async def feedback(call: ApiRequest) -> Response:
    """`POST /jobs/{jobId}/feedback/{requestCounts}`: a target reports; its token says that it may."""
    job_id, request_counts = call.job_id, call.number("requestCounts")
    raw = await call.body()
    event = FeedbackArrived(request_counts, call.query["token"] or "", read_json(raw), call.query["shard"])
    remembered = call.remembered(f"jobs/{job_id}/feedback/{request_counts}", raw)
    await run_command(call.parts, job_id, Command(event, remembered=remembered))
    return succeed(None)


def show_started(reply: Reply) -> Response:
    """The execution that a trigger, or a replay, made."""
    assert isinstance(reply, Started)
    execution_id = write_execution_id(reply.uid, reply.execute_number)
    data = {"executionId": execution_id, "executeNumber": reply.execute_number, "state": reply.state}
    return succeed(data, headers={"location": f"/executions/{execution_id}"})


def _planned_at(call: ApiRequest) -> int | None:
    delay, at = call.query["delaySeconds"], call.query["at"]
    if delay is not None and at is not None:
        raise invalid("/at", "contradiction", "give delaySeconds or at, not both")
    if delay is None:
        return int(at) if at is not None else None
    return call.parts.clock.now().wall + round(float(delay) * SECOND)


async def _trigger_once(call: ApiRequest, job_id: str, event: Triggered, remembered: Remembered) -> Reply:
    """The key's execution. With `reset`, one that ended so is started afresh, under a key that follows."""
    turn = await run_command_once(call.parts, job_id, Command(event, remembered=remembered))
    reset = call.query["reset"]
    followed = {remembered.key}
    while reset is not None and turn.is_recalled and _has_ended(turn.reply, ENDED_AS[reset]):
        key = _write_next_key(remembered.key, turn.reply)
        if key in followed:
            break
        followed.add(key)
        following = msgspec.structs.replace(remembered, key=key)
        turn = await run_command_once(call.parts, job_id, Command(event, remembered=following))
    return turn.reply


def _has_ended(reply: Reply, state: ExecutionState) -> bool:
    return isinstance(reply, Started) and reply.state is state


def _write_next_key(key: str, reply: Reply) -> str:
    assert isinstance(reply, Started)
    return f"{key}\n{write_execution_id(reply.uid, reply.execute_number)}"
