"""Reads of the history show everything that was answered before them (SPEC section 10)."""

import asyncio

from scheduler_service.api.request import ApiRequest
from scheduler_service.api.responses import Flaw
from scheduler_service.domain.errors import Problem
from scheduler_service.ports.errors import StoreError

BEHIND = Problem(
    "",
    "history_behind",
    "the history could not be brought up to date: what happened last may be missing; ask again in a moment",
)


async def catch_up(request: ApiRequest, job_key: str | None = None) -> tuple[Flaw, ...]:
    """Returns when the history has all that was recorded before, of the job or of all; mostly at once.

    Where that fails or takes longer than `flush_seconds`, the warning for the answer of what is written.
    """
    try:
        async with asyncio.timeout(request.deps.flush_seconds):
            await request.deps.flush(job_key)
    except (StoreError, TimeoutError):
        return (BEHIND,)
    return ()
