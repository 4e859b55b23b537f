"""The rooms of one service: each is built when it is first asked for, out of those that it names."""

from collections.abc import Sequence
from functools import cached_property
from secrets import token_hex

import msgspec

from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.app.alert_jobs import made_here
from scheduler_service.app.alerts import Alerts, AlertSurroundings
from scheduler_service.app.builders import (
    common_of_apis,
    holder_of,
    make_cleanup,
    make_embedded_host,
    make_host_parts,
    make_sender,
    open_writer,
    system_functions,
)
from scheduler_service.app.metrics import ShownParts, make_exposition
from scheduler_service.app.node_figures import OwnNode
from scheduler_service.app.readiness import Readiness
from scheduler_service.app.review import Review, basis_of
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.sharding import worker_configs
from scheduler_service.app.store_opening import StoreWatch, data_folder
from scheduler_service.app.surroundings import Compiler
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.cleanup import Cleanup, TrialRounds
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.hosts.processes.parent_service import ParentService
from scheduler_service.hosts.processes.sharding import ShardOf
from scheduler_service.hosts.processes.shards import OwnShard, Processes, Shards, build_processes
from scheduler_service.hosts.processes.worker_processes import WorkerContext, WorkerProcess, WorkerProcesses
from scheduler_service.pacing.room import Room
from scheduler_service.pacing.short_turns import short_turns
from scheduler_service.persistence.contexts.apart_store import WholeStore
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.log import Log
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.settings import Loaded
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.event_ring import LocalEvents
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.telemetry.metrics.own_process import process_age
from scheduler_service.telemetry.trouble import HISTORY, STORE, WorkerStores
from scheduler_service.transport.pool import RESPONSES_BYTES
from scheduler_service.transport.sender import HttpSender


class ContainerBase(msgspec.Struct, frozen=True, kw_only=True):
    """What a service stands on: settings, what is open, its clock."""

    loaded: Loaded
    served: str
    log: Log
    surroundings: Surroundings
    compiler: Compiler
    watch: StoreWatch
    shard_of: ShardOf
    store: WholeStore
    database: HistoryDatabase
    clock: Timekeeper
    telemetry: Telemetry


