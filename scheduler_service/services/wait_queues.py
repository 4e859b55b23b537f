"""Lines of those that wait for room: the first one looks again and again, the others wait for their turn."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from scheduler_service.domain.moments import Now

LOOK = 250
"""How often the first in line looks without being told, in ms: heartbeats tell nobody."""

Key = tuple[str, str]
WaitQueue = tuple[str, ...]
Found = TypeVar("Found")
WaitingPlace = asyncio.Future[None]


class PausingClock(Protocol):
    """A clock by which one can wait."""

    def now(self) -> Now:
        """The present moment."""

    def call_after(self, pause: int, call: Callable[[], object]) -> "PauseAlarm":
        """Calls `call` once, `pause` ms from now on the steady line."""


class PauseAlarm(Protocol):
    """A call that is still to come."""

    def cancel(self) -> None:
        """The call will not come."""


class WaitQueues:
    """Any number of lines; a key stirs the first of each of its lines."""

    def __init__(self, *, clock: PausingClock, look: int = LOOK) -> None:
        self._clock = clock
        self._look = look
        self._lines: dict[WaitQueue, deque[WaitingPlace]] = {}
        self._first: dict[Key, set[WaitingPlace]] = {}

    def is_empty(self, line: WaitQueue) -> bool:
        """Whether nobody waits there."""
        return line not in self._lines

    async def pass_through(self, line: WaitQueue, key: Key, attempt: Callable[[], Found | None]) -> Found:
        """What `attempt` gives, once it gives anything, after all who came before."""
        if self.is_empty(line):
            found = attempt()
            if found is not None:
                return found
        place: WaitingPlace = asyncio.get_running_loop().create_future()
        waiting = self._lines.setdefault(line, deque())
        waiting.append(place)
        try:
            if waiting[0] is not place:
                await place
            return await self._try_again(key, attempt)
        finally:
            self._step_aside(line, waiting, place)

    def stir(self, key: Key) -> None:
        """Room was made: the first ones look at once."""
        for place in self._first.pop(key, ()):
            _wake(place)

    async def _try_again(self, key: Key, attempt: Callable[[], Found | None]) -> Found:
        while True:
            found = attempt()
            if found is not None:
                return found
            stirred: WaitingPlace = asyncio.get_running_loop().create_future()
            self._first.setdefault(key, set()).add(stirred)
            alarm = self._clock.call_after(self._look, partial(_wake, stirred))
            try:
                await stirred
            finally:
                alarm.cancel()
                self._first.get(key, set()).discard(stirred)

    def _step_aside(self, line: WaitQueue, waiting: deque[WaitingPlace], place: WaitingPlace) -> None:
        was_first = waiting[0] is place
        waiting.remove(place)
        if not waiting:
            self._lines.pop(line, None)
        elif was_first:
            _wake(waiting[0])


def _wake(place: WaitingPlace) -> None:
    if not place.done():
        place.set_result(None)
