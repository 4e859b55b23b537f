"""What a service and a node of a cluster have alike: their parts, each built when it is first asked for."""

import asyncio
import contextlib
import platform
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from secrets import token_hex
from typing import TYPE_CHECKING, ClassVar

from scheduler_service import __version__
from scheduler_service.api.authentication import Authentication
from scheduler_service.api.dependencies import (
    ApiDependencies,
    DefinitionParts,
    RequestLimits,
    SecurityParts,
    ServiceParts,
    ShownParts,
    UpkeepParts,
)
from scheduler_service.api.query_filters import OUTCOMES
from scheduler_service.app.data_folder import history_address, take_lines
from scheduler_service.app.egress import admit_of, name_check_of
from scheduler_service.app.metrics import make_exposition
from scheduler_service.app.process_parts import ProcessParts
from scheduler_service.app.process_setup import machine_user
from scheduler_service.app.service_registry import ServiceRegistry, SharedParts
from scheduler_service.app.store_opening import data_folder
from scheduler_service.app.tenant_limits import HISTORY, limits_of, read_limit
from scheduler_service.domain.audit_acts import ActKind, ActOutcome, AuditEntry, OwnAct, act_of_system
from scheduler_service.domain.effects import QueueWrite
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.moments import DAY, rfc3339
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Program
from scheduler_service.hosts.cleanup import Cleanup, TrialRounds, Trials
from scheduler_service.hosts.host import Host, HostStatus
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.hosts.processes.shards import Jobs, Shards
from scheduler_service.hosts.tenant_job_limits import LimitedJobs
from scheduler_service.persistence.history.history_reads import HistoryReads
from scheduler_service.persistence.history.retention import Retention
from scheduler_service.persistence.sql.database import Database
from scheduler_service.persistence.tables.audit_lines import SqlAudit
from scheduler_service.persistence.tables.key_secret_calendar_tables import SqlKeyTable
from scheduler_service.ports.catalogue import JOBS, WAITS, Catalogue
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.queues import Queues
from scheduler_service.ports.services import Router
from scheduler_service.ports.state import JobStore
from scheduler_service.security.callers import Role
from scheduler_service.security.history_masking import MASKED_HEADERS
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.security.name_masks import Concealment, DefinitionMasking
from scheduler_service.security.trusted_proxies import Proxies
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.shared_calendars import CalendarUsers
from scheduler_service.settings import Settings
from scheduler_service.system_jobs import alert_jobs
from scheduler_service.system_jobs.alert_jobs import made_here
from scheduler_service.system_jobs.calendar_rounds import CalendarRounds
from scheduler_service.system_jobs.process_alerts import ClusterSight, ProcessAlerts
from scheduler_service.system_jobs.startup_review import Review, basis_of, first_problem
from scheduler_service.system_jobs.system_job_definitions import (
    CHECK_TIMERS,
    CLEAN,
    OUTBOX,
    as_function,
    install,
)
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.log_summaries import Outage
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.telemetry.metrics.metric_list import Ask, Source
from scheduler_service.telemetry.readiness import Readiness
from scheduler_service.transport.sender import SystemFunction

if TYPE_CHECKING:
    from fastapi import FastAPI


