"""Delivers an event to its job for a caller, and returns the kept reply under a known Idempotency-Key."""

import msgspec

from scheduler_service.api.idempotency import key_reused
from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import ENCODER, no_job, refused
from scheduler_service.domain.execution import ExecutionState, write_execution_id
from scheduler_service.domain.replies import Reactivated, Recalled, Refusal, Reply, Started, Taken, Unchanged
from scheduler_service.engine.machine import NO_JOB
from scheduler_service.engine.status import find_state
from scheduler_service.ports.delivery import Command

_DECODER: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Taken | Unchanged | Started | Reactivated)


class CommandReply(msgspec.Struct, frozen=True):
    """A reply; `is_recalled`: an earlier turn took the key, and nothing was done now."""

    reply: Reply
    is_recalled: bool


async def run_command(request: ApiRequest, job_id: str, command: Command) -> Reply:
    """The turn's reply, or the reply of the earlier turn with the same Idempotency-Key.

    Raises ApiProblem for a refusal and for a key that came with another body, StoreError.
    """
    return (await run_command_once(request, job_id, command)).reply


async def run_command_once(request: ApiRequest, job_id: str, command: Command) -> CommandReply:
    """As `run_command`; the execution of a known key has its present state (SPEC section 10)."""
    reply = await request.deps.deliver(job_id, msgspec.structs.replace(command, answer=ENCODER.encode))
    if isinstance(reply, Refusal):
        # A turn without a job does not know its name.
        raise no_job(job_id) if reply == NO_JOB else refused(reply)
    if not isinstance(reply, Recalled):
        return CommandReply(reply, is_recalled=False)
    if not reply.same_digest:
        raise key_reused()
    known = _DECODER.decode(reply.answer)
    if isinstance(known, Started):
        known = msgspec.structs.replace(known, state=await _present_state(request, job_id, known))
    return CommandReply(known, is_recalled=True)


async def _present_state(request: ApiRequest, job_id: str, known: Started) -> ExecutionState:
    """The execution's state: from the job's document, else from the history, else as its turn left it."""
    deps = request.deps
    job = await deps.read_job(job_id)
    state = None if job is None else find_state(job, known.uid, known.execute_number)
    if state is not None:
        return state
    await request.catch_up(job_id)
    execution_id = write_execution_id(known.uid, known.execute_number)
    found = await deps.history.execution(request.caller.tenant, execution_id)
    return known.state if found is None else ExecutionState(str(found["state"]))
