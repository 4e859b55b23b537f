"""Waits for moments of a host's clock; who waits for the same one shares a timer."""

import asyncio

from scheduler_service.domain.moments import SECOND, Now
from scheduler_service.hosts.clock import Timekeeper

FARTHEST = SECOND


def ahead_of(moment: int | None, now: Now) -> int:
    """How many ms the wall `moment` is still to come; 0 too where it is so far that the wall was set back."""
    left = 0 if moment is None else moment - now.wall
    return left if 0 < left <= FARTHEST else 0


class Moments:
    """Moments that somebody awaits. Who awaits one must not be cancelled: others may await it too."""

    def __init__(self, *, clock: Timekeeper) -> None:
        self._clock = clock
        self._awaited: dict[int, asyncio.Future[None]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        """How many wait."""
        return self._waiting

    async def wait_until(self, steady: int) -> None:
        """Returns when the steady line has reached `steady`, in ms, and never before."""
        while (pause := steady - self._clock.now().steady) > 0:
            reached = self._awaited.get(steady)
            if reached is None:
                reached = self._awaited[steady] = asyncio.get_running_loop().create_future()
                self._clock.call_after(pause, lambda: self._end(steady))
            self._waiting += 1
            try:
                await reached
            finally:
                self._waiting -= 1

    async def wait_for(self, wall: int) -> None:
        """The same for a wall moment just ahead; a later step of the wall changes nothing."""
        now = self._clock.now()
        await self.wait_until(now.steady + ahead_of(wall, now))

    def _end(self, steady: int) -> None:
        reached = self._awaited.pop(steady)
        if not reached.done():
            reached.set_result(None)
