"""Answers that come while a start sends calls again wait until all of these are out."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler_service.domain.events import CallEnded, Event
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.wire import Answer
from scheduler_service.ports.clock import Timekeeper

MOST_HELD_MS = 5 * SECOND
HELD_BYTES = 16 << 20
LARGEST_HELD_BYTES = 65_536
LET_GO_AT_ONCE = 16
"""Turns that begin in one round of the loop: more would hold it for as long as they take."""


class AnswerLine:
    """Keeps answers to calls from their jobs while they are `held` (`hosts.redelivery.Line`).

    An answer that waits has freed its connection, and is lost in a crash as one that is still on its way: its
    call is sent once more (SPEC section 8). Held are answers of at most 64 KiB, 16 MiB of them, for 5 s.
    """

    def __init__(self, *, clock: Timekeeper) -> None:
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._bytes = 0
        self.is_open = True

    async def wait(self, event: Event) -> None:
        """Returns when `event` may be delivered: answers in the order in which they came."""
        if isinstance(event, CallEnded) and self._has_room(event):
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            await place

    @contextmanager
    def held(self) -> Iterator[None]:
        """Answers wait within this context, or for its first 5 s where it lasts longer."""
        self.is_open, self._bytes = False, 0
        alarm = self._clock.call_after(MOST_HELD_MS, self._open)
        try:
            yield
        finally:
            alarm.cancel()
            self._open()

    def _has_room(self, event: CallEnded) -> bool:
        size = len(event.outcome.body) if isinstance(event.outcome, Answer) else 0
        if size > LARGEST_HELD_BYTES or self._bytes + size > HELD_BYTES:
            return False
        self._bytes += size
        return True

    def _open(self) -> None:
        if not self.is_open:
            self.is_open = True
            self._let_go()

    def _let_go(self) -> None:
        for _ in range(min(len(self._waiting), LET_GO_AT_ONCE)):
            place = self._waiting.popleft()
            if not place.done():  # it is where the host was ended meanwhile
                place.set_result(None)
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._let_go)
