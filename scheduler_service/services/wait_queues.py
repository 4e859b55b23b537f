"""FIFO queues of waiters for capacity: the first one retries, the others wait for their turn."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from scheduler_service.ports.clock import Timekeeper

POLL_MS = 250
"""How often the first waiter retries unprompted: a heartbeat triggers no retry."""

Key = tuple[str, str]
WaitQueue = tuple[str, ...]
Found = TypeVar("Found")
Waiter = asyncio.Future[None]


def wake(waiter: Waiter) -> None:
    """It goes on, unless it does so already."""
    if not waiter.done():
        waiter.set_result(None)


class WaitQueues:
    """Any number of queues; `retry` wakes the first waiter of each queue of a key."""

    def __init__(self, *, clock: Timekeeper, poll_ms: int = POLL_MS) -> None:
        self._clock = clock
        self._poll_ms = poll_ms
        self._queues: dict[WaitQueue, deque[Waiter]] = {}
        self._first: dict[Key, set[Waiter]] = {}

    def is_empty(self, queue: WaitQueue) -> bool:
        """Whether the queue has no waiters."""
        return queue not in self._queues

    def count(self, beginning: WaitQueue) -> int:
        """The waiters of all queues whose names begin so."""
        length = len(beginning)
        return sum(len(waiting) for queue, waiting in self._queues.items() if queue[:length] == beginning)

    async def pass_through(self, queue: WaitQueue, key: Key, attempt: Callable[[], Found | None]) -> Found:
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
        for waiter in self._first.pop(key, ()):
            wake(waiter)

    async def _retry_until_found(self, key: Key, attempt: Callable[[], Found | None]) -> Found:
        while True:
            found = attempt()
            if found is not None:
                return found
            prompted: Waiter = asyncio.get_running_loop().create_future()
            self._first.setdefault(key, set()).add(prompted)
            alarm = self._clock.call_after(self._poll_ms, partial(wake, prompted))
            try:
                await prompted
            finally:
                alarm.cancel()
                self._first.get(key, set()).discard(prompted)

    def _remove(self, queue: WaitQueue, waiting: deque[Waiter], waiter: Waiter) -> None:
        was_first = waiting[0] is waiter
        waiting.remove(waiter)
        if not waiting:
            self._queues.pop(queue, None)
        elif was_first:
            wake(waiting[0])
