"""Puts the room of services together: table, registry, directory, scan and drift."""

from collections.abc import Awaitable, Callable
from typing import TypedDict, Unpack

from scheduler_service.domain.job_key import DEFAULT_TENANT, read_job_key
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.registered_services import Kind
from scheduler_service.hosts.work_thread import work_apart
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.tables.service_table import SqlServiceTable
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.delivery import Compile, Deliver
from scheduler_service.ports.log import Log
from scheduler_service.services.drift_report import DriftReport
from scheduler_service.services.instances import Instances
from scheduler_service.services.lost_instances import Losses
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.queue_watch import QueueWatch
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.services.rate_windows import ClaimRate
from scheduler_service.services.reconcile import ReadJob, Reconcile, ReconcileInputs
from scheduler_service.services.registry import DeclaredRoom, Registry, RegistryDirectory
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.services.routing_policies import RANDOM
from scheduler_service.services.shared_registry_view import SharedView
from scheduler_service.settings import Settings
from scheduler_service.settings.model import ServicesSettings

Read = Callable[[str, int], Awaitable[bytes | None]]
Share = Callable[[Instances], SharedView]


class SharedParts(TypedDict, total=False):
    """What the nodes of a cluster share."""

    queue_watch: QueueWatch
    share: Share
    rates: RateSharing