class RunningService(ProcessParts):
    """A service that is open; it fires nothing before `start`.

    What is abstract is of the placement: one machine (`app.local_service`) or a cluster (`app.node_service`).
    """

    kind: ClassVar[str]
    """In the metrics: `embedded` or `dapr`."""
    node_id: str
    holder: Holder
    is_stopping = False
    """It says so at once, though what it has begun may need the jobs for a while."""

    @property
    def catalogue(self) -> Catalogue:
        """Lists all jobs."""
        return self.service_store.catalogue

    @property
    @abstractmethod
    def jobs(self) -> Host | Shards:
        """All jobs, whichever process has them."""

    @property
    @abstractmethod
    def service_store(self) -> JobStore:
        """Where all jobs lie, as requests use it."""

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

    @abstractmethod
    async def list_nodes(self) -> Sequence[Mapping[str, object]]:
        """`GET /nodes`."""

    @abstractmethod
    async def start(self) -> None:
        """Begins to take firings. Raises StoreError, SettingsError."""

    async def resumed(self) -> None:
        """Returns when what was in flight has been sent again, or is not waited for."""

    def processes(self) -> Iterable[int]:
        """The ids of its worker processes; any thread may ask."""
        return ()

    def flush_log(self) -> None:
        """Writes the lines that the API still sums up, after its last answer."""
        if "api_parts" in vars(self):
            self.api_parts.shown.store_faults.flush()

    async def attach(self) -> None:
        """Binds to the jobs what had to be built before them. Raises StoreUnavailable."""
        await self.key_ring.load()
        self.key_ring.start()  # callers may come long before the service takes turns
        await self.open_shared()
        await self.services.attach(
            deliver=self.limited_jobs.deliver,
            read_job=self.jobs.read,
            catalogue=self.catalogue,
            definition=self.service_store.definition,
            compile_text=self.compiler.stored,
        )

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything (SPEC section 14)."""
        self.is_stopping = True
        self.log("draining", graceMs=grace, running=self.host.running)
        self.queues.stop_claims()
        began = self.clock.now().steady
        # What needs the jobs ends before they do.
        ending = self.alerts.stop(), self.review.stop(), self.calendar_rounds.stop()
        await asyncio.gather(*ending, self.operations.stop(grace))
        left = max(grace - (self.clock.now().steady - began), 0)
        await asyncio.gather(self._stop_jobs(left), self.trial_rounds.stop())
        await self.telemetry.end_events()
        await self._leave()
        await self.sender.close()
        await self.key_ring.stop()
        await self.key_table.close()
        await self.close_shared()
        await self.reads.close()
        await self.audit.close()
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
        await self._install(partial(install, self.host, self.compiler.stored, self.settings, noted))
        await self.review.start(noted)
        self.calendar_rounds.start()
        await self.alerts.start()
        self.trial_rounds.start()
        await self._note_start()

    async def _install(self, install_jobs: Callable[[], Awaitable[None]]) -> None:
        """Creates the system jobs. Raises StoreError: no service starts over a store it cannot write."""
        await install_jobs()

    @abstractmethod
    async def _stop_jobs(self, grace: int) -> None:
        """Ends turns and effects within `grace` ms."""

    async def _leave(self) -> None:
        """Ends what others see of it, before what it is made of is closed."""

    async def _close(self) -> None:
        """Closes what the placement has open, after all else."""

    @cached_property
    def api(self) -> "FastAPI":
        """Its ASGI application; what that is made of is loaded when it is first asked for."""
        from scheduler_service.api.application import create_api
        from scheduler_service.console.site import console_mounts

        return create_api(self.api_parts, mounts=console_mounts())

    @cached_property
    def limited_jobs(self) -> Jobs:
        """All jobs, for callers and declarations: as many as the limits of their tenant allow."""
        limits = {name: read_limit(self.settings, name) for name in (JOBS, WAITS)}
        if not any(limit.is_set for limit in limits.values()):
            return self.jobs
        return LimitedJobs(
            self.jobs,
            catalogue=self.catalogue,
            recall=self.service_store.recall,
            clock=self.clock,
            limit_of=lambda name, tenant: limits[name].of(tenant),
            tell=self.limits_reached.note,
        )

    @cached_property
    def key_ring(self) -> KeyRing:
        """The keys of callers."""
        outage = Outage("keys_not_read", "keys_read_again", log=self.log)
        return KeyRing(table=self.key_table, clock=self.clock, on_trouble=outage.note)

    @cached_property
    def key_table(self) -> SqlKeyTable:
        """Where they lie."""
        return SqlKeyTable(database=self.database)

    @cached_property
    def reads(self) -> HistoryReads:
        """Reads it."""
        return HistoryReads(database=self.database, system_jobs=made_here(self.settings))

    @cached_property
    def audit(self) -> SqlAudit:
        """Who changed what."""
        return SqlAudit(database=self.database)

    async def _note_start(self) -> None:
        """A line of the audit; a history that cannot be written keeps no service from its start."""
        began = AuditEntry(
            entry_id=token_hex(),
            tenant=DEFAULT_TENANT,
            at=self.clock.now().wall,
            act=act_of_system(OwnAct.START, version=__version__),
            kind=ActKind.NODE,
            subject=self.node_id,
            outcome=ActOutcome.DONE,
        )
        with contextlib.suppress(StoreError, OSError):
            await take_lines(history_address(self.settings, data_folder(self.settings)), self.audit.put)
            await self.audit.put(began)

    @cached_property
    def cleaner(self) -> Cleanup:
        """Removes history, destroyed jobs and trials."""
        history, store, clock = self.settings.history, self.service_store, self.clock
        kept = read_limit(self.settings, HISTORY)
        retention = Retention(
            writer=self.writer,
            count=history.retain_count,
            age=round(history.retain_days * DAY),
            ages={OUTCOMES[name]: round(days * DAY) for name, days in history.retain_days_by_outcome.items()},
            max_bytes=history.max_bytes,
            statistics_days=history.statistics_days,
            audit_age=round(self.settings.audit.retain_days * DAY),
            most_of=kept.of if kept.is_set else None,
            system_jobs=made_here(self.settings),
        )
        # Later, when it is asked for: the jobs send requests, and what sends those knows the cleanup.
        trials = Trials(store=store, deliver=lambda *turn: self.jobs.deliver(*turn), clock=clock)
        return Cleanup(store=store, retention=retention, trials=trials, clock=clock)

    @cached_property
    def system(self) -> Mapping[str, SystemFunction]:
        """What `system://NAME` does (SPEC section 11)."""

        async def resend() -> dict[str, int]:
            return {"tried": await self.jobs.resend_outbox()}

        return {
            CHECK_TIMERS: as_function(lambda: self.services.scan()),
            CLEAN: as_function(self.cleaner.sweep),
            OUTBOX: as_function(resend),
            alert_jobs.SEND: alert_jobs.accept,
        }

    @cached_property
    def services(self) -> ServiceRegistry:
        """Services, their instances and what they declare."""
        return ServiceRegistry(
            database=self.database,
            settings=self.settings,
            clock=self.clock,
            log=self.log,
            queues=self.queues,
            **self._shared_services(),
        )

    def _shared_services(self) -> SharedParts:
        """What the nodes of a cluster share, by the parameters of `ServiceRegistry`."""
        return {}

    @cached_property
    def queues(self) -> PullQueues:
        """The pull queues."""
        return PullQueues(table=self.queue_table, clock=self.clock, log=self.log)

    @property
    @abstractmethod
    def queue_table(self) -> Queues:
        """Where their parts lie."""

    @property
    def router(self) -> Router:
        """Finds instances of services."""
        return self.services.router

    def wake_claimers(self, write: QueueWrite) -> None:
        """A turn has written into pull queues."""
        self.queues.wake_for(write)

    @cached_property
    def review(self) -> Review:
        """Brings stored moments to what settings and zones say now."""
        return Review(
            settings=self.settings,
            basis=lambda: basis_of(
                self.surroundings, self.settings, self.calendars.names(), self._read_named()
            ),
            catalogue=self.catalogue,
            deliver=self.jobs.deliver,
            compile_text=self.compiler.stored,
            log=self.log,
            find_problem=self._find_problem,
            read_named=self._read_named,
        )

    def _find_problem(self, program: Program) -> Problem | None:
        """Why jobs of it cannot run now. In a cluster the sidecar may find other services."""
        return first_problem(program, None if self.surroundings.topics else self.services.has)

    def _read_named(self) -> object:
        """The names that jobs may name: of the secrets and services of all tenants."""
        settings, services = self.settings, self.services.registry.all()
        given = settings.tenants, settings.env, settings.secrets, settings.signing.secrets
        tenants = sorted({DEFAULT_TENANT, *(one.tenant for one in services)}.union(*given))
        secrets = [(one, sorted(known.name for known in self.secrets.list(one))) for one in tenants]
        signing = [(one, sorted(names)) for one, names in settings.signing.secrets.items()]
        return secrets, signing, sorted((one.tenant, one.name) for one in services)

    @cached_property
    def calendar_rounds(self) -> CalendarRounds:
        """Plans the jobs of a changed calendar anew."""
        return CalendarRounds(
            calendars=self.calendars,
            users=CalendarUsers(catalogue=self.catalogue),
            deliver=self.jobs.deliver,
            clock=self.clock,
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

    def _seen_of_cluster(self) -> ClusterSight:
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
        limits, services = self.settings.limits, self.services
        return ApiDependencies(
            jobs=self.limited_jobs,
            catalogue=self.catalogue,
            store=self.service_store,
            history=self.reads,
            clock=self.clock,
            definitions=DefinitionParts(
                compiler=self.compiler,
                check_names=name_check_of(self.loaded),
                find_unfit=self.review.unfit.find,
                list_unfit=self.review.list_unfit,
                find_problem=self._find_problem,
                calendars=self.calendars,
                tell_calendar=self.calendar_rounds.tell,
            ),
            services=ServiceParts(
                registry=services.registry,
                reconcile=services.scan,
                drift=services.drift,
                queues=services.queues,
                heartbeat_seconds=self.settings.services.heartbeat_seconds,
                admit=admit_of(self.loaded, is_node=self.surroundings.topics),
            ),
            security=self._security_parts(),
            upkeep=UpkeepParts(
                operations=self.operations,
                trials=self.cleaner.trials,
                clean=self.cleaner,
            ),
            shown=self._shown_parts(),
            limits=RequestLimits(body_bytes=limits.body_bytes, feedback_bytes=limits.feedback_bytes),
        )

    def _security_parts(self) -> SecurityParts:
        server, mask = self.settings.server, self.settings.history.mask
        return SecurityParts(
            authentication=Authentication(
                admin_key=server.key,
                tenant=DEFAULT_TENANT,
                user=machine_user(),
                now=self.clock.now,
                own_url=server.external_url,
                ring=self.key_ring,
                proxies=proxies_of(self.settings),
            ),
            audit=self.audit,
            masking=DefinitionMasking(conceal=Concealment(headers=MASKED_HEADERS | set(mask), members=mask)),
            secrets=self.secrets,
            secret_masks=self.secret_masks,
            secret_vault=self.secret_vault,
        )

    def _shown_parts(self) -> ShownParts:
        return ShownParts(
            version=__version__,
            log=self.log,
            ready=self.readiness.list_missing,
            parts=self.readiness.describe,
            standstills=self.telemetry.standstills,
            settings=self.loaded.describe,
            nodes=self.list_nodes,
            tenant_limits=partial(limits_of, self.settings),
            alerts=self.alerts,
            events=self.events,
            metrics=self._exposition,
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


def proxies_of(settings: Settings) -> Proxies:
    """The proxies that are believed."""
    server = settings.server
    return Proxies(
        server.trusted_proxies,
        user_header=server.trusted_user_header,
        role=Role(server.trusted_user_role),
        tenant=server.trusted_user_tenant,
    )


def process_wire(
    shard: int, status: HostStatus, state: str, missing: Sequence[str] = ()
) -> Mapping[str, object]:
    """A process of a node; `missing` is what it cannot write.

    One that does not answer, or starts, has neither id nor moment.
    """
    return {
        "shard": shard,
        "pid": status.pid or None,
        "state": state,
        "startedAt": rfc3339(status.started_at) if status.pid else None,
        "jobsHeld": status.held,
        "running": status.running,
        "loopHeldMs": status.loop_held,
        "missing": list(missing),
    }


def versions_of(databases: Sequence[Database], further: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The versions of this program, of Python and of the databases that have been used, by name."""
    found = {"punctual": __version__, "python": platform.python_version()}
    for database in databases:
        name, version = database.version
        found[name] = version
    return found | dict(further or {})
