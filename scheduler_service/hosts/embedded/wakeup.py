"""A sleep until the next due time, which ends early where something is due before."""

import asyncio

from scheduler_service.domain.moments import Due, Now
from scheduler_service.ports.clock import Alarm, Timekeeper


class Wakeup:
    """One sleeping task and its timer. `ahead`: a wall moment may need it up to so many ms before."""

    def __init__(self, *, clock: Timekeeper, ahead: int) -> None:
        self._clock = clock
        self._ahead = ahead
        self._awake = asyncio.Event()
        self._timer: Alarm | None = None
        self._steady = 0
        self._wall = 0

    @property
    def is_awake(self) -> bool:
        """Whether the task was woken, and will look at what is due."""
        return self._awake.is_set()

    def sleeps_past(self, due: Due) -> bool:
        """Whether `due` may come before the timer ends. Quick for most moments, which come long after.

        The wall clock may step only while the task is awake: it is this task that follows the steps.
        """
        wall, steady = due.wall, due.steady
        return (steady is not None and steady < self._steady) or (wall is not None and wall <= self._wall)

    async def sleep(self, now: Now, pause: int) -> None:
        """Returns in `pause` ms, or earlier where it is woken."""
        self._awake.clear()
        self._set(now, pause)
        await self._awake.wait()

    def wake(self, now: Now, pause: int) -> None:
        """Ends the sleep in `pause` ms where it would last longer."""
        if pause == 0:
            self._awake.set()
        elif now.steady + pause < self._steady:
            self._set(now, pause)

    def close(self) -> None:
        """Cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, now: Now, pause: int) -> None:
        self.close()
        self._steady = now.steady + pause
        self._wall = now.wall + pause + self._ahead
        self._timer = self._clock.call_after(pause, self._awake.set)
