"""What the API uses of the rest of the service, and no more than it uses of each part."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from client_sdk.models import JobDefinition
from scheduler_service.api.authentication import Authentication
from scheduler_service.api.feedback_keys import FeedbackKeys
from scheduler_service.api.idempotency import IdempotencyKeys
from scheduler_service.api.request_room import ROOM_BYTES, AnswerLine, LargeAnswers, waiting_room
from scheduler_service.domain.errors import Problem
from scheduler_service.domain.records import Exchange
from scheduler_service.domain.replies import Reply
from scheduler_service.engine.compile import Compiled
from scheduler_service.engine.compile_cache import CompileCache
from scheduler_service.engine.decision import Job
from scheduler_service.engine.program import Program, Surroundings
from scheduler_service.hosts.cleanup import Trials
from scheduler_service.hosts.operations.operations import Operations
from scheduler_service.pacing.room import Room
from scheduler_service.persistence.history.answer_room import AnswerRoom
from scheduler_service.persistence.history.day_statistics import DayQuery
from scheduler_service.persistence.history.in_full import NewestExecutions
from scheduler_service.persistence.history.queries import (
    DeliveryQuery,
    ExecutionQuery,
    FiringQuery,
    Page,
    SeriesQuery,
    Wire,
)
from scheduler_service.ports.alerts import AlertLine
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Definition, Deliver
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import RequestStore
from scheduler_service.services.drift import DriftReport
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.reconcile import Reconcile
from scheduler_service.services.registry import Registry
from scheduler_service.telemetry.event_feed import EventFeed
from scheduler_service.telemetry.metrics.exposition import Exposition
from scheduler_service.telemetry.tally import Tally
from scheduler_service.telemetry.trouble import Standstills

CreateAll = Callable[[Sequence[Definition], str], Awaitable[Sequence[Reply | StoreError]]]
"""Takes the turn Created for each definition, all writes as one group. Never raises StoreError.

The second argument is the service that the jobs belong to; empty: to none (SPEC section 9).
"""


CheckNames = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Looks up host names, and judges their addresses by the egress policy.

Returns those that are refused today, with the reason; answers within a moment, and never raises.
"""


