"""Waits for moments of a host's clock; who waits for the same one shares a timer."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from scheduler_service.domain.document import Document
from scheduler_service.domain.moments import SECOND, Due, Now
from scheduler_service.hosts.clock import Timekeeper

FARTHEST = SECOND

# What a bunch does at its moment, to send above all, takes a loop some milliseconds. A smaller one would have
# the answers to the first calls dealt with before the others have left.
BATCH = 128

WaitUntil = Callable[[int], Awaitable[None]]


def ahead_of(moment: int | None, now: Now) -> int:
    """How many ms the wall `moment` is still to come; 0 too where it is so far that the wall was set back."""
    left = 0 if moment is None else moment - now.wall
    return left if 0 < left <= FARTHEST else 0


def is_past(due: Due, now: Now) -> bool:
    """Whether one of its moments has come."""
    wall, steady = due.wall, due.steady
    return (wall is not None and wall <= now.wall) or (steady is not None and steady <= now.steady)


def begin_of(document: Document, now: Now) -> int:
    """The steady moment at which all that was begun ahead of its moment has begun; past: nothing was."""
    begun = max((run.started_at or 0 for run in document.head.opens), default=0)
    return now.steady + ahead_of(begun, now)


class TimedRelease:
    """Moments that somebody awaits. Who awaits one must not be cancelled: others may await it too.

    A crowd goes on in bunches, a round of the loop each, so that it holds up nobody for long.
    """

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
            crowd = self._awaited.get(steady)
            if crowd is None:
                crowd = self._awaited[steady] = _Burst()
                self._clock.call_after(pause, lambda: self._awaited.pop(steady).release())
            self._waiting += 1
            try:
                await crowd.join()
            finally:
                self._waiting -= 1


class _Burst:
    """Those who wait for one moment: a future for each bunch of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bunches: deque[asyncio.Future[None]] = deque()
        self._room = 0

    def join(self) -> asyncio.Future[None]:
        if self._room == 0:
            self._bunches.append(self._loop.create_future())
            self._room = BATCH
        self._room -= 1
        return self._bunches[-1]

    def release(self) -> None:
        reached = self._bunches.popleft()
        if not reached.done():
            reached.set_result(None)
        if self._bunches:
            self._loop.call_soon(self.release)
