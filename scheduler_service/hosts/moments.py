"""Waits for moments of a host's clock; who waits for the same one shares a timer."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.hosts.clock import Timekeeper

FARTHEST = SECOND

# What a bunch does at its moment, to send above all, takes a loop some milliseconds. A smaller one would have
# the answers to the first calls dealt with before the others have left.
BUNCH = 128

WaitUntil = Callable[[int], Awaitable[None]]


async def never(_: int) -> None:
    """For a host that takes no turn ahead of its moment: to go on here would send early."""
    raise AssertionError("a turn was taken ahead of its moment by a host that cannot wait for it")


def ahead_of(moment: int | None, now: Now) -> int:
    """How many ms the wall `moment` is still to come; 0 too where it is so far that the wall was set back."""
    left = 0 if moment is None else moment - now.wall
    return left if 0 < left <= FARTHEST else 0


class Moments:
    """Moments that somebody awaits. Who awaits one must not be cancelled: others may await it too.

    A crowd goes on in bunches, a round of the loop each, so that it holds up nobody for long.
    """

    def __init__(self, *, clock: Timekeeper) -> None:
        self._clock = clock
        self._awaited: dict[int, _Crowd] = {}
        self._waiting = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    async def wait_until(self, steady: int) -> None:
        """Returns when the steady line has reached `steady`, in ms, and never before."""
        while (pause := steady - self._clock.now().steady) > 0:
            crowd = self._awaited.get(steady)
            if crowd is None:
                crowd = self._awaited[steady] = _Crowd()
                self._clock.call_after(pause, lambda: self._awaited.pop(steady).release())
            self._waiting += 1
            try:
                await crowd.join()
            finally:
                self._waiting -= 1

    async def wait_for(self, wall: int) -> None:
        """The same for a wall moment just ahead; a later step of the wall changes nothing."""
        now = self._clock.now()
        await self.wait_until(now.steady + ahead_of(wall, now))


class _Crowd:
    """Those who wait for one moment: a future for each bunch of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bunches: deque[asyncio.Future[None]] = deque()
        self._room = 0

    def join(self) -> asyncio.Future[None]:
        if self._room == 0:
            self._bunches.append(self._loop.create_future())
            self._room = BUNCH
        self._room -= 1
        return self._bunches[-1]

    def release(self) -> None:
        reached = self._bunches.popleft()
        if not reached.done():
            reached.set_result(None)
        if self._bunches:
            self._loop.call_soon(self.release)
