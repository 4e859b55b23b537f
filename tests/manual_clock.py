"""The clock of the tests: it stands still until a test moves it."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable

from scheduler_service.domain.moments import Now
from scheduler_service.ports.clock import Alarm


class ManualClock:
    """Time that moves only by `advance` and `step_wall`; implements `Timekeeper`."""

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

    def stall(self, pause: int) -> None:
        """The same, but the calls are made at its end, as by a loop that was busy for so long."""
        self._move(self._now.steady + pause)
        self.advance(0)

    async def run_on(self, pause: int, settle: Callable[[], Awaitable[object]]) -> None:
        """Moves by `pause` ms from one planned call to the next; after each, `settle` is awaited."""
        while pause > 0:
            step = self.next_call()
            step = pause if step is None else min(max(step, 1), pause)
            self.advance(step)
            pause -= step
            await settle()

    def next_call(self) -> int | None:
        """Milliseconds until the next planned call, or None."""
        while self._calls and not self._calls[0][2].is_planned:
            heapq.heappop(self._calls)
        return max(self._calls[0][0] - self._now.steady, 0) if self._calls else None

    def step_wall(self, step: int) -> None:
        """Sets the wall clock by `step` ms, forward or back; the steady line does not notice."""
        self._now = Now(self._now.wall + step, self._now.steady)
        self._stepped = True

    def set_back(self, step: int) -> None:
        """Sets the wall clock back by `step` ms while no process runs: the next one's steady line follows it.

        Calls that were planned are not made.
        """
        self._now = Now(self._now.wall - step, self._now.steady - step)
        self._calls.clear()

    def _move(self, steady: int) -> None:
        passed = max(steady - self._now.steady, 0)
        self._now = Now(self._now.wall + passed, self._now.steady + passed)


class WatchedClock(ManualClock):
    """Knows how many wait for it."""

    sleepers = 0

    async def sleep(self, pause: int) -> None:
        """Returns when the clock has been advanced by `pause` ms."""
        self.sleepers += 1
        try:
            await super().sleep(pause)
        finally:
            self.sleepers -= 1


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
