"""A long row of items, of whichever room, lets the loop do other things in between."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

from scheduler_service.pacing.interpreter import SHORT_TURNS

SLICE_ITEMS = 50
SLICE_BYTES = 16_384
SLICE_SECONDS = 0.003
"""So many small items, or so many bytes of them, are worked on before the loop may do something else; after
this time none is begun."""
ROUNDS = 4
"""So many rounds the loop has for other things after a slice that took all of its time: a firing takes up to
thirty rounds to its target, and would be late by as many slices."""


def until_tick(period: float, now: float) -> float:
    """Seconds from `now`, of `time.monotonic`, to the next multiple of `period`; a very near one is past.

    What recurs in an idle process waits for such moments: then one wake of the loop serves several. Loops
    count in whole ms, and those of all who wait are the same with half a ms more.
    """
    left = period - now % period + 0.000_5
    return left if left > period / 20 else left + period  # a timer may ring a little early


async def rest_until_tick(period: float) -> None:
    """Returns at the moment of `until_tick`."""
    await asyncio.sleep(until_tick(period, time.monotonic()))


class Slices:
    """Divides a long row of items: `pause` is awaited before each one. `timer` counts seconds.

    Of all the rows that a loop works on, one goes on in each of its rounds.
    """

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        self._items = 0
        self._bytes = 0
        self._timer = timer
        self._seen = timer()
        self._end = self._seen + SLICE_SECONDS
        self._is_long = False

    async def pause(self, size: int = 0) -> None:
        """Lets the loop do other things once a slice is full; `size` is that of the next item, in bytes."""
        if self.is_full(size):
            await self.rest(size)

    def is_full(self, size: int = 0) -> bool:
        """Whether `rest` has to be awaited before the next item, which else counts from now on.

        The two are `pause` without a coroutine for each item.
        """
        items = self._items
        if items >= SLICE_ITEMS or self._bytes >= SLICE_BYTES or (not items and size > SLICE_BYTES):
            return True
        before, self._seen = self._seen, self._timer()
        if self._seen >= self._end:
            # Else the row has waited for something in between, and the loop has had its rounds.
            self._is_long = self._seen - before < SLICE_SECONDS
            return True
        self._items = items + 1
        self._bytes += size
        return False

    async def rest(self, size: int = 0) -> None:
        """Lets the loop do other things; the next slice begins with an item of `size` bytes."""
        is_long, self._is_long = self._is_long, False
        await _turnstile().go_through(ROUNDS if is_long else 1)
        if is_long:  # as the next one will be: other threads, as the store's, need the interpreter meanwhile
            SHORT_TURNS.begin()
            asyncio.get_running_loop().call_soon(SHORT_TURNS.end)
        self._seen = self._timer()
        self._end = self._seen + SLICE_SECONDS
        self._items, self._bytes = 1, size


class _Turnstile:
    """Lets one slice go on in a round of its loop, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False
        self._rounds = 1

    async def go_through(self, rounds: int) -> None:
        """Returns in one of the next rounds, and no slice goes on in the next `rounds` less one."""
        loop = asyncio.get_running_loop()
        self._rounds = max(self._rounds, rounds)
        if not self._is_taken:
            self._take(loop)
            if self._rounds == 1:
                await asyncio.sleep(0)
                return
        place = loop.create_future()
        self._waiting.append(place)
        await place

    def _take(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_taken = True
        loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._rounds > 1:
            self._rounds -= 1
            loop.call_soon(self._turn, loop)
            return
        self._is_taken = False
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():  # it is where its row was cancelled
                place.set_result(None)
                self._take(loop)
                return


_TURNSTILES: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turnstile] = WeakKeyDictionary()


def _turnstile() -> _Turnstile:
    return _TURNSTILES.setdefault(asyncio.get_running_loop(), _Turnstile())
