"""Which queues and services are paused: a view in memory of the table of all nodes (SPEC section 13).

Whoever gives out parts or calls instances asks here, and nowhere else.
"""

import asyncio
from collections.abc import Awaitable, Callable

from scheduler_service.domain.registered_services import Kind, Pause
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.services import ServiceTable

OnChange = Callable[[Kind, str, str], None]
Place = tuple[Kind, str, str]


class Pauses:
    """Reads are from memory. A change is durable before it counts; `tell` lets other nodes look for it.

    `pause`, `resume` and `refresh` raise StoreUnavailable and StoreUncertain: then they may be repeated.
    """

    def __init__(
        self, *, table: ServiceTable, clock: Clock, tell: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._table = table
        self._clock = clock
        self._tell = tell
        self._known: dict[Place, Pause] = {}
        self._listeners: list[OnChange] = []
        self._writing = asyncio.Lock()

    def since(self, kind: Kind, tenant: str, name: str) -> int | None:
        """Since when it is paused (steady ms); None: it is not."""
        found = self._known.get((kind, tenant, name))
        return None if found is None else found.since

    def all(self, kind: Kind) -> list[Pause]:
        """Those of all tenants, by tenant and name."""
        return [self._known[place] for place in sorted(self._known) if place[0] is kind]

    def subscribe(self, on_change: OnChange) -> None:
        """`on_change` is called for each one whose pause begins or ends, here or at another node."""
        self._listeners.append(on_change)

    async def refresh(self) -> None:
        """Reads all of them again."""
        async with self._writing:
            found = {(one.kind, one.tenant, one.name): one for one in await self._table.pauses()}
            changed = self._known.keys() ^ found.keys()
            self._known = found
        for place in sorted(changed):
            self._note(place)

    async def pause(self, kind: Kind, tenant: str, name: str) -> None:
        """It is paused from now on; where it is already, nothing changes."""
        place = (kind, tenant, name)
        async with self._writing:
            if place in self._known:
                return
            begun = Pause(kind, tenant, name, self._clock.now().steady)
            await self._table.pause(begun)
            self._known[place] = begun
        self._note(place)
        await self._tell(tenant, name)

    async def resume(self, kind: Kind, tenant: str, name: str) -> None:
        """It goes on; where it is not paused, nothing changes."""
        place = (kind, tenant, name)
        async with self._writing:
            if place not in self._known:
                return
            await self._table.resume(*place)
            del self._known[place]
        self._note(place)
        await self._tell(tenant, name)

    def _note(self, place: Place) -> None:
        for listener in self._listeners:
            listener(*place)
