"""What counts for a rate limit in one process: calls, and claims like calls (SPEC section 13)."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol
from weakref import WeakValueDictionary

from scheduler_service.domain.leases import Leased
from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.ports.clock import Clock

Take = Callable[[int], Awaitable[tuple[Leased, ...]]]
RateOf = Callable[[str, str], tuple[RateLimit, "ProcessWindow"] | None]
"""The rate limit of a service (tenant, name) with what counts for it; None: it has none."""


class ProcessWindow(Protocol):
    """What counts for one rate limit in this process; moments are steady ms."""

    @property
    def lacks_share(self) -> bool:
        """Whether it has nothing to give out yet, as other processes were not asked."""

    async def ask(self, limit: RateLimit, count: int) -> int | None:
        """Asks other processes for what `count` callers lack, just after `wait` was not 0.

        Gives 0 where a call is allowed, else how long (ms) none is; None: `wait` knows as much.
        """

    def wait(self, limit: RateLimit, now: int) -> int:
        """Milliseconds until another call may be allowed; 0: it is."""

    def room(self, limit: RateLimit, now: int) -> int:
        """How many calls are allowed now, just after `wait` was 0."""

    def want(self, count: int, now: int) -> None:
        """So many calls wait for being allowed."""

    def take(self, now: int) -> None:
        """Counts a call."""

    def give_back(self, taken: int, count: int) -> None:
        """Of the calls that were counted at `taken`, `count` were not made."""


class RateWindow:
    """The calls of the last `per` ms, all of which are made in this process."""

    lacks_share = False

    def __init__(self) -> None:
        self._calls: deque[int] = deque()

    async def ask(self, limit: RateLimit, count: int) -> None:
        """There is nobody to ask."""

    def wait(self, limit: RateLimit, now: int) -> int:
        """Milliseconds until another call is allowed; 0: now."""
        calls = self._calls
        while calls and calls[0] <= now - limit.per:
            calls.popleft()
        if len(calls) < limit.count:
            return 0
        return calls[len(calls) - limit.count] + limit.per - now

    def room(self, limit: RateLimit, now: int) -> int:
        """How many calls are allowed now, just after `wait` was 0."""
        return limit.count - len(self._calls)

    def want(self, count: int, now: int) -> None:
        """Nobody else has anything to give."""

    def take(self, now: int) -> None:
        """Counts a call."""
        self._calls.append(now)

    def give_back(self, taken: int, count: int) -> None:
        """Of the calls that were counted at `taken`, `count` were not made. Older ones count no more."""
        for _ in range(min(count, self._calls.count(taken))):  # `wait` has removed those that are over
            self._calls.remove(taken)


class ClaimRate:
    """Counts parts that are given out as calls of the service: they share one limit.

    Claims from a queue with a limit run one at a time, so that none is refused for parts that another one
    does not get.
    """

    def __init__(self, *, rate_of: RateOf, clock: Clock) -> None:
        self._rate_of = rate_of
        self._clock = clock
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def claim(
        self, tenant: str, queue: str, most: int, take: Take
    ) -> tuple[tuple[Leased, ...], int | None]:
        """What `take` gives, asked for as many as the limit allows, at most `most`.

        Where it allows none, the second value is the wait in ms until it does. Raises what `take` raises; its
        parts then count as given out, since they may have been.
        """
        if self._rate_of(tenant, queue) is None:
            return await take(most), None
        async with self._locks.setdefault((tenant, queue), asyncio.Lock()):
            rate = self._rate_of(tenant, queue)
            if rate is None:
                return await take(most), None
            limit, window = rate
            now = self._clock.now().steady
            allowed = 0
            while allowed < most and window.wait(limit, now) == 0:
                window.take(now)
                allowed += 1
            if not allowed:
                window.want(1, now)
                return (), window.wait(limit, now)
            found = await take(allowed)
            if allowed == len(found) < most:
                window.want(most - allowed, now)  # there may be more parts
            window.give_back(now, allowed - len(found))
            return found, None
