"""Work that has no end of its own: after a defect, which is logged, it begins again."""

import asyncio
from collections.abc import Awaitable, Callable

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_text import shorten
from scheduler_service.telemetry.logs import place_of

AGAIN_MS = SECOND


def keep_at(
    work: Callable[[], Awaitable[None]], *, name: str, clock: Timekeeper, log: Log
) -> "asyncio.Task[None]":
    """A task that runs `work` until it returns or is cancelled.

    `work` handles the errors that it knows. Any other one is logged as `task_failed` with `name`, and `work`
    is called again a second later: what it keeps between two calls has to be fit for that.
    """
    return asyncio.create_task(_keep_at(work, name, clock, log))


async def _keep_at(work: Callable[[], Awaitable[None]], name: str, clock: Timekeeper, log: Log) -> None:
    while True:
        try:
            await work()
            return
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: what ends it would end unseen
            log(
                "task_failed",
                task=name,
                error=shorten(f"{type(error).__name__}: {error}"),
                where=place_of(error.__traceback__),
            )
        await clock.sleep(AGAIN_MS)
