"""Counts calls against the rate limit of a service (SPEC section 13)."""

from collections import deque
from typing import Protocol

from scheduler_service.domain.services import RateLimit


class Window(Protocol):
    """What counts for one rate limit in this process; moments are steady ms."""

    def wait(self, limit: RateLimit, now: int) -> int:
        """Milliseconds until another call may be allowed; 0: it is."""

    def want(self, count: int, now: int) -> None:
        """So many calls wait for being allowed."""

    def take(self, now: int) -> None:
        """Counts a call."""

    def give_back(self, taken: int, count: int) -> None:
        """Of the calls that were counted at `taken`, `count` were not made."""


class RateWindow:
    """The calls of the last `per` ms, all of which are made in this process."""

    def __init__(self) -> None:
        self._calls: deque[int] = deque()

    def wait(self, limit: RateLimit, now: int) -> int:
        """Milliseconds until another call is allowed; 0: now."""
        calls = self._calls
        while calls and calls[0] <= now - limit.per:
            calls.popleft()
        if len(calls) < limit.count:
            return 0
        return calls[len(calls) - limit.count] + limit.per - now

    def want(self, count: int, now: int) -> None:
        """Nobody else has anything to give."""

    def take(self, now: int) -> None:
        """Counts a call."""
        self._calls.append(now)

    def give_back(self, taken: int, count: int) -> None:
        """Of the calls that were counted at `taken`, `count` were not made. Older ones count no more."""
        for _ in range(min(count, self._calls.count(taken))):  # `wait` has removed those that are over
            self._calls.remove(taken)
