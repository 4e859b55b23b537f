"""The services that are registered: kept in memory over their table, with the instances beside them."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from scheduler_service.domain.services import Service
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.services import ServiceTable
from scheduler_service.services.instances import Instance, Instances


class TimerDeclaration(msgspec.Struct, frozen=True):
    """The timers that a service declares: a JSON array of checked definitions, as they are kept.

    `digest` tells one declaration, as it was posted, from another. `text` None: it is the one in force, and
    was not read again.
    """

    digest: bytes
    text: bytes | None = None


def digest_of(posted: bytes) -> bytes:
    """The digest of a declaration that was posted as this JSON array."""
    return sha256(posted).digest()


NOTHING = TimerDeclaration(digest_of(b"[]"), b"[]")


class Registry:
    """What services and instances say of themselves. Everything that is asked is answered from memory.

    `load` reads the table at the start. What changes is in the table before it is in memory: where a call
    raises StoreUnavailable, nothing was done.
    """

    def __init__(self, *, table: ServiceTable, instances: Instances, clock: Clock) -> None:
        self.instances = instances
        self._table = table
        self._clock = clock
        self._services: dict[tuple[str, str], Service] = {}
        self._inherited: frozenset[tuple[str, str]] = frozenset()
        self._whole_at = 0
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Reads all services. Raises StoreUnavailable."""
        found = await self._table.services()
        self._services = {(one.tenant, one.name): one for one in found}
        self._inherited = frozenset(self._services)
        self._whole_at = self._clock.now().steady + self.instances.offline_after

    def awaits_instances(self, tenant: str, name: str) -> bool:
        """Whether instances may live that have not registered anew since the start of this process.

        So it is with a service that was registered before, as long as an instance that says nothing is not
        offline. After that who lives has been heard of.
        """
        if (tenant, name) not in self._inherited or self._clock.now().steady >= self._whole_at:
            return False
        return self.find(tenant, name) is not None

    def find(self, tenant: str, name: str) -> Service | None:
        """This service, or None; a removed one is none."""
        service = self._services.get((tenant, name))
        return None if service is None or service.removed_at is not None else service

    def services(self, tenant: str) -> tuple[Service, ...]:
        """The services of a tenant by name, without the removed ones."""
        mine = [one for one in self._services.values() if one.tenant == tenant and one.removed_at is None]
        return tuple(sorted(mine, key=lambda one: one.name))

    def all(self) -> tuple[Service, ...]:
        """Those of all tenants, removed ones that still have jobs too."""
        return tuple(self._services[key] for key in sorted(self._services))

    async def timers(self, tenant: str, name: str) -> bytes:
        """The timers that a service declares, as a JSON array. Raises StoreUnavailable."""
        return await self._table.timers(tenant, name)

    async def register(self, said: Service, timers: TimerDeclaration | None) -> tuple[Service, bool]:
        """Takes up what a service says of itself; its timers stay where it says nothing of them.

        Answers what is kept, and whether the service is new. Raises StoreUnavailable.
        """
        async with self._writing:
            return await self._keep(said, timers)

    async def remove(self, tenant: str, name: str) -> bool:
        """Removes a service: its timers are declared no more. False: there is none. Raises StoreUnavailable.

        Its instances are forgotten; one that registers again brings the service back.
        """
        async with self._writing:
            service = self.find(tenant, name)
            if service is None:
                return False
            gone = msgspec.structs.replace(service, removed_at=self._clock.now().wall, digest=NOTHING.digest)
            await self._table.put(gone, NOTHING.text)
            self._services[tenant, name] = gone
        for instance in self.instances.known(tenant, name):
            self.instances.remove(tenant, name, instance.instance_id)
        return True

    async def forget(self, service: Service) -> None:
        """Drops a removed service whose jobs are gone, unless it came back. Raises StoreUnavailable."""
        async with self._writing:
            key = (service.tenant, service.name)
            if self._services.get(key) is service:
                await self._table.drop(*key)
                del self._services[key]

    async def announce(self, instance: Instance, timers: TimerDeclaration | None) -> tuple[Instance, bool]:
        """Takes up an instance, its service where that is unknown, and the timers where they are news.

        Answers what is kept, and whether the instance is new. Raises StoreUnavailable.
        """
        said = msgspec.structs.replace(instance, declares=b"" if timers is None else timers.digest)
        async with self._writing:
            service = self.find(instance.tenant, instance.service)
            if service is None:
                new = Service(tenant=said.tenant, name=said.service)
                await self._keep(new, timers if timers is not None and timers.text is not None else None)
            elif timers is not None and timers.text is not None and self._is_news(service, said):
                await self._keep(service, timers)
        is_new = self.instances.get(said.tenant, said.service, said.instance_id) is None
        return self.instances.register(said), is_new

    def _is_news(self, service: Service, said: Instance) -> bool:
        known = self.instances.get(said.tenant, said.service, said.instance_id)
        online = self.instances.online(said.tenant, said.service, self._clock.now().steady)
        others = [one for one in online if one.instance_id != said.instance_id]
        return is_news(service.digest, said.declares, known, others)

    async def _keep(self, said: Service, timers: TimerDeclaration | None) -> tuple[Service, bool]:
        now = self._clock.now().wall
        known = self.find(said.tenant, said.name)
        before = said if known is None else known
        kept = msgspec.structs.replace(
            said,
            digest=before.digest if timers is None else timers.digest,
            created_at=now if known is None else known.created_at,
            updated_at=before.updated_at,
            removed_at=None,
        )
        if kept != known:
            kept = msgspec.structs.replace(kept, updated_at=now)
            await self._table.put(kept, None if timers is None else timers.text)
            self._services[kept.tenant, kept.name] = kept
        return kept, known is None


def is_news(current: bytes, said: bytes, known: Instance | None, others: Sequence[Instance]) -> bool:
    """Whether an instance that declares `said` changes what its service declares, which is `current`.

    While two versions of a service run side by side, each repeats its own declaration every 30 s. What an
    instance says for the first time counts; what it repeats counts only where no other instance stands for
    what is in force: so the newer version wins, and the older one again once the newer one is gone.
    """
    if said == current:
        return False
    if known is None or known.declares != said:
        return True
    return not any(one.declares == current for one in others)
