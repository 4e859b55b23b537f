"""Deadlines of exchanges, many at a time."""

import asyncio
import heapq
from typing import Protocol

_GRAIN_SECONDS = 0.016  # a timeout may come late by this much; it never comes early


class Expiring(Protocol):
    """Has a deadline."""

    def expire(self) -> None:
        """Called once, when the time is up."""


class Deadlines:
    """Expires what has run out of time. Arming and disarming cost a set operation instead of a timer each."""

    def __init__(self) -> None:
        self._buckets: dict[int, set[Expiring]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, one: Expiring, when: float) -> set[Expiring]:
        """`one` expires at `when` (seconds of the running loop's clock), unless discarded from the set."""
        index = int(when / _GRAIN_SECONDS) + 1
        bucket = self._buckets.get(index)
        if bucket is None:
            bucket = self._buckets[index] = set()
            heapq.heappush(self._order, index)
            if self._order[0] == index:
                self._schedule()
        bucket.add(one)
        return bucket

    def close(self) -> None:
        """Forgets everything that is armed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._order.clear()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._order[0] * _GRAIN_SECONDS, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._order and self._order[0] * _GRAIN_SECONDS <= now:
            bucket = self._buckets.pop(heapq.heappop(self._order))
            for one in tuple(bucket):
                one.expire()
        if self._order and self._timer is None:
            self._schedule()
