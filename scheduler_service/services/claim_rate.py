"""Holds claims from a queue to the rate limit of the service with its name (SPEC section 13)."""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from scheduler_service.domain.leases import Leased
from scheduler_service.ports.clock import Clock
from scheduler_service.services.router import MemoryRouter

Take = Callable[[int], Awaitable[tuple[Leased, ...]]]


class ClaimRate:
    """Counts parts that are given out as calls of the service: they share one limit.

    Claims from a queue with a limit run one at a time, so that none is refused for parts that another one
    does not get.
    """

    def __init__(self, *, router: MemoryRouter, clock: Clock) -> None:
        self._router = router
        self._clock = clock
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def claim(
        self, tenant: str, queue: str, most: int, take: Take
    ) -> tuple[tuple[Leased, ...], int | None]:
        """What `take` gives, asked for as many as the limit allows, at most `most`.

        Where it allows none, the second value is the wait in ms until it does. Raises what `take` raises; its
        parts then count as given out, since they may have been.
        """
        if self._router.rate_of(tenant, queue) is None:
            return await take(most), None
        async with self._locks.setdefault((tenant, queue), asyncio.Lock()):
            rate = self._router.rate_of(tenant, queue)
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
