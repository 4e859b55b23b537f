"""What a service and a node of a cluster have alike: their parts, each built when it is first asked for."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from scheduler_service import __version__
from scheduler_service.api.dependencies import ApiDependencies
from scheduler_service.app.builders import (
    admit_of,
    machine_user,
    make_cleanup,
    make_host_parts,
    name_check_of,
    open_writer,
    system_functions,
)
from scheduler_service.app.metrics import make_exposition
from scheduler_service.app.node_figures import describe_parts
from scheduler_service.app.readiness import Readiness
from scheduler_service.app.service_registry import ServiceRegistry
from scheduler_service.app.surroundings import DefinitionCompiler
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.cleanup import Cleanup, TrialRounds
from scheduler_service.hosts.host import Host
from scheduler_service.hosts.host_parts import HostParts
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.hosts.processes.shards import Shards
from scheduler_service.pacing.interpreter import short_turns
from scheduler_service.pacing.room import Room
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.reads import HistoryReads
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.ports.catalogue import Catalogue
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.sending import CallingSender
from scheduler_service.ports.state import JobStore, RequestStore, StateStore
from scheduler_service.settings import LoadedSettings
from scheduler_service.system_jobs.alert_jobs import made_here
from scheduler_service.system_jobs.alerts import ProcessAlerts
from scheduler_service.system_jobs.own_jobs import install, patiently
from scheduler_service.system_jobs.review import Review, basis_of
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.telemetry.metrics.samples import Ask, Source
from scheduler_service.transport.pool import RESPONSES_BYTES
from scheduler_service.transport.sender import SystemFunction

if TYPE_CHECKING:
    from fastapi import FastAPI


class ServiceBase(msgspec.Struct, frozen=True, kw_only=True):
    """What a service stands on: settings, its log, the history, its clock."""

    loaded: LoadedSettings
    served: str
    surroundings: Surroundings
    compiler: DefinitionCompiler
    database: HistoryDatabase
    clock: Timekeeper
    telemetry: Telemetry


class RunningService(ABC):
    """A service that is open; it fires nothing before `start`. What its process shows is `telemetry`.

    What is abstract is of the placement: one machine (`app.service`), or a cluster (`app.node`).
    """

    kind: ClassVar[str]
    """In the metrics: `embedded` or `dapr`."""
    node_id: str
    holder: Holder

    def __init__(self, base: ServiceBase) -> None:
        base.telemetry.follow(base.clock)
        self.loaded, self.settings, self.served = base.loaded, base.loaded.settings, base.served
        self.surroundings, self.compiler = base.surroundings, base.compiler
        self.database, self.clock = base.database, base.clock
        self.telemetry, self.log = base.telemetry, base.telemetry.log
        self.answer_room = Room(RESPONSES_BYTES)
        self.is_stopping = False
        """It says so at once, though what it has begun may need the jobs for a while."""

    @property
    def catalogue(self) -> Catalogue:
        """Lists all jobs."""
        return self.kept_jobs.catalogue

    @property
    @abstractmethod
    def host(self) -> Host:
        """Takes the turns of this process."""

    @property
    @abstractmethod
    def jobs(self) -> Host | Shards:
        """All jobs, whichever process has them."""

    @property
    @abstractmethod
    def store(self) -> StateStore:
        """That of the jobs that this process has."""

    @property
    @abstractmethod
    def service_store(self) -> RequestStore:
        """As requests use it."""

    @property
    @abstractmethod
    def kept_jobs(self) -> JobStore:
        """Where all jobs lie, and are forgotten."""

    @property
    @abstractmethod
    def services(self) -> ServiceRegistry:
        """Services, their instances and what they declare."""

    @property
    @abstractmethod
    def sender(self) -> CallingSender:
        """Sends requests, and runs what system jobs name."""

    @property
    @abstractmethod
    def readiness(self) -> Readiness:
        """What it needs to accept work."""

    @property
    @abstractmethod
    def events(self) -> EventFeed:
        """The event stream."""

    @property
    @abstractmethod
    def counted(self) -> Mapping[str, Source]:
        """Parts with figures of their own: history, state, connections."""

    @property
    @abstractmethod
    def commits_waiting(self) -> int:
        """How many commits wait for the store."""

    @abstractmethod
    async def list_nodes(self) -> Sequence[Mapping[str, object]]:
        """`GET /nodes`."""

    @abstractmethod
    async def start(self) -> None:
        """Begins to take firings. Raises StoreError, SettingsError."""

    async def resumed(self) -> None:  # noqa: B027 - most have nothing to do
        """Returns when what was in flight has been sent again, or is not waited for."""

    def processes(self) -> Iterable[int]:
        """The ids of its worker processes; any thread may ask."""
        return ()

    def describe(self) -> Mapping[str, Mapping[str, object]]:
        """The figures of each part, by number and name."""
        return describe_parts(self.host, self.sender, self.writer, commits_waiting=self.commits_waiting)

    def flush_log(self) -> None:
        """Writes the lines that the API still sums up, after its last answer."""
        if "api_parts" in vars(self):
            self.api_parts.store_faults.flush()

    async def attach(self) -> None:
        """Binds to the jobs what had to be built before them. Raises StoreUnavailable."""
        await self.services.attach(
            deliver=self.jobs.deliver,
            read_job=self.jobs.read,
            catalogue=self.catalogue,
            definition=self.service_store.definition,
            compile_text=self.compiler.stored,
        )

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything (SPEC section 14)."""
        self.is_stopping = True
        self.log("draining", graceMs=grace, running=self.host.running)
        self.services.stop_claims()
        began = self.clock.now().steady
        # What needs the jobs ends before they do.
        await asyncio.gather(self.alerts.stop(), self.review.stop(), self.operations.stop(grace))
        left = max(grace - (self.clock.now().steady - began), 0)
        await asyncio.gather(self._stop_jobs(left), self.trial_rounds.stop())
        await self.telemetry.end_events()
        await self._leave()
        await self.sender.close()
        await self.reads.close()
        await self.services.close()
        self.database.close()
        await self._close()
        self.readiness.stop()
        self.log("stopped")
        self.telemetry.close()

    async def _begin(self) -> None:
        """What follows when the host takes turns."""
        await self.services.start_queues(self.jobs.deliver)
        noted = await self.review.read_noted()
        work = partial(install, self.host, self.compiler.stored, self.settings, noted)
        await patiently(work, clock=self.clock, log=self.log)
        await self.review.start(noted)
        await self.alerts.start()
        self.trial_rounds.start()

    @abstractmethod
    async def _stop_jobs(self, grace: int) -> None:
        """Ends turns and effects within `grace` ms."""

    async def _leave(self) -> None:  # noqa: B027 - most have nothing to do
        """Ends what others see of it, before what it is made of is closed."""

    async def _close(self) -> None:  # noqa: B027 - most have nothing to do
        """Closes what the placement has open, after all else."""

    @cached_property
    def api(self) -> "FastAPI":
        """Its ASGI application; what that is made of is loaded when it is first asked for."""
        from scheduler_service.api.application import create_api
        from scheduler_service.console.application import console_mounts

        return create_api(self.api_parts, mounts=console_mounts())

    @cached_property
    def writer(self) -> HistoryWriter:
        """Writes the history."""
        own, watch = made_here(self.settings), self.telemetry.history_watch
        # Later: a host is built on the history, and may have the store.
        return open_writer(lambda keys: self.store.written(keys), self.database, self.log, own, watch)

    @cached_property
    def reads(self) -> HistoryReads:
        """Reads it."""
        return HistoryReads(database=self.database, system_jobs=made_here(self.settings), reading=short_turns)

    @cached_property
    def cleaner(self) -> Cleanup:
        """Removes history, destroyed jobs and trials."""
        # Later, when it is asked for: the jobs send requests, and what sends those knows the cleanup.
        return make_cleanup(
            self.settings, self.kept_jobs, self.writer, self.clock, lambda *turn: self.jobs.deliver(*turn)
        )

    @cached_property
    def system(self) -> Mapping[str, SystemFunction]:
        """What system jobs name."""
        return system_functions(self.cleaner, lambda: self.jobs.resend_outbox(), self.services)

    @cached_property
    def host_parts(self) -> HostParts:
        """What every host is made of."""
        return make_host_parts(
            self.settings,
            self.compiler,
            history=self.writer,
            sender=self.sender,
            room=self.answer_room,
            router=self.services.router,
            clock=self.clock,
            log=self.log,
            wake_claimers=self.services.wake_claimers,
            decorators=self.telemetry.decorators,
        )

    @cached_property
    def review(self) -> Review:
        """Brings stored moments to what settings and zones say now."""
        return Review(
            settings=self.settings,
            basis=basis_of(self.surroundings, self.settings),
            catalogue=self.catalogue,
            deliver=self.jobs.deliver,
            compile_text=self.compiler.stored,
            log=self.log,
        )

    @cached_property
    def alerts(self) -> ProcessAlerts:
        """Tells of what happens to all jobs and to the service."""
        return ProcessAlerts(
            settings=self.settings,
            surroundings=self.surroundings,
            database=self.database,
            deliver=self.jobs.deliver,
            catalogue=self.catalogue,
            read_job=self.jobs.read,
            compile_text=self.compiler.stored,
            clock=self.clock,
            occurrences=self.telemetry.occurrences,
            is_online=self.services.is_online,
            log=self.log,
            **self._seen_of_cluster(),
        )

    def _seen_of_cluster(self) -> Mapping[str, Any]:
        """What alerts know of other nodes, by the parameters of `ProcessAlerts`."""
        return {}

    @cached_property
    def operations(self) -> Operations:
        """Work on many things, which runs in the process that takes requests."""
        return Operations(store=self.service_store, clock=self.clock, holder=self.holder, log=self.log)

    @cached_property
    def trial_rounds(self) -> TrialRounds:
        """Ends trials that are over."""
        return TrialRounds(trials=self.cleaner.trials, clock=self.clock, log=self.log)

    @cached_property
    def api_parts(self) -> ApiDependencies:
        """What the API uses."""
        settings, compiler, services = self.settings, self.compiler, self.services
        return ApiDependencies(
            jobs=self.jobs,
            compile_definition=compiler.posted,
            compile_stored=compiler.stored,
            compile_cache=compiler.compile_cache,
            options=compiler.options,
            surroundings=self.surroundings,
            catalogue=self.catalogue,
            store=self.service_store,
            operations=self.operations,
            clean=self.cleaner,
            trials=self.cleaner.trials,
            history=self.reads,
            registry=services.registry,
            reconcile=services.scan,
            drift=services.drift,
            queues=services.queues,
            ready=self.readiness.list_missing,
            parts=self.readiness.describe,
            find_unfit=self.review.unfit.find,
            list_unfit=self.review.unfit.list,
            nodes=self.list_nodes,
            standstills=self.telemetry.standstills,
            events=self.events,
            alerts=self.alerts,
            metrics=self._exposition,
            clock=self.clock,
            log=self.log,
            version=__version__,
            settings=self.loaded.describe,
            admit=admit_of(self.loaded),
            check_names=name_check_of(self.loaded),
            admin_key=settings.server.key,
            own_url=settings.server.external_url,
            user=machine_user(),
            heartbeat_seconds=settings.services.heartbeat_seconds,
            body_bytes=settings.limits.body_bytes,
            feedback_bytes=settings.limits.feedback_bytes,
        )

    @property
    def _exposition(self) -> Exposition | None:
        return make_exposition(
            self.telemetry.metrics,
            host=self.host,
            counted=self.counted,
            catalogue=self.catalogue,
            deliveries=self.store,
            queues=self.services.queues,
            instances=self.services.registry.instances,
            pauses=self.services.registry.pauses,
            clock=self.clock,
            nodes=self.list_nodes,
            node=self.node_id,
            kind=self.kind,
            others=self._other_figures(),
        )

    def _other_figures(self) -> Mapping[str, Ask]:
        """Those of worker processes by their numbers."""
        return {}
