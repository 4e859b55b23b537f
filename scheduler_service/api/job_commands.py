"""Delivers an event to its job for a caller, and recalls what was answered under an Idempotency-Key."""

from collections.abc import Awaitable, Callable

import msgspec

from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.api.problems import ApiProblem, invalid, refused
from scheduler_service.domain.execution import ExecutionState, write_execution_id
from scheduler_service.domain.moments import DAY
from scheduler_service.domain.replies import Reactivated, Recalled, Refusal, Reply, Started, Taken, Unchanged
from scheduler_service.engine.status import find_state
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.state import Remembered

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Taken | Unchanged | Started | Reactivated)


class CommandReply(msgspec.Struct, frozen=True):
    """A reply; `is_recalled`: the turn was taken under this key before, and nothing was done now."""

    reply: Reply
    is_recalled: bool


async def run_command(parts: ApiDependencies, job_id: str, command: Command) -> Reply:
    """The turn's reply, or the one of the turn that was taken under this key before.

    Raises ApiProblem for a refusal and for a key that came with another body, StoreError.
    """
    return (await run_command_once(parts, job_id, command)).reply


async def run_command_once(parts: ApiDependencies, job_id: str, command: Command) -> CommandReply:
    """As `run_command`; the execution of a known key is shown as it is now (SPEC section 10)."""
    reply = await parts.deliver(job_id, msgspec.structs.replace(command, answer=_ENCODER.encode))
    if isinstance(reply, Refusal):
        raise refused(reply)
    if not isinstance(reply, Recalled):
        return CommandReply(reply, is_recalled=False)
    if not reply.same_digest:
        raise other_body()
    known = _DECODER.decode(reply.answer)
    if isinstance(known, Started):
        known = msgspec.structs.replace(known, state=await _present_state(parts, job_id, known))
    return CommandReply(known, is_recalled=True)


async def run_once(
    parts: ApiDependencies,
    remembered: Remembered | None,
    work: Callable[[], Awaitable[object]],
    *,
    is_final: Callable[[object], bool] = lambda _: True,
) -> object:
    """What `work` gives, for JSON; under a known key what it gave then. Raises ApiProblem, StoreError.

    The key is known before anything is done, so that it means this body also after a crash. What was begun
    and has no answer yet, or none that is final, is done again: `work` has to bear that.
    """
    if remembered is None:
        return await work()
    async with parts.keys.hold(remembered.scope, remembered.key):
        known = await parts.store.recall(remembered.scope, remembered.key, remembered.created_at - DAY)
        if known is not None and known.digest != remembered.digest:
            raise other_body()
        if known is not None and known.answer:
            return msgspec.Raw(known.answer)
        await parts.store.remember(remembered)
        result = await work()
        answer = _ENCODER.encode(result)
        if is_final(result):
            await parts.store.remember(msgspec.structs.replace(remembered, answer=answer))
        return msgspec.Raw(answer)


async def _present_state(parts: ApiDependencies, job_id: str, known: Started) -> ExecutionState:
    """The execution's state from the job where that knows it, else from the history.

    What the history does not keep any more has the state in which its turn left it.
    """
    job = await parts.read_job(job_id)
    state = None if job is None else find_state(job, known.uid, known.execute_number)
    if state is not None:
        return state
    await parts.flush()
    found = await parts.history.execution(
        parts.surroundings.tenant, write_execution_id(known.uid, known.execute_number)
    )
    return known.state if found is None else ExecutionState(str(found["state"]))


def other_body() -> ApiProblem:
    """A key that came before with something else."""
    return invalid(
        "/Idempotency-Key",
        "key_reused",
        "this key came with another body within the last 24 hours; use a new key for another request",
    )