class Container:
    """One service; `launched` are its worker processes, one for each shard but its own."""

    def __init__(self, *, base: ContainerBase, launched: Sequence[WorkerProcess]) -> None:
        self._base = base
        self._launched = launched
        self.compiler = base.compiler
        self.database = base.database
        self.store = base.store
        self.watch = base.watch
        self.clock = base.clock
        self._began = base.clock.now().wall - process_age()
        self._room = Room(RESPONSES_BYTES)
        self._worker_stores = WorkerStores()
        base.telemetry.occurrences.listen(self._worker_stores.take)
        self.has_started = False
        """Whether the start is over: only then is the service ready."""
        self.is_stopping = False
        """Whether it stops: it says so at once, though what it has begun may need the jobs for a while."""

    async def attach(self) -> None:
        """Binds to the jobs what had to be built before them. Raises StoreUnavailable."""
        await self.services.attach(
            deliver=self.jobs.deliver,
            read_job=self.jobs.read,
            catalogue=self.processes.store.catalogue,
            definition=self.processes.store.definition,
            compile_text=self.compiler.stored,
        )

    @cached_property
    def writer(self) -> HistoryWriter:
        """Writes the history."""
        return open_writer(
            self.store.written,
            self.database,
            self._base.log,
            made_here(self._base.loaded.settings),
            self._base.telemetry.history_watch,
        )

    @cached_property
    def reads(self) -> HistoryReads:
        """Reads it."""
        own = made_here(self._base.loaded.settings)
        return HistoryReads(database=self.database, system_jobs=own, reading=short_turns)

    @cached_property
    def sender(self) -> HttpSender:
        """Sends requests, and runs what system jobs name."""
        base = self._base
        # Later, as with the cleanup: the jobs send requests.
        system = system_functions(self._cleaner, lambda: self.jobs.resend_outbox(), self.services)
        return make_sender(
            base.loaded,
            base.served,
            directory=self.services.directory,
            system=system,
            clock=base.clock,
            log=base.log,
            room=self._room,
        )

    @cached_property
    def host(self) -> EmbeddedHost:
        """Takes the turns of the service's own shard."""
        base = self._base
        parts = make_host_parts(
            base.loaded.settings,
            self.compiler,
            history=self.writer,
            sender=self.sender,
            room=self._room,
            router=self.services.router,
            clock=base.clock,
            log=base.log,
            wake_claimers=self.services.wake_claimers,
            decorators=base.telemetry.decorators,
        )
        return make_embedded_host(parts, self.store, data_folder(base.loaded.settings))

    @cached_property
    def jobs(self) -> OwnShard | Shards:
        """All jobs, whichever process has them."""
        return self.processes.jobs(OwnShard(host=self.host, history=self.writer))

    @cached_property
    def processes(self) -> Processes:
        """The way to the worker processes."""
        return build_processes(
            count=1 + len(self._launched),
            store=self.store,
            shard_of=self._base.shard_of,
            compiler=self.compiler.stored,
        )

    @cached_property
    def workers(self) -> WorkerProcesses:
        """The worker processes."""
        base = self._base
        context = WorkerContext(
            config_for=worker_configs(
                base.loaded, base.surroundings, base.served, self.store.node_id, base.clock
            ),
            new_parent=self._new_parent,
            on_restart=lambda _: self._queues.recover(),
            log=base.log,
            follow_interest=base.telemetry.occurrences.follow_interest,
        )
        return WorkerProcesses(workers=self.processes.workers, launched=self._launched, context=context)

    @cached_property
    def readiness(self) -> Readiness:
        """What the service needs to accept work; without worker processes there is no such part."""
        remotes, name = self.processes.remotes, self._worker_stores.name
        history = self._base.telemetry.history_watch
        workers = {"workers": lambda: [name for remote in remotes for name in remote.missing]}
        return Readiness(
            parts={
                "host": lambda: [] if self.host.is_ready and not self.is_stopping else ["host"],
                **(workers if remotes else {}),
                "store": lambda: [*self.watch.missing, *name(STORE, len(remotes))],
                "start": lambda: [] if self.has_started else ["start"],
                "history": lambda: [*history.lacks(), *name(HISTORY, len(remotes))],
            },
            clock=self._base.clock,
        )

    @cached_property
    def services(self) -> ServiceRegistry:
        """Services, their instances and what they declare."""
        base = self._base
        return ServiceRegistry(
            database=self.database,
            settings=base.loaded.settings.services,
            keeps=base.loaded.settings.defaults.on_change == "keep",
            clock=base.clock,
            tenant=DEFAULT_TENANT,
            log=base.log,
            queues=self._queues,
        )

    @cached_property
    def alerts(self) -> Alerts:
        """Tells of what happens to all jobs and to the service."""
        base = self._base
        parts = AlertSurroundings(
            database=self.database,
            deliver=self.jobs.deliver,
            catalogue=self.processes.store.catalogue,
            read_job=self.jobs.read,
            compiler=self.compiler,
            surroundings=base.surroundings,
            clock=base.clock,
            occurrences=base.telemetry.occurrences,
            is_online=self.services.is_online,
            log=base.log,
        )
        return Alerts(settings=base.loaded.settings, parts=parts)

    @cached_property
    def review(self) -> Review:
        """Brings stored moments to what settings and zones say now."""
        base = self._base
        return Review(
            settings=base.loaded.settings,
            basis=basis_of(base.surroundings, base.loaded.settings),
            catalogue=self.processes.store.catalogue,
            deliver=self.jobs.deliver,
            compiler=self.compiler,
            log=base.log,
        )

    @cached_property
    def operations(self) -> Operations:
        """Work on many things, which runs in the process that takes requests."""
        base, holder = self._base, holder_of(self.store)
        return Operations(store=self.processes.store, clock=base.clock, holder=holder, log=base.log)

    @cached_property
    def trial_rounds(self) -> TrialRounds:
        """Ends trials that are over."""
        return TrialRounds(trials=self._cleaner.trials, clock=self.clock, log=self._base.log)

    @cached_property
    def api_parts(self) -> ApiDependencies:
        """What the API uses."""
        base, jobs = self._base, self.jobs
        return ApiDependencies(
            **common_of_apis(
                base.loaded,
                compiler=self.compiler,
                services=self.services,
                cleaner=self._cleaner,
                readiness=self.readiness,
                review=self.review,
            ),
            deliver=jobs.deliver,
            create_all=jobs.create_all,
            peek=jobs.peek,
            read_job=jobs.read,
            flush=jobs.flush,
            catalogue=self.processes.store.catalogue,
            store=self.processes.store,
            outbox=jobs,
            queues=self.services.queues,
            surroundings=base.surroundings,
            operations=self.operations,
            history=self.reads,
            nodes=self._node.list,
            standstills=base.telemetry.standstills,
            events=self.events,
            metrics=self._exposition,
            alerts=self.alerts,
            clock=base.clock,
            log=base.log,
        )

    @cached_property
    def events(self) -> EventFeed:
        """The event stream."""
        telemetry, store = self._base.telemetry, self.store
        # A store in memory counts its starts from 1 each time: ids of another start must not fit.
        line = token_hex(4) if data_folder(self._base.loaded.settings) is None else str(store.boot)
        return telemetry.feed_events(LocalEvents(occurrences=telemetry.occurrences, line=line))

    @cached_property
    def _queues(self) -> PullQueues:
        return PullQueues(
            table=self.processes.store.queues,
            clock=self._base.clock,
            log=self._base.log,
        )

    @cached_property
    def _cleaner(self) -> Cleanup:
        base = self._base
        store = self.processes.store
        # Later, when it is asked for: the jobs send requests, and what sends those knows the cleanup.
        return make_cleanup(
            base.loaded.settings, store, self.writer, base.clock, lambda *turn: self.jobs.deliver(*turn)
        )

    @cached_property
    def _node(self) -> OwnNode:
        return OwnNode(
            node_id=self.store.node_id,
            address=self._base.served,
            began=self._began,
            kept=("state", "history"),
            host=self.host,
            remotes=self.processes.remotes,
            database=self.database,
            watch=self.watch,
            worker_stores=self._worker_stores,
            telemetry=self._base.telemetry,
            clock=self._base.clock,
        )

    @cached_property
    def _exposition(self) -> Exposition | None:
        base, remotes = self._base, enumerate(self.processes.remotes, start=1)
        parts = ShownParts(
            host=self.host,
            counted={
                "history": self.writer.samples,
                "state": lambda: self.store.samples(is_away=bool(self.watch.missing)),
                "connections": self.sender.samples,
            },
            catalogue=self.store.catalogue,
            deliveries=self.store,
            queues=self.store.queues,
            instances=self.services.registry.instances,
            pauses=self.services.registry.pauses,
            clock=base.clock,
            nodes=self._node.list,
            node=self.store.node_id,
            kind="embedded",
            others={str(number): remote.collect for number, remote in remotes},
        )
        return make_exposition(base.telemetry.metrics, parts)

    def _new_parent(self) -> ParentService:
        services = self.services
        return ParentService(
            router=services.router,
            address_of=services.locate,
            wake_claimers=self._queues.wake,
            publish=self._base.telemetry.occurrences.publish,
        )
