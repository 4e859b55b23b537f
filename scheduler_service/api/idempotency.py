"""Idempotency-Keys: requests with the same key run one at a time; later ones get the first one's answer."""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

import msgspec

from scheduler_service.api.responses import ENCODER, ApiProblem, invalid
from scheduler_service.domain.moments import DAY
from scheduler_service.ports.state import Remembered, RequestStore


class IdempotencyKeys:
    """The keys of requests that are in progress in this process."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def run_once(
        self,
        store: RequestStore,
        remembered: Remembered,
        work: Callable[[], Awaitable[object]],
        is_final: Callable[[object], bool],
    ) -> object:
        """The result of `work`, for JSON; of an earlier request with this key, its result.

        The key is stored before `work` begins, so that it stands for this body also after a crash. A request
        that was begun and has no answer, or none that is final, is done again: `work` has to allow that.
        Raises ApiProblem (422) for a key that came with another body, StoreError, and what `work` raises.
        """
        async with self._locks.setdefault((remembered.scope, remembered.key), asyncio.Lock()):
            known = await store.recall(remembered.scope, remembered.key, remembered.created_at - DAY)
            if known is not None and known.digest != remembered.digest:
                raise key_reused()
            if known is not None and known.answer:
                return msgspec.Raw(known.answer)
            await store.remember(remembered)
            result = await work()
            answer = ENCODER.encode(result)
            if is_final(result):
                await store.remember(msgspec.structs.replace(remembered, answer=answer))
            return msgspec.Raw(answer)


def key_reused() -> ApiProblem:
    """A 422: the key came before with another body."""
    message = "this key came with another body within the last 24 hours; use a new key for another request"
    return invalid("/Idempotency-Key", "key_reused", message)