class ServiceRegistry:
    """The room of one process. Before `attach` there is nobody to deliver to: the host needs the sender, the
    sender the directory. `share` makes the view of a cluster's registry; without it every instance registers
    with this process. `rates` holds rate limits over all nodes; without it
    calls of this process count.
    """

    scan: Reconcile
    drift: DriftReport

    def __init__(
        self,
        *,
        database: HistoryDatabase,
        settings: Settings,
        clock: Timekeeper,
        log: Log,
        queues: PullQueues,
        **shared: Unpack[SharedParts],
    ) -> None:
        share, rates = shared.get("share"), shared.get("rates")
        self.queues, self._queue_watch = queues, shared.get("queue_watch")
        own = settings.services
        self._table = SqlServiceTable(database=database)
        self._clock, self._log = clock, log
        self._fallback: Callable[[str], str | None] = lambda _: None
        instances = self._instances = Instances(offline_after=round(own.offline_seconds * SECOND))
        self._view = None if share is None else share(instances)
        self._room = DeclaredRoom(table=self._table, most=own.declared_bytes)
        self.registry = Registry(
            table=self._table,
            instances=instances,
            clock=clock,
            sharing=self._view,
            room=self._room,
            keeps=settings.defaults.on_change == "keep",
            is_reachable=lambda name: name in self._fixed or self._fallback(name) is not None,
        )
        self._losses = Losses(
            instances=instances,
            clock=clock,
            lost_after=_lost_after(own),
            complete_at=lambda: self.registry.complete_at,
            log=log,
        )
        self._fixed = {name: tuple(bases) for name, bases in own.static.items()}
        self._rates, self._wait = rates, round(own.wait_seconds * SECOND)
        self.router = self._make_router()
        self._bind()
        self.directory = RegistryDirectory(
            registry=self.registry,
            static=_first_of(own),
            clock=clock,
            terms=self._terms,
        )

    def has(self, tenant: str, name: str) -> bool:
        """Whether settings name an address of the service, or it is registered or declared."""
        return name in self._fixed or self.registry.find(tenant, name) is not None

    def _make_router(self) -> MemoryRouter:
        pauses = self.registry.pauses
        return MemoryRouter(
            instances=self._instances,
            terms=self._terms,
            clock=self._clock,
            losses=self._losses,
            others=self._view,
            windows=None if self._rates is None else self._rates.window,
            is_paused=lambda *key: pauses.since(Kind.SERVICE, *key) is not None,
        )

    def _bind(self) -> None:
        self.registry.pauses.subscribe(self._follow_pause)
        if self._rates is not None:
            self._rates.bind(self._go_on)
        if self._view is not None:
            self._view.bind(open_here=self.router.open_calls, on_notices=self.registry.take_notices)

    async def attach(
        self,
        *,
        deliver: Deliver,
        read_job: ReadJob,
        catalogue: Catalogue,
        definition: Read,
        compile_text: Compile,
    ) -> None:
        """Reads the services that are known, and binds the scan to the jobs. Raises StoreUnavailable."""
        await self.registry.load()
        await self._room.report(self._log)
        inputs = ReconcileInputs(
            registry=self.registry,
            apart=work_apart,
            table=self._table,
            entries=catalogue.some,
            definition=definition,
            read_job=read_job,
            compile_text=compile_text,
            clock=self._clock,
        )
        self.scan = Reconcile(
            registry=self.registry, table=self._table, inputs=inputs, deliver=deliver, clock=self._clock
        )
        self.drift = DriftReport(inputs=inputs, apart=work_apart)

    def _go_on(self, key: tuple[str, str]) -> None:
        """A rate limit allows more again: calls of the service, and claims from the queue of its name."""
        self.router.retry(*key)
        self.queues.wake([key])

    def _follow_pause(self, kind: Kind, tenant: str, name: str) -> None:
        if kind is Kind.SERVICE:
            self.router.follow_pause(tenant, name)

    def is_online(self, service: str, instance_id: str) -> bool:
        """Whether this instance is online; `service` names the tenant as the key of a job does."""
        found = self._instances.get(*read_job_key(service), instance_id)
        return found is not None and self._instances.is_online(found, self._clock.now().steady)

    def locate(self, name: str) -> tuple[str | None, int, str, bool | None]:
        """Where a service is, how long (ms) a call waits for an instance of it, what signs the call, and
        whether the address may be private, as in `Service`."""
        own = self.directory
        return own.address(name), own.wait(name), own.signing(name), own.vouched(name)

    async def start_queues(self, deliver: Deliver) -> None:
        """Takes up what an earlier process left in them. Raises StoreError."""
        rate = ClaimRate(rate_of=self.router.rate_of, clock=self._clock)
        await self.queues.start(deliver, self._allowance, rate, self.registry.pauses)
        if self._queue_watch is not None:
            self._queue_watch.start()

    async def tend_queues(self) -> None:
        """One round over the queues of the whole cluster. Raises StoreError."""
        if self._queue_watch is not None:
            await self._queue_watch.tend()

    def start_sharing(self) -> None:
        """Begins to exchange registrations with the other nodes of a cluster."""
        if self._view is not None:
            self._view.start()

    def fall_back_to(self, address_of: Callable[[str], str | None]) -> None:
        """Where no instance takes work and the service names no address, `address_of` its name is asked."""
        self._fallback = address_of

    async def owner_of(self, job_id: str, uid: str) -> str:
        """The service that declares this life of a job; empty: none does. Raises StoreUnavailable."""
        tenant, name = read_job_key(job_id)
        return await self._table.owner(tenant, name, uid) or ""

    def _terms(self, tenant: str, name: str) -> Terms:
        """How a service wants to be called; addresses of the settings are for every tenant."""
        fixed = self._fixed.get(name, ())
        service = self.registry.find(tenant, name)
        if service is None:
            return Terms(fixed=fixed, address=self._stand_in(tenant, name))
        awaits = self.registry.awaits_instances(tenant, name)
        # What has had instances is reached through them: they are waited for, and nothing stands in.
        waits = self._wait > 0 and self._instances.has_had(tenant, name)
        address = service.address or (None if awaits or waits else self._stand_in(tenant, name))
        wait = 0 if fixed or address else self._wait
        route, limit = service.route or RANDOM, service.rate_limit
        vouched = service.vouched if service.address else None
        return Terms(route, service.tags, fixed, address, limit, awaits, wait, service.signing, vouched)

    def _stand_in(self, tenant: str, name: str) -> str | None:
        """What others know by this name, as a sidecar does, are no services of further tenants."""
        return self._fallback(name) if tenant == DEFAULT_TENANT else None

    def _allowance(self, tenant: str, queue: str, instance: str) -> int | None:
        """What an instance says of itself under the name of the queue counts for its claims."""
        return self.registry.instances.allowance(tenant, queue, instance, self._clock.now().steady)

    async def close(self) -> None:
        """Ends the table's thread, and what is on its way out of the queues."""
        self._losses.close()
        if self._rates is not None:
            await self._rates.stop()
        if self._view is not None:
            await self._view.stop()
        if self._queue_watch is not None:
            await self._queue_watch.stop()
        await self.queues.stop()
        await self._table.close()


def _lost_after(settings: ServicesSettings) -> int:
    """In ms: how long an instance is offline before its work is ended; 0: for ever."""
    seconds = settings.lost_after_seconds
    return round((settings.offline_seconds if seconds is None else seconds) * SECOND)


def _first_of(settings: ServicesSettings) -> dict[str, str]:
    """The first address of each service that the settings have."""
    return {name: bases[0] for name, bases in settings.static.items() if bases}
