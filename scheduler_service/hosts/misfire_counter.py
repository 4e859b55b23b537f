"""Counts long runs of missed firings in slices, outside of every turn (SPEC section 3, "Ledger")."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from scheduler_service.domain.effects import CountMissed
from scheduler_service.domain.events import MissedCounted
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.timing.misfire import Tally
from scheduler_service.timing.timer import Timer

SLICE_SECONDS = 0.002
MOMENTS_PER_STEP = 50


class Count(Protocol):
    """`timing.misfire.count_missed`."""

    def __call__(
        self, timer: Timer, first: int, last: int, *, start: Tally | None = None, most: int = 500
    ) -> Tally:
        """One slice of a count."""


class MisfireCounter:
    """Works off counts one after the other, 2 ms at a time, and delivers each as `MissedCounted`."""

    def __init__(
        self,
        *,
        count: Count,
        redelivery: Redelivery,
        log: Log,
        elapsed: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._count = count
        self._redelivery = redelivery
        self._log = log
        self._elapsed = elapsed
        self._queue: deque[tuple[str, Timer, CountMissed]] = deque()
        self._wanted: set[tuple[str, int]] = set()
        self._task: asyncio.Task[None] | None = None

    def ask(self, job_id: str, timer: Timer, effect: CountMissed) -> None:
        """Counts the run of `effect`; a repetition before its end is ignored."""
        if (job_id, effect.first) in self._wanted:
            return
        self._wanted.add((job_id, effect.first))
        self._queue.append((job_id, timer, effect))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def stop(self) -> None:
        """Drops what is left: after the next start the state requests it again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._queue:
            job_id, timer, effect = self._queue.popleft()
            try:
                count = await self._walk(timer, effect)
                await self._redelivery.deliver(job_id, MissedCounted(effect.first, count))
            except StoreError as error:
                self._log("count_not_taken", jobId=job_id, error=str(error))
            finally:
                self._wanted.discard((job_id, effect.first))

    async def _walk(self, timer: Timer, effect: CountMissed) -> int:
        tally: Tally | None = None
        began = self._elapsed()
        while tally is None or not tally.done:
            tally = self._count(timer, effect.first, effect.last, start=tally, most=MOMENTS_PER_STEP)
            if self._elapsed() - began > SLICE_SECONDS:
                await asyncio.sleep(0)
                began = self._elapsed()
        return tally.count
