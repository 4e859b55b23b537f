"""The claims of one process that wait for parts, or for room at their instance."""

import asyncio
from collections.abc import Iterable

from scheduler_service.ports.clock import Timekeeper

Key = tuple[str, ...]
"""A queue (tenant, name), or an instance."""


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
        alarm = self._clock.call_after(left, lambda: _end({waiter}))
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
            _end(self._waiting.get(key, set()))

    def wake_all(self) -> None:
        """All go on."""
        self.wakeups += 1
        for waiters in list(self._waiting.values()):
            _end(waiters)

    def _leave(self, key: Key, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiting.get(key, set())
        waiters.discard(waiter)
        if not waiters:
            self._waiting.pop(key, None)


def _end(waiters: set[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
