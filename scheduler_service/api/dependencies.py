"""What the API is made of: everything it uses, by name, and no more than it needs of each."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from client_sdk.models import JobDefinition
from scheduler_service.api.idempotency import IdempotencyKeys
from scheduler_service.domain.records import Exchange
from scheduler_service.domain.replies import Reply
from scheduler_service.engine.compile import Compiled
from scheduler_service.engine.compile_cache import CompileCache
from scheduler_service.engine.decision import Job
from scheduler_service.engine.program import Surroundings
from scheduler_service.persistence.history.queries import (
    DeliveryQuery,
    ExecutionQuery,
    FiringQuery,
    Page,
    Wire,
)
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Definition, Deliver
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from scheduler_service.services.drift import DriftReport
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.reconcile import Reconcile
from scheduler_service.services.registry import Registry


class CompileDefinition(Protocol):
    """Checks a definition as far as that goes without running it."""

    def __call__(self, definition: JobDefinition, surroundings: Surroundings) -> Compiled:
        """The definition, compiled. Raises DefinitionError with all that is wrong."""


class CreateAll(Protocol):
    """Creates many jobs."""

    async def __call__(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, their writes as one group. Never raises StoreError."""


class Offload(Protocol):
    """Other processes of the service, which create what they know without ours looking at it."""

    def is_elsewhere(self, job_id: str) -> bool:
        """Whether another process has the job of this id, or would have it."""

    async def offer(self, texts: Mapping[str, bytes]) -> Mapping[str, Reply | StoreError]:
        """Takes the turn Created for those that are known there and have no warning; never raises StoreError.

        `texts` has for each `jobId` what would be kept of its definition. About a job that the answer does
        not name nothing was done.
        """


class Store(Protocol):
    """What the API reads of the state, and the answers it keeps. Everything raises StoreError."""

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """As in `ports.StateStore`."""

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """As in `ports.StateStore`."""

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        """As in `ports.StateStore`."""


class HistoryReader(Protocol):
    """Reads what happened, in wire form. All raise StoreUnavailable, lists ExpressionError (`cursor`)."""

    async def executions(self, query: ExecutionQuery) -> Page:
        """Executions, the newest first."""

    async def firings(self, query: FiringQuery) -> Page:
        """The ledger."""

    async def deliveries(self, query: DeliveryQuery) -> Page:
        """Notifications, the newest first."""

    async def delivery(self, tenant: str, delivery_id: str) -> Wire | None:
        """One of them."""

    async def execution(self, tenant: str, execution_id: str) -> Wire | None:
        """One execution in full."""

    async def log(
        self, tenant: str, execution_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> Page | None:
        """The lines of its log, in order of time; None: no such execution."""

    async def exchanges(self, tenant: str, execution_id: str) -> dict[int, Exchange] | None:
        """What the steps of its last attempt sent and were answered; None: no such execution."""

    async def params(self, tenant: str, execution_id: str) -> bytes | None:
        """Its trigger parameters as they were sent; None where they were masked, cut or dropped."""

    async def children_latest(self, tenant: str, job_ids: Iterable[str]) -> list[Wire]:
        """The newest execution of each job, in full."""

    async def statistics(self, tenant: str, now: int) -> Wire:
        """`byState`, `lateness` and `perMinute`."""


class NotificationOutbox(Protocol):
    """What people may ask of a delivery. Both say False where none of this id waits."""

    async def resend(self, delivery_id: str) -> bool:
        """Tries it again now. Raises StoreError."""

    async def dismiss(self, delivery_id: str) -> bool:
        """Gives it up. Raises StoreError."""


class Clean(Protocol):
    """Removes history that nobody wants to keep any more (SPEC section 12)."""

    async def __call__(self, *, destroyed: bool, retain: int) -> Mapping[str, int]:
        """`{jobs, executions, notifications}` that were removed. Raises StoreError."""


@dataclass(frozen=True, kw_only=True)
class ApiDependencies:
    """Everything that the API uses.

    `peek` gives the line of a job as its latest commit left it, where memory has it; `read_job` a job as its
    latest turn left it, None where there is none, and raises StoreError. `compile_cache` keeps programs.
    `flush` returns when all that turns recorded so far can be read, and raises StoreUnavailable.
    `admin_key` None: only loopback is served (SPEC section 14). `ready` names what is not ready yet, nothing
    when all is. `options` are the effective defaults of a job's options by their names on the wire, where
    they are not those of SPEC section 2. `settings` is what `GET /settings` shows, secrets left out already.
    `heartbeat_seconds` is how often instances are asked to say that they live. `admit` judges the address of
    a service or instance, and raises TransportError; None: a key vouches for who registers. `nodes` lists the
    scheduler processes; None: not told.
    `queues` None: this host has none. `offers` None: all jobs live here, or where nobody can be offered any.
    """

    deliver: Deliver
    create_all: CreateAll
    peek: Callable[[str], CatalogueEntry | None]
    read_job: Callable[[str], Awaitable[Job | None]]
    compile_definition: CompileDefinition
    compile_cache: CompileCache
    surroundings: Surroundings
    catalogue: Catalogue
    store: Store
    history: HistoryReader
    courier: NotificationOutbox
    clean: Clean
    clock: Clock
    registry: Registry
    scan: Reconcile
    drift: DriftReport
    flush: Callable[[], Awaitable[None]]
    ready: Callable[[], Awaitable[Sequence[str]]]
    version: str
    admin_key: str | None = None
    body_bytes: int = 1 << 20
    array_bytes: int = 16 << 20
    options: Mapping[str, object] = field(default_factory=dict)
    settings: Callable[[], Mapping[str, Any]] | None = None
    heartbeat_seconds: float = 3
    queues: PullQueues | None = None
    admit: Callable[[str], Awaitable[None]] | None = None
    keys: IdempotencyKeys = field(default_factory=IdempotencyKeys)
    nodes: Callable[[], Awaitable[Sequence[Mapping[str, object]]]] | None = None
    offers: Offload | None = None
