"""Delivers an event to its job for a caller, and recalls what was answered under an Idempotency-Key."""

from collections.abc import Awaitable, Callable

import msgspec

from scheduler_service.api.parts import ApiParts
from scheduler_service.api.problems import ApiProblem, invalid, refused
from scheduler_service.domain.events import Event
from scheduler_service.domain.moments import DAY
from scheduler_service.domain.replies import Reactivated, Recalled, Refusal, Reply, Started, Taken, Unchanged
from scheduler_service.ports import Definition, Remembered

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Taken | Unchanged | Started | Reactivated)


async def take_turn(
    parts: ApiParts,
    job_id: str,
    event: Event,
    *,
    definition: Definition | None = None,
    remembered: Remembered | None = None,
) -> Reply:
    """The turn's reply, or the one of the turn that was taken under this key before.

    Raises ApiProblem for a refusal and for a key that came with another body, StoreError.
    """
    reply = await parts.deliver(
        job_id, event, definition=definition, remembered=remembered, answer=_ENCODER.encode
    )
    if isinstance(reply, Recalled):
        if not reply.same_digest:
            raise other_body()
        return _DECODER.decode(reply.answer)
    if isinstance(reply, Refusal):
        raise refused(reply)
    return reply


async def take_once(
    parts: ApiParts, remembered: Remembered | None, work: Callable[[], Awaitable[object]]
) -> object:
    """What `work` gives, for JSON; under a known key what it gave then. Raises ApiProblem, StoreError."""
    if remembered is None:
        return await work()
    since = remembered.created_at - DAY
    known = await parts.store.recall(remembered.scope, remembered.key, since)
    if known is not None:
        if known.digest != remembered.digest:
            raise other_body()
        return msgspec.Raw(known.answer)
    result = await work()
    answer = _ENCODER.encode(result)
    await parts.store.remember(msgspec.structs.replace(remembered, answer=answer))
    return msgspec.Raw(answer)


def other_body() -> ApiProblem:
    """A key that came before with something else."""
    return invalid(
        "/Idempotency-Key",
        "key_reused",
        "this key came with another body within the last 24 hours; use a new key for another request",
    )
