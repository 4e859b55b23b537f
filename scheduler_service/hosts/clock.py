"""A host's time: a wall-clock anchor plus monotonic time, and the waits for its moments."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from scheduler_service.domain.document import Document
from scheduler_service.domain.moments import SECOND, Due, Now
from scheduler_service.hosts.background_tasks import PromptFuture
from scheduler_service.ports.clock import Alarm, Timekeeper

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


FARTHEST_MS = SECOND

# A batch occupies the loop for some milliseconds, mostly with sending. With a smaller one, the answers to the
# first calls would be handled before the last calls are sent.
BATCH_SIZE = 128

# Beside a burst another tenant's firing waits in each round of the loop for so many of its turns.
SHARED_BATCH_SIZE = 4
WaitUntil = Callable[[int], Awaitable[None]]


def ahead_of(moment: int | None, now: Now) -> int:
    """In how many ms the wall `moment` comes; 0 where it has come, or the wall clock was set back."""
    left = 0 if moment is None else moment - now.wall
    return left if 0 < left <= FARTHEST_MS else 0


def is_past(due: Due, now: Now) -> bool:
    """Whether one of its moments has come."""
    wall, steady = due.wall, due.steady
    return (wall is not None and wall <= now.wall) or (steady is not None and steady <= now.steady)


def begin_of(document: Document, now: Now) -> int:
    """The steady moment at which all executions that were decided early have begun."""
    begun = max((run.started_at or 0 for run in document.head.opens), default=0)
    return now.steady + ahead_of(begun, now)


class TimedRelease:
    """Waits for moments. A wait must not be cancelled: others may share it.

    A burst is released in batches, one in each round of the loop, so that it does not block the loop: of
    `BATCH_SIZE`, and where several tenants share the loop of `SHARED_BATCH_SIZE`.
    """

    is_shared = False

    def __init__(self, *, clock: Timekeeper) -> None:
        self._clock = clock
        self._awaited: dict[int, _Burst] = {}
        self._waiting = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    async def wait_until(self, steady: int) -> None:
        """Returns when the steady line has reached `steady`, in ms, and never before."""
        while (pause := steady - self._clock.now().steady) > 0:
            burst = self._awaited.get(steady)
            if burst is None:
                burst = self._awaited[steady] = _Burst()
                self._clock.call_after(pause, lambda: self._awaited.pop(steady).release())
            self._waiting += 1
            try:
                await burst.join(SHARED_BATCH_SIZE if self.is_shared else BATCH_SIZE)
            finally:
                self._waiting -= 1


class _Burst:
    """The waits for one moment: a future for each batch of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._batches: deque[PromptFuture] = deque()
        self._room = 0

    def join(self, size: int) -> PromptFuture:
        if self._room == 0:
            self._batches.append(PromptFuture(loop=self._loop))
            self._room = size
        self._room -= 1
        return self._batches[-1]

    def release(self) -> None:
        reached = self._batches.popleft()
        if self._batches:
            self._loop.call_soon(self.release)
        reached.resume()
