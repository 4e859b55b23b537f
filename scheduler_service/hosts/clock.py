"""A host's time: a wall-clock anchor plus monotonic time, and the pauses that are measured by it."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.ports.clock import Clock

STEP = SECOND


class Alarm(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """The call will not come; does nothing when it has come."""


class Timekeeper(Clock, Protocol):
    """A clock by which one can also wait."""

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        """Calls `call` once, `pause` ms from now on the steady line."""

    async def sleep(self, pause: int) -> None:
        """Returns `pause` ms from now on the steady line."""

    async def follow(self) -> bool:
        """Takes over a step of the wall clock since the last call; True when there was one."""


class SystemClock:
    """The machine's time. `steady` is `wall - skew`, and runs on when the wall clock is set.

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
        """The present moment on both time lines."""
        moment = int((self._monotonic() + self._offset) * 1_000)
        return Now(moment, moment - self._skew)

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        """Calls `call` once, `pause` ms from now."""
        return asyncio.get_running_loop().call_later(max(pause, 0) / 1_000, call)

    async def sleep(self, pause: int) -> None:
        """Returns `pause` ms from now."""
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


class ManualClock:
    """Time that moves only when it is told to: for tests and for trying things out."""

    def __init__(self, *, wall: int = 0, skew: int = 0) -> None:
        self._now = Now(wall, wall - skew)
        self._calls: list[tuple[int, int, _Call]] = []
        self._serial = itertools.count()
        self._stepped = False

    def now(self) -> Now:
        """The moment to which the clock was moved."""
        return self._now

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        """Calls `call` while the clock is advanced over its moment."""
        planned = _Call(call)
        heapq.heappush(self._calls, (self._now.steady + max(pause, 0), next(self._serial), planned))
        return planned

    async def sleep(self, pause: int) -> None:
        """Returns when the clock has been advanced by `pause` ms."""
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        planned = self.call_after(pause, lambda: _end(over))
        try:
            await over
        finally:
            planned.cancel()

    async def follow(self) -> bool:
        """True once after each `step_wall`."""
        stepped, self._stepped = self._stepped, False
        return stepped

    def advance(self, pause: int) -> None:
        """Moves both lines by `pause` ms and makes the calls that fall into it, each at its moment."""
        end = self._now.steady + pause
        while self._calls and self._calls[0][0] <= end:
            moment, _, planned = heapq.heappop(self._calls)
            self._move(moment)
            planned.make()
        self._move(end)

    def next_call(self) -> int | None:
        """Milliseconds until the next planned call, or None."""
        while self._calls and not self._calls[0][2].is_planned:
            heapq.heappop(self._calls)
        return max(self._calls[0][0] - self._now.steady, 0) if self._calls else None

    def step_wall(self, step: int) -> None:
        """Sets the wall clock by `step` ms, forward or back; the steady line does not notice."""
        self._now = Now(self._now.wall + step, self._now.steady)
        self._stepped = True

    def _move(self, steady: int) -> None:
        passed = max(steady - self._now.steady, 0)
        self._now = Now(self._now.wall + passed, self._now.steady + passed)


class _Call:
    """A planned call that can be taken back."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call: Callable[[], object] | None = call

    @property
    def is_planned(self) -> bool:
        return self._call is not None

    def make(self) -> None:
        if self._call is not None:
            self._call()

    def cancel(self) -> None:
        self._call = None


def _end(sleep: asyncio.Future[None]) -> None:
    if not sleep.done():
        sleep.set_result(None)
