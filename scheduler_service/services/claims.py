"""The claims of one process: what they wait for, and the rate limit that holds for them (SPEC section 13)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from weakref import WeakValueDictionary

from scheduler_service.domain.leases import Leased
from scheduler_service.ports.clock import Clock, Timekeeper
from scheduler_service.services.router import MemoryRouter
from scheduler_service.services.wait_queues import wake

Key = tuple[str, ...]
"""A queue (tenant, name), or an instance."""
Take = Callable[[int], Awaitable[tuple[Leased, ...]]]


class ClaimWaits:
    """Wakes claims by what they wait for. `wakeups` grows with each wake, also where nobody waits yet."""

    def __init__(self, *, clock: Timekeeper) -> None:
        self.wakeups = 0
        self._clock = clock
        self._waiting: dict[Key, set[asyncio.Future[None]]] = {}

    @property
    def queues(self) -> list[tuple[str, str]]:
        """The queues (tenant, name) for whose parts claims wait."""
        return [(key[0], key[1]) for key in self._waiting if len(key) > 1]

    async def wait(self, keys: tuple[Key, ...], left: int) -> None:
        """Returns when one of `keys` is woken, or `left` ms have passed."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for key in keys:
            self._waiting.setdefault(key, set()).add(waiter)
        alarm = self._clock.call_after(left, partial(wake, waiter))
        try:
            await waiter
        finally:
            alarm.cancel()
            for key in keys:
                self._leave(key, waiter)

    def wake(self, keys: Iterable[Key]) -> None:
        """Those that wait for one of `keys` go on."""
        self.wakeups += 1
        for key in keys:
            for waiter in self._waiting.get(key, ()):
                wake(waiter)

    def wake_all(self) -> None:
        """All go on."""
        self.wakeups += 1
        for waiters in self._waiting.values():
            for waiter in waiters:
                wake(waiter)

    def _leave(self, key: Key, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiting.get(key, set())
        waiters.discard(waiter)
        if not waiters:
            self._waiting.pop(key, None)


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
