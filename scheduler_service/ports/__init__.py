"""What a turn needs from outside, as protocols: the contract of a host fits on this page.

StoreError
├── StoreUnavailable     nothing was written
├── StoreUncertain       the store did not answer whether it wrote
└── StoreConflict        another writer was first; what was read is old
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.events import Event
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.records import Record
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.services import Applied, Service
from scheduler_service.domain.wire import OutboundRequest, Outcome
from scheduler_service.engine.program import Program


class StoreError(PunctualError):
    """The root of what a store may raise."""


class StoreUnavailable(StoreError):
    """Nothing was written: the store is closed, full, locked or broken."""


class StoreUncertain(StoreError):
    """The store did not answer whether it wrote; read before you write again."""


class StoreConflict(StoreError):
    """The job was changed by another writer, or the id was taken meanwhile."""


class CatalogueEntry(msgspec.Struct, frozen=True, gc=False):
    """What lists and searches know of a job. Times are wall ms; `due` is the next planned firing."""

    job_id: str
    uid: str
    tenant: str
    job_name: str
    object_id: str | None
    creator: str
    kind: str
    state: JobState
    revision: int
    labels: dict[str, str]
    parent_job: str | None
    parent_execution: int | None
    next_fire: int | None
    execute_number: int
    request_counts: int
    missed: int
    latest: bytes
    created_at: int
    updated_at: int
    live: int = 0
    waiting: int = 0
    system: bool = False


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """An answer kept under an Idempotency-Key: `scope` is the route's subject, `digest` that of the body.

    `job_id`: the job whose turn it guards; it is forgotten when that life of the job ends. Empty: no job's.
    """

    scope: str
    key: str
    digest: bytes
    answer: bytes
    created_at: int
    job_id: str = ""


class Batch(msgspec.Struct, frozen=True, gc=False):
    """The records of one turn, masked and cut already; unique by (uid, sequence)."""

    uid: str
    job_id: str
    tenant: str
    sequence: int
    at: int
    records: tuple[Record, ...]


NOTHING = -1


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The durable writes of one turn: one transaction, all or nothing.

    It counts only over `expected`, the sequence that was read (0: no such job, or a destroyed one; NOTHING:
    no such job, and not even a destroyed one).
    `document` None: the job is destroyed; its catalogue entry stays with the counters. `patient`: nothing
    follows that somebody waits for; a store may write it some milliseconds later, together with others.
    """

    entry: CatalogueEntry
    expected: int
    sequence: int
    document: bytes | None
    due: Due
    definition: bytes | None = None
    batch: Batch | None = None
    deliveries: tuple[Delivery, ...] = ()
    remembered: Remembered | None = None
    queued: tuple[QueueWrite, ...] = ()
    patient: bool = False


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """What became of one try of a durable delivery: kept with its new values, or removed when it is done.

    `batch` is what the history has to know of it, `unwritten` in the same transaction.
    """

    delivery: Delivery
    done: bool
    batch: Batch | None = None


class StoredJob(msgspec.Struct, frozen=True, gc=False):
    """A job as it lies in the store. `document` None: destroyed, only the counters are left."""

    entry: CatalogueEntry
    sequence: int
    document: bytes | None
    due: Due


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> Now:
        """The present moment on both time lines. Never raises."""


MayGo = Callable[[], bool]
"""Whether a request may still leave."""


def always() -> bool:
    """It may."""
    return True


class NotSent(Exception):
    """A request did not leave, for its `MayGo` said no."""


class Sender(Protocol):
    """Sends one HTTP request. Never decides, never retries."""

    async def send(self, request: OutboundRequest, may_go: MayGo = always) -> Outcome:
        """The target's answer, or why there is none. Raises nothing but CancelledError and NotSent.

        `may_go` is asked last, when all is ready that had to be waited for: whoever is asked earlier may
        stand still between its answer and the first byte.
        """

    async def close(self) -> None:
        """Closes idle connections and fails what is in flight."""


class StateStore(Protocol):
    """The jobs' state, alarms, definitions and durable deliveries; every write goes through one writer."""

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, destroyed ones too, or None. Raises StoreUnavailable."""

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted (JSON), or None. Raises StoreUnavailable."""

    def commit(self, commit: Commit) -> Awaitable[None]:
        """Writes one turn; returns at once an awaitable that ends when it is durable. Raises StoreError."""

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """Writes turns of different jobs in one group; for each None, or its error. Raises StoreError."""

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes what became of deliveries. Raises StoreError."""

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under this Idempotency-Key since `since` (wall ms). Raises StoreUnavailable."""

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        """Keeps an answer that belongs to no single job. Raises StoreError."""

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """(moment, job_id) of alarms later than `after` and up to `before` on the wall line, earliest first.

        At most `limit`. Raises StoreUnavailable.
        """

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """The same on the steady line."""

    async def open_jobs(self, after: str, limit: int) -> list[str]:
        """Ids, in order, of jobs with executions that are processing or wait for a retry (recovery)."""

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries in order of id. Raises StoreUnavailable."""

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        """Batches that the history has not confirmed, in order of (uid, sequence)."""

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        """The history has these batches (uid, sequence): forget them. Raises StoreError."""

    async def close(self) -> None:
        """Writes what was handed in, then lets go of the file and its lock."""


class History(Protocol):
    """Takes records; never makes a turn wait."""

    def append(self, batch: Batch, *, durable: bool) -> None:
        """Hands over a turn's records. `durable`: they lie in the store's `unwritten` until confirmed."""

    async def flush(self) -> None:
        """Returns when everything handed over so far is written. Raises StoreUnavailable."""

    async def close(self) -> None:
        """Writes what was handed over, then lets go of the file."""


class ServiceTable(Protocol):
    """Services, the timers that they declare, and what became of these. All raise StoreUnavailable."""

    async def services(self) -> Sequence[Service]:
        """All of them, removed ones too."""

    async def timers(self, tenant: str, name: str) -> bytes:
        """The declared definitions as a JSON array; `[]` where there are none."""

    async def put(self, service: Service, timers: bytes | None = None) -> None:
        """Writes a service, and its timers where they are given: one transaction."""

    async def drop(self, tenant: str, name: str) -> None:
        """Removes a service and what is known of its jobs."""

    async def applied(self, tenant: str, name: str) -> Sequence[Applied]:
        """What was done about the jobs that the service declares or declared."""

    async def owner(self, tenant: str, job_id: str, uid: str) -> str | None:
        """The service whose declaration made this life of a job, or took it over; None: there is none."""

    async def note(self, kept: Sequence[Applied], dropped: Sequence[Applied]) -> None:
        """Writes what was done: one transaction. A job has one row, whoever declares it."""


class Definition(msgspec.Struct, frozen=True, gc=False):
    """A checked definition on its way into a turn: the text as posted, and what it compiles to."""

    text: bytes
    program: Program


class Deliver(Protocol):
    """The way to a job, wherever it lives."""

    async def __call__(
        self,
        job_id: str,
        event: Event,
        *,
        definition: Definition | None = None,
        remembered: Remembered | None = None,
        answer: Callable[[Reply], bytes] | None = None,
    ) -> Reply:
        """Takes one turn and returns its reply after its commit. Raises StoreError: nothing was done.

        Under `remembered` the turn is taken once: where its key is known already, the reply is Recalled.
        `answer` makes the bytes that are kept from the reply; a Refusal is not kept.
        """


Compile = Callable[[bytes], Program]
