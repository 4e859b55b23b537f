"""Delivers events that must reach their job, repeatedly while the store is unavailable."""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.turn_events import CallEnded, Event
from scheduler_service.domain.wire import Answer
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StoreError

MOST_HELD_MS = 5 * SECOND
HELD_BYTES = 16 << 20
LARGEST_HELD_BYTES = 65_536
LET_GO_AT_ONCE = 16
"""Turns that begin in one round of the loop: more would hold it for as long as they take."""


class AnswerLine:
    """Keeps answers to calls from their jobs while they are `held`.

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


FIRST_PAUSE = 100
LONGEST_PAUSE = 5 * SECOND
LEASE = 10 * MINUTE


class Redelivery:
    """Repeats a delivery with growing pauses until the job takes the event, at most for `lease` ms.

    No pause is longer than `longest_pause` ms. Events wait in `line` first, where there is one and it is not
    open.
    """

    def __init__(
        self,
        *,
        take: Deliver,
        clock: Timekeeper,
        lease: int = LEASE,
        line: AnswerLine | None = None,
        longest_pause: int = LONGEST_PAUSE,
    ) -> None:
        self._take = take
        self._clock = clock
        self._lease = lease
        self._line = line
        self._longest_pause = longest_pause

    async def deliver(self, job_id: str, event: Event) -> None:
        """Returns when the job has taken `event`. Raises the StoreError of the last try after the lease."""
        if self._line is not None and not self._line.is_open:
            await self._line.wait(event)
        command = Command(event)
        end: int | None = None
        pause = FIRST_PAUSE
        while True:
            try:
                await self._take(job_id, command)
            except StoreError:
                now = self._clock.now().steady
                end = now + self._lease if end is None else end
                if now + pause > end:
                    raise
            else:
                return
            await self._clock.sleep(pause)
            pause = min(pause * 2, self._longest_pause)
