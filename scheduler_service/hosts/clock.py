"""A host's time: a wall-clock anchor plus monotonic time, and the pauses that are measured by it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.ports.clock import Alarm

STEP = SECOND


class SystemClock:
    """The machine's time. `steady` is `wall - skew`, and runs on when the wall clock is set.

    `Timekeeper` documents the methods.
    A step is taken over by `follow` alone, after `on_step` has made the new skew durable, so that no turn
    ever sees a steady moment that a restart would not continue.
    """

    def __init__(
        self,
        *,
        skew: int,
        on_step: Callable[[int], Awaitable[None]],
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._skew = skew
        self._on_step = on_step
        self._wall = wall
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    @property
    def skew(self) -> int:
        """What lies between the two lines, in ms."""
        return self._skew

    def now(self) -> Now:
        moment = int((self._monotonic() + self._offset) * 1_000)
        return Now(moment, moment - self._skew)

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        return asyncio.get_running_loop().call_later(max(pause, 0) / 1_000, call)

    async def sleep(self, pause: int) -> None:
        await asyncio.sleep(max(pause, 0) / 1_000)

    async def follow(self) -> bool:
        """Anchors the wall anew where it stepped by more than a second. Raises what `on_step` raises."""
        offset = self._wall() - self._monotonic()
        step = round((offset - self._offset) * 1_000)
        if abs(step) <= STEP:
            return False
        await self._on_step(self._skew + step)
        self._offset += step / 1_000
        self._skew += step
        return True
