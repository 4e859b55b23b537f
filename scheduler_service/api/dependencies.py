"""What the API uses of the rest of the service, and no more than it uses of each part."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from client_sdk.models import JobDefinition
from scheduler_service.api.authentication import Authentication
from scheduler_service.api.request_keys import FeedbackKeys, IdempotencyKeys
from scheduler_service.api.request_room import ROOM_BYTES, LargeAnswers, WaitingLine, waiting_room
from scheduler_service.domain.errors import Problem
from scheduler_service.engine.compile import Compiled
from scheduler_service.engine.compile_cache import CompileCache
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.hosts.cleanup import Cleanup, Trials
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.hosts.processes.shards import Jobs
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.persistence.history.history_reads import HistoryReads
from scheduler_service.ports.alerts import AlertLine
from scheduler_service.ports.audit import AuditLog
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_tables import StoredCalendar
from scheduler_service.ports.state import RequestStore
from scheduler_service.security.name_masks import DefinitionMasking
from scheduler_service.security.secret_vault import SecretVault
from scheduler_service.security.secrets import SecretMasks, SecretSources
from scheduler_service.services.drift_report import DriftReport
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.reconcile import Reconcile
from scheduler_service.services.registry import Registry
from scheduler_service.services.shared_calendars import Calendars
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.log_summaries import Tally
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.telemetry.readiness import Standstills

CheckNames = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Looks up host names, and judges their addresses by the egress policy.

Returns those that are refused today, with the reason; answers within a moment, and never raises.
"""


class AlertReader(Protocol):
    """The alerts that the settings have, and what of them is open."""

    @property
    def configured(self) -> Sequence[Mapping[str, object]]:
        """Those of the settings, in wire form, without secrets."""

    async def open(self, *, is_own: bool) -> tuple[Sequence[AlertLine], int]:
        """Some of those that last, and how many do; `is_own`: of no tenant other than `default`.

        Raises StoreUnavailable.
        """


class Compiler(Protocol):
    """Compiles the definitions of all tenants."""

    compile_cache: CompileCache

    def around(self, tenant: str) -> Surroundings:
        """What a definition of this tenant is compiled with."""

    def posted(self, definition: JobDefinition, tenant: str) -> Compiled:
        """One on its way in. Raises DefinitionError with all errors."""

    async def stored(self, text: bytes, tenant: str) -> Program:
        """One that is stored: it is never refused."""

    def options(self, tenant: str) -> Mapping[str, object]:
        """The defaults of a tenant's jobs by wire name, where they differ from SPEC section 2."""


@dataclass(frozen=True, kw_only=True)
class DefinitionParts:
    """How definitions are judged.

    - `check_names`: None: names are not looked up before a request is made.
    - `find_unfit`: why a job cannot run as it stands; `list_unfit`: all these jobs; `find_problem`: why one
      with this definition cannot now.
    - `calendars`: those of all tenants. `tell_calendar`: begins to plan the jobs of a changed one anew.
    """

    compiler: Compiler
    calendars: Calendars
    check_names: CheckNames | None = None
    find_unfit: Callable[[CatalogueEntry], Problem | None] = lambda _: None
    list_unfit: Callable[[], Awaitable[Sequence[tuple[str, Problem]]]] | None = None
    find_problem: Callable[[Program], Problem | None] = lambda _: None
    tell_calendar: Callable[[StoredCalendar], None] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class ServiceParts:
    """The registered services, with what they declare and their queues.

    - `heartbeat_seconds`: the interval that instances use for their heartbeats.
    - `admit`: checks the address of a service or instance, and whether its caller vouches for it; raises
      TransportError. None: it is not checked.
    """

    registry: Registry
    reconcile: Reconcile
    drift: DriftReport
    queues: PullQueues
    heartbeat_seconds: float = 3
    admit: Callable[[str, bool], Awaitable[None]] | None = None


@dataclass(frozen=True, kw_only=True)
class SecurityParts:
    """Who calls, what is written down of it, and what is hidden.

    - `audit`: the lines of changes. `masking`: what they, and those who may not edit, see of definitions.
    - `secrets`: what claimed requests are completed with. `secret_masks`: hides them in what callers report.
    - `secret_vault`: where they are stored; None: no key is set for it.
    """

    authentication: Authentication
    audit: AuditLog
    masking: DefinitionMasking
    secrets: SecretSources = field(default_factory=lambda: SecretSources(()))
    secret_masks: SecretMasks = field(default_factory=lambda: SecretMasks(sources=(), environments={}))
    secret_vault: SecretVault | None = None


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """How long bodies may be, in bytes, and what of requests waits in line.

    - `flush_seconds`: the longest wait of a read for records that are not written yet.
    """

    body_bytes: int = 1 << 20
    feedback_bytes: int = 1 << 16
    array_bytes: int = 4 << 20
    body_room: Room = field(default_factory=lambda: waiting_room(ROOM_BYTES))
    large_answers: Mapping[WaitingLine, LargeAnswers] = field(
        default_factory=lambda: {line: LargeAnswers() for line in WaitingLine}
    )
    flush_seconds: float = 2


@dataclass(frozen=True, kw_only=True)
class ShownParts:
    """What the service shows of itself.

    - `ready`: the names of what is not ready yet; empty when all is. `parts`: each part with its state.
    - `standstills`: for how long the loop was held lately.
    - `settings`: the answer of `GET /settings`, without secrets. `nodes`: the scheduler processes.
    - `tenant_limits`: by name those that a tenant has. `events`, `metrics`: None: there are none.
    - `log`: also gets the warnings about declared jobs, which nobody may read in the answer.
    """

    version: str
    log: Log
    ready: Callable[[], Awaitable[Sequence[str]]]
    settings: Callable[[], Mapping[str, Any]]
    nodes: Callable[[], Awaitable[Sequence[Mapping[str, object]]]]
    alerts: AlertReader
    parts: Callable[[], Sequence[Mapping[str, object]]] = tuple
    standstills: Standstills = field(default_factory=Standstills)
    tenant_limits: Callable[[str], Mapping[str, int]] = lambda _: {}
    events: EventFeed | None = None
    metrics: Exposition | None = None

    @cached_property
    def store_faults(self) -> Tally:
        """The requests that the store failed, in the log, with what it said: that may name files."""
        return Tally("store_failed", log=self.log)


@dataclass(frozen=True, kw_only=True)
class UpkeepParts:
    """What is done with many things."""

    operations: Operations
    trials: Trials
    clean: Cleanup


@dataclass(frozen=True, kw_only=True)
class ApiDependencies:
    """Everything that the API uses."""

    jobs: Jobs
    catalogue: Catalogue
    store: RequestStore
    history: HistoryReads
    clock: Clock
    definitions: DefinitionParts
    services: ServiceParts
    security: SecurityParts
    upkeep: UpkeepParts
    shown: ShownParts
    limits: RequestLimits = field(default_factory=RequestLimits)

    @cached_property
    def idempotency(self) -> IdempotencyKeys:
        """The keys of requests that are in progress."""
        return IdempotencyKeys(self.store)

    @cached_property
    def feedback_keys(self) -> FeedbackKeys:
        """The keys of jobs that were reported on lately."""
        return FeedbackKeys(self.jobs, self.catalogue)