class HistoryReader(Protocol):
    """Reads the history, in wire form. All raise StoreUnavailable; lists raise CursorError."""

    async def executions(self, query: ExecutionQuery) -> Page:
        """Executions, the newest first."""

    async def firings(self, query: FiringQuery) -> Page:
        """The ledger."""

    async def deliveries(self, query: DeliveryQuery) -> Page:
        """Notifications, the newest first."""

    async def delivery(self, tenant: str, delivery_id: str) -> Wire | None:
        """One notification."""

    async def execution(
        self, tenant: str, execution_id: str, request_counts: int | None = None
    ) -> Wire | None:
        """One execution in full, or with that attempt alone, as far as an answer has room."""

    async def log(
        self, tenant: str, execution_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page | None:
        """The lines of an execution's log, in order of time; None: no such execution."""

    async def exchanges(self, tenant: str, execution_id: str) -> dict[int, Exchange] | None:
        """Requests and responses of the steps of its last attempt, by index; None: no such execution."""

    async def params(self, tenant: str, execution_id: str) -> bytes | None:
        """Its trigger parameters as they were sent; None where they were masked, cut or dropped."""

    async def children_latest(
        self, tenant: str, job_ids: Sequence[str], *, room: AnswerRoom, limit: int
    ) -> NewestExecutions:
        """The newest execution of each job, in full, as far as `room` and `limit` go."""

    async def outcomes(self, tenant: str, job_ids: Collection[str], count: int) -> Mapping[str, list[Wire]]:
        """Of each job its newest `count` executions, in brief, the newest last."""

    async def counts(self, query: ExecutionQuery) -> Wire:
        """`total`, `byState` and `byError`, of the newest executions that fit."""

    async def delivery_counts(self, query: DeliveryQuery) -> Wire:
        """`total` and `byState`, of the newest notifications that fit."""

    async def series(self, query: SeriesQuery) -> Wire:
        """`buckets`, `isCapped` and `examinedFrom`."""

    async def statistics(self, tenant: str, now: int) -> Wire:
        """`byState`, `lateness` and `perMinute`."""

    async def days(self, query: DayQuery) -> Wire:
        """The statistics per day: `total` and `days`."""

    async def top(self, query: DayQuery) -> Wire:
        """The jobs that failed most and those that took longest: `failing` and `slowest`."""


class NotificationOutbox(Protocol):
    """Commands on a pending notification. Both return False where none of this id is pending."""

    async def resend(self, delivery_id: str) -> bool:
        """Tries it again now. Raises StoreError."""

    async def dismiss(self, delivery_id: str) -> bool:
        """Gives it up. Raises StoreError."""


class AlertReader(Protocol):
    """The alerts that the settings have, and what of them is open."""

    @property
    def configured(self) -> Sequence[Mapping[str, object]]:
        """Those of the settings, in wire form, without secrets."""

    async def open(self) -> tuple[Sequence[AlertLine], int]:
        """Some of those that last, and how many do. Raises StoreUnavailable."""


class Flush(Protocol):
    """Makes the history complete for a read."""

    async def __call__(self, job_id: str | None = None) -> None:
        """Returns when all that was recorded so far can be read, of the job or of all. Raises StoreError."""


class Clean(Protocol):
    """Removes old history (SPEC section 12)."""

    async def __call__(self, *, destroyed: bool, retain: int) -> Mapping[str, int]:
        """The numbers of removed `{jobs, executions, notifications}`. Raises StoreError."""


@dataclass(frozen=True, kw_only=True)
class ApiDependencies:
    """Everything that the API uses.

    - `peek`: the catalogue entry of a job as of its latest commit, if it is in memory.
    - `read_job`: a job as of its latest turn that was answered, None where there is none. Raises StoreError.
    - `compile_definition`: raises DefinitionError with all errors. `compile_stored`: never refuses.
    - `ready`: the names of what is not ready yet; empty when all is. `parts`: each part with its state.
    - `standstills`: for how long the loop was held lately.
    - `admin_key`: None: only loopback is served (SPEC section 14); callers are then this machine's `user`.
    - `own_url`: `server.external_url`, whose pages are the service's own.
    - `options`: the defaults of a job's options by wire name, where they differ from SPEC section 2.
    - `settings`: the answer of `GET /settings`, without secrets; None: not available.
    - `flush_seconds`: the longest wait of a read for records that are not written yet.
    - `heartbeat_seconds`: the interval that instances use for their heartbeats.
    - `admit`: checks the address of a service or instance, and raises TransportError; None: not checked,
      since callers have a key.
    - `check_names`: None: names are not looked up before a request is made.
    - `nodes`: the scheduler processes; None: not available.
    - `queues`: None: none are open here.
    - `log`: gets the warnings about declared jobs, which nobody may read in the answer.
    - `events`: None: there is no event stream.
    - `alerts`: None: this service has no alerts.
    - `metrics`: None: they are off.
    """

    deliver: Deliver
    create_all: CreateAll
    peek: Callable[[str], CatalogueEntry | None]
    read_job: Callable[[str], Awaitable[Job | None]]
    compile_definition: Callable[[JobDefinition, Surroundings], Compiled]
    compile_stored: Callable[[bytes], Awaitable[Program]]
    compile_cache: CompileCache
    surroundings: Surroundings
    catalogue: Catalogue
    store: RequestStore
    operations: Operations
    trials: Trials
    history: HistoryReader
    outbox: NotificationOutbox
    clean: Clean
    clock: Clock
    registry: Registry
    reconcile: Reconcile
    drift: DriftReport
    flush: Flush
    ready: Callable[[], Awaitable[Sequence[str]]]
    version: str
    log: Log
    admin_key: str | None = None
    own_url: str | None = None
    user: str = "local"
    body_bytes: int = 1 << 20
    feedback_bytes: int = 1 << 16
    array_bytes: int = 4 << 20
    body_room: Room = field(default_factory=lambda: waiting_room(ROOM_BYTES))
    large_answers: Mapping[AnswerLine, LargeAnswers] = field(
        default_factory=lambda: {line: LargeAnswers() for line in AnswerLine}
    )
    options: Mapping[str, object] = field(default_factory=dict)
    settings: Callable[[], Mapping[str, Any]] | None = None
    flush_seconds: float = 2
    heartbeat_seconds: float = 3
    queues: PullQueues | None = None
    admit: Callable[[str], Awaitable[None]] | None = None
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

    @cached_property
    def authentication(self) -> Authentication:
        """Finds callers by `admin_key`, by a session of the console, or as this machine's `user`."""
        return Authentication(
            admin_key=self.admin_key,
            tenant=self.surroundings.tenant,
            user=self.user,
            now=self.clock.now,
            own_url=self.own_url,
        )

    @cached_property
    def store_faults(self) -> Tally:
        """The requests that the store failed, in the log, with what it said: that may name files."""
        return Tally("store_failed", log=self.log)
