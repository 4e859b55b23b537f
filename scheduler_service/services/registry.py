"""The registered services, cached in memory over their table, their instances and addresses."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from weakref import WeakValueDictionary

import msgspec

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import DAY
from scheduler_service.domain.registered_services import Kind, Service
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.ports.services import ServiceTable
from scheduler_service.ports.shared_registry import ServiceNotice
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.pauses import Pauses
from scheduler_service.services.router import Terms

DECLARED_BYTES = 16 << 20
EMPTY_BYTES = len(b"[]")


class Sharing:
    """Tells the other nodes of a cluster. This one has nobody to tell: every instance registers with it.

    `catch_up`, `write`, `leave` and `forget` raise StoreUnavailable: then nothing has changed. `write` and
    `leave` may raise StoreUncertain, too: what came of it is known with the next `catch_up`, and they may be
    repeated.
    """

    @property
    def complete_at(self) -> int:
        """The steady moment by which every living instance is known here; it may move on."""
        return 0

    async def catch_up(self) -> None:
        """Returns when what the others had written by now is known here."""

    async def write(self, instance: Instance) -> None:
        """It has registered."""

    async def leave(self, instance: Instance, left_at: int) -> None:
        """It has deregistered (steady ms)."""

    async def forget(self, before: int) -> None:
        """What nobody has heard of since `before` (steady ms) is old."""

    def note(self, tenant: str, name: str, *, anew: bool) -> None:
        """The table has something new of a service, or whether its jobs are declared anew has changed."""

    async def flush(self) -> None:
        """Tells at once what was noted; where that fails, it is told a moment later."""


class DeclarationsFull(PunctualError):
    """A declaration that is refused, as all of them together would be too large; nothing has changed."""

    def __init__(self, *, size: int, others: int, most: int) -> None:
        super().__init__(
            f"these timers take {size:,} bytes and those of the other services {others:,}, together more "
            f"than {most:,}; declare fewer or smaller ones, remove services that nobody needs (DELETE "
            "/services/{name}), or raise services.declared_bytes"
        )


class DeclaredRoom:
    """At most `most` bytes of definitions, as stored, are declared by all services of the table together.

    Nodes that share the table and take declarations at the same moment may exceed it by these.
    """

    def __init__(self, *, table: ServiceTable, most: int = DECLARED_BYTES) -> None:
        self._table = table
        self._most = most

    async def check(self, tenant: str, name: str, size: int) -> None:
        """Returns where the service may declare `size` bytes: also where it declared no less before.

        Raises DeclarationsFull, StoreUnavailable.
        """
        if size <= EMPTY_BYTES:
            return
        own, all_ = await self._table.declared_bytes(tenant, name)
        if size > own and all_ - own + size > self._most:
            raise DeclarationsFull(size=size, others=all_ - own, most=self._most)

    async def report(self, log: Log) -> None:
        """Says in the log where more is declared than there is room for. Raises StoreUnavailable."""
        _, all_ = await self._table.declared_bytes("", "")
        if all_ > self._most:
            log("declarations_exceeded", bytes=all_, limit=self._most)


class TimerDeclaration(msgspec.Struct, frozen=True):
    """The timers that a service declares: a JSON array of checked definitions, as stored.

    `digest` identifies the declaration as posted. `text` None: it is in force already and was not parsed.
    """

    digest: bytes
    text: bytes | None = None


def digest_of(posted: bytes | memoryview) -> bytes:
    """The digest of a declaration posted as this JSON array."""
    return sha256(posted).digest()


NO_TIMERS = TimerDeclaration(digest_of(b"[]"), b"[]")


class Registry:
    """Services and instances as registered, and what is paused. All reads are from memory.

    `load` reads the table at the start, `refresh` again. Changes are written to the table before memory, and
    with `sharing` they count at all nodes. Whoever is told StoreUnavailable or StoreUncertain may repeat the
    call: what is done already stays, and the rest is then. After DeclarationsFull (`room`) nothing is done.
    `keeps`: whether stored edits win at a service whose registration does not say. `is_reachable`: whether a
    service that is not registered may be called all the same.
    """

    def __init__(
        self,
        *,
        table: ServiceTable,
        instances: Instances,
        clock: Clock,
        sharing: Sharing | None = None,
        room: DeclaredRoom | None = None,
        keeps: bool = False,
        is_reachable: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.instances = instances
        self._is_reachable = is_reachable
        self.keeps = keeps
        self._sharing = Sharing() if sharing is None else sharing
        self._table = table
        self.texts = TimerTexts(table=table)
        self._room = DeclaredRoom(table=table) if room is None else room
        self._clock = clock
        self._services: dict[tuple[str, str], Service] = {}
        self._loaded: frozenset[tuple[str, str]] = frozenset()
        self._complete_at = 0
        self._anew: set[tuple[str, str]] = set()
        self._writing = asyncio.Lock()
        self.pauses = Pauses(table=table, clock=clock, tell=self._tell)

    async def load(self) -> None:
        """Reads all services. Raises StoreUnavailable."""
        found = await self._table.services()
        self._services = {(one.tenant, one.name): one for one in found}
        self._loaded = frozenset(self._services)
        self._complete_at = self._clock.now().steady + self.instances.offline_after
        await self.pauses.refresh()
        await self._sharing.catch_up()

    async def refresh(self) -> None:
        """Reads all services again, with those that other nodes wrote. Raises StoreUnavailable."""
        async with self._writing:
            found = await self._table.services()
            self._services = {(one.tenant, one.name): self._keep_object(one) for one in found}
        await self.pauses.refresh()

    async def take_notices(self, notices: Sequence[ServiceNotice]) -> None:
        """What a node of the cluster, this one or another, wrote of services. Raises StoreUnavailable."""
        await self.refresh()
        for one in notices:
            key = (one.tenant, one.name)
            if one.anew:
                self._anew.add(key)
            else:
                self._anew.discard(key)

    async def catch_up(self) -> None:
        """Returns when all is known that registered with any node by now. Raises StoreUnavailable."""
        await self._sharing.catch_up()

    async def look(self) -> None:
        """As `catch_up`, for reads: they show what is known where the others cannot be asked."""
        with suppress(StoreUnavailable):
            await self._sharing.catch_up()

    async def pause_queue(self, tenant: str, name: str) -> None:
        """It is paused, since when it was where another node has paused it. Raises as `Pauses.pause`."""
        await self._sharing.catch_up()
        await self.pauses.pause(Kind.QUEUE, tenant, name)

    async def pause_service(self, tenant: str, name: str) -> Service | None:
        """The service, paused; None: there is none. One that is called unregistered is registered by it.

        Raises as `Pauses.pause`.
        """
        await self._sharing.catch_up()
        if self.find(tenant, name) is None:
            if not self._is_reachable(name):
                return None
            await self.register(Service(tenant=tenant, name=name, keeps=self.keeps), None)
        await self.pauses.pause(Kind.SERVICE, tenant, name)
        return self.find(tenant, name)

    async def resume_service(self, tenant: str, name: str) -> Service | None:
        """The service, of which steps are sent; None: there is none. Raises as `Pauses.resume`."""
        await self._sharing.catch_up()
        await self.pauses.resume(Kind.SERVICE, tenant, name)
        return self.find(tenant, name)

    async def _tell(self, tenant: str, name: str) -> None:
        self._sharing.note(tenant, name, anew=(tenant, name) in self._anew)
        await self._sharing.flush()

    def _keep_object(self, found: Service) -> Service:
        """The object that is known, if it is the same service: `forget` compares objects."""
        known = self._services.get((found.tenant, found.name))
        return known if known == found else found

    def awaits_instances(self, tenant: str, name: str) -> bool:
        """Whether running instances may not have registered since the start of this process yet.

        True for a service that was registered before the start, until `offline_after` has passed: by then
        every running instance has registered. In a cluster also after a time in which not all were heard of.
        """
        if self._clock.now().steady >= self.complete_at or self.find(tenant, name) is None:
            return False
        return (tenant, name) in self._loaded or self._sharing.complete_at > 0

    @property
    def complete_at(self) -> int:
        """The steady moment by which every running instance has registered since the start."""
        return max(self._complete_at, self._sharing.complete_at)

    def find(self, tenant: str, name: str) -> Service | None:
        """This service, or None if it is unknown or removed."""
        service = self._services.get((tenant, name))
        return None if service is None or service.removed_at is not None else service

    def services(self, tenant: str) -> tuple[Service, ...]:
        """The services of a tenant in order of name, without removed ones."""
        mine = [one for one in self._services.values() if one.tenant == tenant and one.removed_at is None]
        return tuple(sorted(mine, key=lambda one: one.name))

    def all(self) -> tuple[Service, ...]:
        """The services of all tenants, including removed ones that still have jobs."""
        return tuple(self._services[key] for key in sorted(self._services))

    def take_anew(self, tenant: str, name: str) -> bool:
        """Whether a registration has declared the jobs of this service anew since the last call.

        A changed declaration does, and an instance that is new or did not declare them before.
        """
        is_anew = (tenant, name) in self._anew
        self._anew.discard((tenant, name))
        return is_anew

    def note_anew(self, tenant: str, name: str) -> None:
        """The jobs of this service are declared anew."""
        self._anew.add((tenant, name))
        self._sharing.note(tenant, name, anew=True)

    def settle_anew(self, tenant: str, name: str) -> None:
        """What `take_anew` took is done."""
        self._sharing.note(tenant, name, anew=(tenant, name) in self._anew)

    async def timers(self, tenant: str, name: str) -> bytes:
        """The declared timers of a service, as a JSON array. Raises StoreUnavailable."""
        return await self._table.timers(tenant, name)

    async def register(self, given: Service, timers: TimerDeclaration | None) -> tuple[Service, bool]:
        """Stores a service; `timers` None, or without `text`, leaves its timers unchanged.

        Returns what is stored, and whether the service is new. Raises StoreUnavailable, DeclarationsFull.
        """
        await self._sharing.catch_up()
        async with self._writing:
            stored = await self._keep(given, timers)
        await self._sharing.flush()
        return stored

    async def remove(self, tenant: str, name: str) -> bool:
        """Removes a service, its declaration and its pause. False: there is none.

        Raises StoreUnavailable, StoreUncertain. Its instances leave first, so that a repeated call finds the
        service while one of them is there. One that registers again restores the service.
        """
        await self._sharing.catch_up()
        if self.find(tenant, name) is None:
            return False
        for instance in self.instances.known(tenant, name):
            await self.deregister(tenant, name, instance.instance_id)
        async with self._writing:
            service = self.find(tenant, name)
            if service is None:
                return False
            removed = msgspec.structs.replace(
                service, removed_at=self._clock.now().wall, digest=NO_TIMERS.digest
            )
            await self._table.put(removed, NO_TIMERS.text)
            self._services[tenant, name] = removed
            self._sharing.note(tenant, name, anew=False)
        await self.pauses.resume(Kind.SERVICE, tenant, name)
        await self._sharing.flush()
        return True

    async def deregister(self, tenant: str, name: str, instance_id: str) -> bool:
        """An instance leaves; False if it is not known. Raises StoreUnavailable, StoreUncertain."""
        known = self.instances.get(tenant, name, instance_id)
        if known is None:
            await self._sharing.catch_up()
            known = self.instances.get(tenant, name, instance_id)
        if known is None:
            return False
        left_at = self._clock.now().steady
        await self._sharing.leave(known, left_at)
        return self.instances.remove(tenant, name, instance_id, left_at)

    async def forget_instances(self, before: int) -> None:
        """Drops those without a sign of life since `before` (steady ms). Raises StoreUnavailable."""
        self.instances.forget(before)
        await self._sharing.forget(before)

    async def forget(self, service: Service) -> None:
        """Drops a removed service whose jobs are gone, unless it was restored. Raises StoreUnavailable."""
        async with self._writing:
            key = (service.tenant, service.name)
            if self._services.get(key) is service:
                await self._table.drop(*key)
                del self._services[key]
                self._sharing.note(*key, anew=False)

    async def announce(self, instance: Instance, timers: TimerDeclaration | None) -> tuple[Instance, bool]:
        """Adds an instance, its service if that is unknown, and its timers if they are a new declaration.

        Returns what is stored, and whether the instance is new. Raises DeclarationsFull, StoreUnavailable,
        StoreUncertain: after these, service and timers may be stored, and the instance is not known yet.
        """
        given = msgspec.structs.replace(instance, declares=b"" if timers is None else timers.digest)
        if self._says_something_new(given):
            await self._sharing.catch_up()
        async with self._writing:
            service = self.find(instance.tenant, instance.service)
            if service is None:
                new = Service(tenant=given.tenant, name=given.service, keeps=self.keeps)
                await self._keep(new, timers)
            elif timers is not None and timers.text is not None and self._is_new(service, given):
                await self._keep(service, timers)
        known = self.instances.get(given.tenant, given.service, given.instance_id)
        in_force = self._services[given.tenant, given.service].digest
        if given.declares and given.declares == in_force and (known is None or known.declares != in_force):
            self.note_anew(given.tenant, given.service)
        if self._says_something_new(given):
            await self._sharing.write(self.instances.prepare(given))
            await self._sharing.flush()
        return self.instances.register(given), known is None

    def _says_something_new(self, given: Instance) -> bool:
        """Whether it is more than a sign of life."""
        known = self.instances.get(given.tenant, given.service, given.instance_id)
        if known is None or self.find(given.tenant, given.service) is None:
            return True
        said = msgspec.structs.replace(self.instances.prepare(given), seen=known.seen, refuses=known.refuses)
        return said != known

    def _is_new(self, service: Service, given: Instance) -> bool:
        known = self.instances.get(given.tenant, given.service, given.instance_id)
        online = self.instances.online(given.tenant, given.service, self._clock.now().steady)
        others = [one for one in online if one.instance_id != given.instance_id]
        return is_new_declaration(service.digest, given.declares, known, others)

    async def _keep(self, given: Service, timers: TimerDeclaration | None) -> tuple[Service, bool]:
        now = self._clock.now().wall
        known = self.find(given.tenant, given.name)
        before = given if known is None else known
        kept = msgspec.structs.replace(
            given,
            digest=before.digest if timers is None or timers.text is None else timers.digest,
            created_at=now if known is None else known.created_at,
            updated_at=before.updated_at,
            removed_at=None,
        )
        is_anew = kept.digest != (b"" if known is None else known.digest)
        if is_anew and timers is not None and timers.text is not None:
            await self._room.check(kept.tenant, kept.name, len(timers.text))
        if is_anew:
            self.note_anew(kept.tenant, kept.name)
        if kept != known:
            kept = msgspec.structs.replace(kept, updated_at=now)
            await self._table.put(kept, None if timers is None else timers.text)
            self._services[kept.tenant, kept.name] = kept
            key = (kept.tenant, kept.name)
            self._sharing.note(*key, anew=key in self._anew)
        return kept, known is None


def is_new_declaration(
    current: bytes, given: bytes, known: Instance | None, others: Sequence[Instance]
) -> bool:
    """Whether an instance that declares `given` changes what its service declares, which is `current`.

    While two versions of a service run side by side, each repeats its own declaration every 30 s. A
    declaration that an instance sends for the first time counts; a repeated one counts only if no other
    instance declares what is in force. So the newer version wins, until its last instance is gone.
    """
    if given == current:
        return False
    if known is None or known.declares != given:
        return True
    return not any(one.declares == current for one in others)


class DeclaredTimers:
    """The declared timers of a service, a JSON array, for as long as somebody has this object."""

    def __init__(self, text: bytes) -> None:
        self.text = text


class TimerTexts:
    """Reads them from the table, unless an answer has them already; one is read at a time."""

    def __init__(self, *, table: ServiceTable) -> None:
        self._table = table
        self._known: WeakValueDictionary[tuple[str, str, bytes], DeclaredTimers] = WeakValueDictionary()
        self._reading = asyncio.Lock()

    async def read(self, service: Service) -> DeclaredTimers:
        """The timers that `service` declares. Raises StoreUnavailable."""
        key = (service.tenant, service.name, service.digest)
        async with self._reading:
            found = self._known.get(key)
            if found is None:
                found = DeclaredTimers(await self._table.timers(service.tenant, service.name))
                self._known[key] = found
            return found


class RegistryDirectory:
    """The base address for a call to a service, which is named with its tenant as jobs are. Raises nothing.

    A name in `services.static` always has the operator's address: a registration cannot divert its calls.
    When no instance takes work, the address that the service declared is used (a gateway, a load balancer).
    `terms` as in `MemoryRouter`.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        static: Mapping[str, str],
        clock: Clock,
        terms: Callable[[str, str], Terms],
    ) -> None:
        self._registry = registry
        self._static = dict(static)
        self._clock = clock
        self._terms = terms

    def address(self, name: str) -> str | None:
        """The `http(s)://host[:port][/base]` of service `name`, or None if there is none."""
        return self._find(name)[0]

    def vouched(self, name: str) -> bool | None:
        """Whether that address may be private, as in `Service`."""
        return self._find(name)[1]

    def _find(self, name: str) -> tuple[str | None, bool | None]:
        tenant, name = read_job_key(name)
        static = self._static.get(name)
        if static is not None:
            return static, True
        now = self._clock.now().steady
        for instance in self._registry.instances.online(tenant, name, now):
            if instance.address and not instance.draining and not instance.refuses:
                return instance.address, instance.vouched
        service = self._registry.find(tenant, name)
        return (None, None) if service is None else (service.address, service.vouched)

    def wait(self, name: str) -> int:
        """How long (ms) a call waits in all for an instance of `name` that takes work; it may fall."""
        terms = self._terms(*read_job_key(name))
        return DAY if terms.awaits_instances else terms.wait

    def signing(self, name: str) -> str:
        """The secret that signs calls of service `name`; empty: none."""
        service = self._registry.find(*read_job_key(name))
        return "" if service is None else service.signing
