"""Waits for moments of a host's clock; all that wait for one moment share a timer."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from scheduler_service.domain.document import Document
from scheduler_service.domain.moments import SECOND, Due, Now
from scheduler_service.ports.clock import Timekeeper

FARTHEST_MS = SECOND

# A batch occupies the loop for some milliseconds, mostly with sending. With a smaller one, the answers to the
# first calls would be handled before the last calls are sent.
BATCH_SIZE = 128

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

    A burst is released in batches, one in each round of the loop, so that it does not block the loop.
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
            burst = self._awaited.get(steady)
            if burst is None:
                burst = self._awaited[steady] = _Burst()
                self._clock.call_after(pause, lambda: self._awaited.pop(steady).release())
            self._waiting += 1
            try:
                await burst.join()
            finally:
                self._waiting -= 1


class _Burst:
    """The waits for one moment: a future for each batch of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._batches: deque[asyncio.Future[None]] = deque()
        self._room = 0

    def join(self) -> asyncio.Future[None]:
        if self._room == 0:
            self._batches.append(self._loop.create_future())
            self._room = BATCH_SIZE
        self._room -= 1
        return self._batches[-1]

    def release(self) -> None:
        reached = self._batches.popleft()
        if not reached.done():
            reached.set_result(None)
        if self._batches:
            self._loop.call_soon(self.release)
