"""Who waits for something: woken by keys, or in FIFO queues of which the first one retries."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from scheduler_service.ports.clock import Timekeeper

POLL_MS = 250
"""How often the first waiter retries unprompted: a heartbeat triggers no retry."""

Key = tuple[str, ...]
Found = TypeVar("Found")
Waiter = asyncio.Future[None]


class Waits:
    """Wakes by keys those who wait, in the order in which they came. `wakeups` grows with each wake, also
    where nobody waits yet.
    """

    def __init__(self, *, clock: Timekeeper) -> None:
        self.wakeups = 0
        self._clock = clock
        self._waiting: dict[Key, dict[Waiter, None]] = {}

    @property
    def keys(self) -> list[Key]:
        """For which somebody waits."""
        return list(self._waiting)

    async def wait(self, *keys: Key, most: int | None = None) -> None:
        """Returns when one of `keys` is woken, or `most` ms have passed."""
        waiter: Waiter = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, {})[waiter] = None
        alarm = None if most is None else self._clock.call_after(most, partial(_wake, waiter))
        try:
            await waiter
        finally:
            if alarm is not None:
                alarm.cancel()
            for key in keys:
                self._leave(key, waiter)

    def wake(self, keys: Iterable[Key]) -> None:
        """Those that wait for one of `keys` go on."""
        self.wakeups += 1
        for key in keys:
            for waiter in self._waiting.get(key, ()):
                _wake(waiter)

    def wake_all(self) -> None:
        """All go on."""
        self.wake(self.keys)

    def _leave(self, key: Key, waiter: Waiter) -> None:
        waiting = self._waiting[key]
        del waiting[waiter]
        if not waiting:
            del self._waiting[key]


class WaitQueues:
    """Any number of queues; `retry` wakes the first waiter of each queue of a key."""

    def __init__(self, *, clock: Timekeeper) -> None:
        self._queues: dict[Key, deque[Waiter]] = {}
        self._first = Waits(clock=clock)

    def is_empty(self, queue: Key) -> bool:
        """Whether the queue has no waiters."""
        return queue not in self._queues

    def count(self, beginning: Key) -> int:
        """The waiters of all queues whose names begin so."""
        length = len(beginning)
        return sum(len(waiting) for queue, waiting in self._queues.items() if queue[:length] == beginning)

    async def pass_through(self, queue: Key, key: Key, attempt: Callable[[], Found | None]) -> Found:
        """The first result of `attempt` that is not None, after all earlier waiters got theirs."""
        if self.is_empty(queue):
            found = attempt()
            if found is not None:
                return found
        waiter: Waiter = asyncio.get_running_loop().create_future()
        waiting = self._queues.setdefault(queue, deque())
        waiting.append(waiter)
        try:
            if waiting[0] is not waiter:
                await waiter
            return await self._retry_until_found(key, attempt)
        finally:
            self._remove(queue, waiting, waiter)

    def retry(self, key: Key) -> None:
        """Capacity was freed: the first waiter of each queue of `key` retries at once."""
        self._first.wake([key])

    async def _retry_until_found(self, key: Key, attempt: Callable[[], Found | None]) -> Found:
        while True:
            found = attempt()
            if found is not None:
                return found
            await self._first.wait(key, most=POLL_MS)

    def _remove(self, queue: Key, waiting: deque[Waiter], waiter: Waiter) -> None:
        was_first = waiting[0] is waiter
        waiting.remove(waiter)
        if not waiting:
            self._queues.pop(queue, None)
        elif was_first:
            _wake(waiting[0])


def _wake(waiter: Waiter) -> None:
    """It goes on, unless it does so already."""
    if not waiter.done():
        waiter.set_result(None)
