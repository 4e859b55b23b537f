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
from scheduler_service.hosts.processes.shards import Shard
from scheduler_service.pacing.room import Room
from scheduler_service.persistence.history.history_reads import HistoryReads
from scheduler_service.ports.alerts import AlertLine
from scheduler_service.ports.audit import AuditLog
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.history import Batch
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_tables import StoredCalendar
from scheduler_service.ports.state import RequestStore
from scheduler_service.security.concealment import MaskedChanges
from scheduler_service.security.key_ring import KeyRing
from scheduler_service.security.proxies import Proxies
from scheduler_service.security.secret_masks import SecretMasks
from scheduler_service.security.secret_vault import SecretVault
from scheduler_service.security.secrets import SecretSources
from scheduler_service.services.drift import DriftReport
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.reconcile import Reconcile
from scheduler_service.services.registry import Registry
from scheduler_service.services.shared_calendars import Calendars
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.telemetry.readiness import Standstills
from scheduler_service.telemetry.tally import Tally

CheckNames = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Looks up host names, and judges their addresses by the egress policy.

Returns those that are refused today, with the reason; answers within a moment, and never raises.
"""


class AlertReader(Protocol):
    """The alerts that the settings have, and what of them is open."""

    @property
    def configured(self) -> Sequence[Mapping[str, object]]:
        """Those of the settings, in wire form, without secrets."""

    async def open(self) -> tuple[Sequence[AlertLine], int]:
        """Some of those that last, and how many do. Raises StoreUnavailable."""


@dataclass(frozen=True, kw_only=True)
class ApiDependencies:
    """Everything that the API uses.

    - `compile_definition`: raises DefinitionError with all errors. `compile_stored`: never refuses.
    - `surroundings_of`: those of a tenant; `surroundings`: those of the tenant `default`.
    - `ready`: the names of what is not ready yet; empty when all is. `parts`: each part with its state.
    - `standstills`: for how long the loop was held lately.
    - `audit`: the lines of changes. `changes`: what of a difference they show.
    - `admin_key`: None: only loopback is served (SPEC section 14); callers are then this machine's `user`.
    - `key_ring`: the keys that were made; None: there are none. `proxies`: those that are believed.
    - `own_url`: `server.external_url`, whose pages are the service's own.
    - `options`: the defaults of a tenant's jobs by wire name, where they differ from SPEC section 2.
    - `settings`: the answer of `GET /settings`, without secrets; None: not available.
    - `flush_seconds`: the longest wait of a read for records that are not written yet.
    - `heartbeat_seconds`: the interval that instances use for their heartbeats.
    - `admit`: checks the address of a service or instance, and raises TransportError; None: not checked.
    - `record_lost`: writes the record of a delivery that no process has any more; None: another node may
      have what this one has not.
    - `check_names`: None: names are not looked up before a request is made.
    - `nodes`: the scheduler processes; None: not available.
    - `log`: gets the warnings about declared jobs, which nobody may read in the answer.
    - `events`: None: there is no event stream.
    - `alerts`: None: this service has no alerts.
    - `metrics`: None: they are off.
    - `tenant_limits`: by name those that a tenant has.
    - `secrets`: what claimed requests are completed with. `secret_masks`: hides them in what callers report.
      `secret_vault`: where they are stored; None: no key is set for it.
    - `calendars`: those of all tenants. `tell_calendar`: begins to plan the jobs of a changed one anew.
    """

    jobs: Shard
    compile_definition: Callable[[JobDefinition, Surroundings], Compiled]
    compile_stored: Callable[[bytes, str], Awaitable[Program]]
    compile_cache: CompileCache
    surroundings: Surroundings
    surroundings_of: Callable[[str], Surroundings]
    catalogue: Catalogue
    store: RequestStore
    operations: Operations
    trials: Trials
    history: HistoryReads
    audit: AuditLog
    changes: MaskedChanges
    clean: Cleanup
    clock: Clock
    registry: Registry
    reconcile: Reconcile
    drift: DriftReport
    queues: PullQueues
    ready: Callable[[], Awaitable[Sequence[str]]]
    version: str
    log: Log
    admin_key: str | None = None
    key_ring: KeyRing | None = None
    proxies: Proxies = field(default_factory=Proxies)
    own_url: str | None = None
    user: str = "local"
    body_bytes: int = 1 << 20
    feedback_bytes: int = 1 << 16
    array_bytes: int = 4 << 20
    body_room: Room = field(default_factory=lambda: waiting_room(ROOM_BYTES))
    large_answers: Mapping[WaitingLine, LargeAnswers] = field(
        default_factory=lambda: {line: LargeAnswers() for line in WaitingLine}
    )
    options: Callable[[str], Mapping[str, object]] = lambda _: {}
    tenant_limits: Callable[[str], Mapping[str, int]] = lambda _: {}
    settings: Callable[[], Mapping[str, Any]] | None = None
    flush_seconds: float = 2
    heartbeat_seconds: float = 3
    admit: Callable[[str], Awaitable[None]] | None = None
    record_lost: Callable[[Batch], None] | None = None
    check_names: CheckNames | None = None
    keys: IdempotencyKeys = field(default_factory=IdempotencyKeys)
    feedback_keys: FeedbackKeys = field(default_factory=FeedbackKeys)
    nodes: Callable[[], Awaitable[Sequence[Mapping[str, object]]]] | None = None
    parts: Callable[[], Sequence[Mapping[str, object]]] = tuple
    standstills: Standstills = field(default_factory=Standstills)
    events: EventFeed | None = None
    alerts: AlertReader | None = None
    find_unfit: Callable[[CatalogueEntry], Problem | None] = lambda _: None
    list_unfit: Callable[[], Awaitable[Sequence[tuple[str, Problem]]]] | None = None
    metrics: Exposition | None = None
    secrets: SecretSources = field(default_factory=lambda: SecretSources(()))
    secret_vault: SecretVault | None = None
    calendars: Calendars | None = None
    tell_calendar: Callable[[StoredCalendar], None] = lambda _: None
    secret_masks: SecretMasks = field(default_factory=lambda: SecretMasks(sources=(), environments={}))

    @cached_property
    def authentication(self) -> Authentication:
        """Finds callers by `admin_key`, a key of `key_ring`, a session of the console, or as `user`."""
        return Authentication(
            admin_key=self.admin_key,
            tenant=self.surroundings.tenant,
            user=self.user,
            now=self.clock.now,
            own_url=self.own_url,
            ring=self.key_ring,
            proxies=self.proxies,
        )

    @cached_property
    def store_faults(self) -> Tally:
        """The requests that the store failed, in the log, with what it said: that may name files."""
        return Tally("store_failed", log=self.log)
