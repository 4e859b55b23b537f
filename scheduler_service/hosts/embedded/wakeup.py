"""Sleeps until something is due, and is woken where something comes that is due before."""

import asyncio

from scheduler_service.domain.moments import Due, Now
from scheduler_service.hosts.clock import Alarm, Timekeeper


class Wakeup:
    """One sleeper and its timer. `ahead`: so many ms before a wall moment, at most, it may be wanted."""

    def __init__(self, *, clock: Timekeeper, ahead: int) -> None:
        self._clock = clock
        self._ahead = ahead
        self._awake = asyncio.Event()
        self._timer: Alarm | None = None
        self._steady = 0
        self._wall = 0

    @property
    def is_awake(self) -> bool:
        """Whether it was woken, and looks for itself at what is due."""
        return self._awake.is_set()

    def sleeps_past(self, due: Due) -> bool:
        """Whether `due` may come before it wakes by itself; most moments come long after, which is quick.

        The wall may step only while it is awake: who sleeps here is who has the clock follow its steps.
        """
        wall, steady = due.wall, due.steady
        return (steady is not None and steady < self._steady) or (wall is not None and wall <= self._wall)

    async def sleep(self, now: Now, pause: int) -> None:
        """Returns in `pause` ms, or when it is woken before."""
        self._awake.clear()
        self._set(now, pause)
        await self._awake.wait()

    def wake(self, now: Now, pause: int) -> None:
        """Wakes it in `pause` ms where it would sleep for longer."""
        if pause == 0:
            self._awake.set()
        elif now.steady + pause < self._steady:
            self._set(now, pause)

    def close(self) -> None:
        """The timer will not ring any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, now: Now, pause: int) -> None:
        self.close()
        self._steady = now.steady + pause
        self._wall = now.wall + pause + self._ahead
        self._timer = self._clock.call_after(pause, self._awake.set)
