"""The store of the jobs' state: what a turn commits and reads back, and what else the service keeps there."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.moments import DAY, Due
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.errors import DeliveryUnreadable, StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.queues import Queues

REMEMBERED_MS = DAY
"""How long the store keeps what it remembers: answers under their Idempotency-Key (SPEC section 10), records
of operations, messages between nodes."""


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """An answer kept under an Idempotency-Key: `scope` is the route's subject, `digest` that of the body.

    `job_id`: the job whose turn it guards; it is deleted when that life of the job ends. Empty, or no id: of
    no job.
    """

    scope: str
    key: str
    digest: bytes
    answer: bytes
    created_at: int
    job_id: str = ""

    @property
    def since(self) -> int:
        """An answer of the same key counts that was kept then (wall ms) or later."""
        return self.created_at - REMEMBERED_MS

    @property
    def is_of_message(self) -> bool:
        """Whether it guards one message between nodes, and no Idempotency-Key of a caller."""
        return self.scope == OF_MESSAGE


OF_MESSAGE = ""
NOTHING = -1
NoteDamaged = Callable[[DeliveryUnreadable], None]
"""Is told of each delivery that cannot be read, and is left out."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """The durable writes of one turn: one transaction, all or nothing.

    It is accepted only if the stored sequence is `expected`, which was read (0: no such job, or a destroyed
    one; NOTHING: no such job, not even a destroyed one). `document` None: the job is destroyed; its catalogue
    entry stays with the counters. `may_wait`: no effect follows this commit, so a store may write it some
    milliseconds later, together with others. `qos`: 0 where nothing of the job is of qos 1 after the turn.
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
    may_wait: bool = False
    qos: int = 1


class Settlement(msgspec.Struct, frozen=True, gc=False):
    """The result of one try of a durable delivery: it is kept with its new values, or deleted when done.

    `batch` has its records for the history, `unwritten` in the same transaction.
    """

    delivery: Delivery
    done: bool
    batch: Batch | None = None


class StoredJob(msgspec.Struct, frozen=True, gc=False):
    """A job in the store. `document` None: it is destroyed, only the counters are left.

    `sequence` is that of its latest turn; those to come are above `used`, too.
    """

    entry: CatalogueEntry
    sequence: int
    document: bytes | None
    due: Due
    used: int = 0


class OpenJob(msgspec.Struct, frozen=True, gc=False):
    """A job with executions that are processing or wait for a retry; `is_marked`: as was asked.

    `size`: about that of its document, where it is known without handing it out.
    """

    job_id: str
    is_marked: bool
    size: int = 0


class RequestStore(Protocol):
    """What requests need of a store: definitions, and the answers kept under Idempotency-Keys."""

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted (JSON), or None. Raises StoreUnavailable."""

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under this Idempotency-Key since `since` (wall ms). Raises StoreUnavailable."""

    def remember(self, remembered: Remembered) -> Awaitable[None]:
        """Keeps an answer that belongs to no single job, for 24 h. Raises StoreError."""

    def remember_first(self, remembered: Remembered, since: int) -> Awaitable[bool]:
        """As `remember`; False: one of its key was kept at `since` (wall ms) or later, and stays as it is.

        Of several nodes that do so at one moment one has True.
        """


class JobStore(RequestStore, Protocol):
    """Where jobs lie, whoever takes their turns."""

    @property
    def catalogue(self) -> Catalogue:
        """Reads for lists."""

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Deletes a destroyed job, its counters, definitions and kept answers; False: there is none.

        Raises StoreError.
        """


class ServiceStore(JobStore, Protocol):
    """What the service uses of a store outside of turns."""

    @property
    def queues(self) -> Queues:
        """The parts of queues."""


class StateStore(RequestStore, Protocol):
    """The jobs' state, alarms, definitions and durable deliveries; one writer does all writes."""

    async def load(self, job_id: str) -> StoredJob | None:
        """The job, destroyed ones too, or None. Raises StoreUnavailable."""

    def commit(self, commit: Commit) -> Awaitable[None]:
        """Writes one turn; returns at once an awaitable that ends when it is durable. Raises StoreError."""

    def settle(self, settlements: Sequence[Settlement]) -> Awaitable[None]:
        """Writes results of deliveries. Raises StoreError."""

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries in order of id: at most `limit`, fewer where they are large; none: the end.

        Raises StoreUnavailable; DeliveryUnreadable where the first one is damaged: the others are behind it.
        """

    def written(self, keys: Sequence[tuple[str, int]]) -> Awaitable[None]:
        """Deletes batches (uid, sequence) that the history has confirmed. Raises StoreError."""


class OwnedStore(StateStore, Protocol):
    """What this process finds at its start of its own jobs, of which it alone takes turns, until `close`."""

    @property
    def commits_waiting(self) -> int:
        """About how many writes wait for their group, those of the API too."""

    async def commit_all(self, commits: Sequence[Commit]) -> Sequence[StoreError | None]:
        """Writes turns of different jobs in one group; for each None, or its error. Raises StoreError."""

    async def due_wall(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """(moment, job_id) of wall-clock alarms later than `after` and up to `before`, earliest first.

        At most `limit`; equal moments are in order of id. Raises StoreUnavailable.
        """

    async def due_steady(self, before: int, limit: int, after: int = -1) -> list[tuple[int, str]]:
        """The same for alarms of the steady clock."""

    async def open_jobs(self, after: str, limit: int, marks: Sequence[bytes]) -> list[OpenJob]:
        """Jobs with open executions, in order of id; marked: their document has one of `marks` in it.

        Documents are searched where they lie, and not handed out. Raises StoreUnavailable.
        """

    async def unwritten(self, after: tuple[str, int], limit: int) -> list[Batch]:
        """Batches that the history has not confirmed, by (uid, sequence), in pages as `deliveries`."""

    async def close(self) -> None:
        """Writes what was put in, then releases the store. A second call waits with the first."""


class OpenStore(OwnedStore, ServiceStore, Protocol):
    """A store with jobs of this process, and with all that the service keeps."""

    @property
    def boot(self) -> int:
        """The number of this start over the store, from 1; durable before anything else is written."""

    @property
    def node_id(self) -> str:
        """The node's name, kept from start to start."""

    async def clock_skew(self) -> int:
        """The clock skew (ms) that was saved last; 0: never. Raises StoreUnavailable."""

    def save_clock_skew(self, skew: int) -> Awaitable[None]:
        """Keeps `skew` (ms) for the next start; ends when it is durable. Raises StoreError."""


class Contexts(Protocol):
    """Versions of a job's contexts. A version is written once, and its number is never used again.

    The row of the job names the version that counts. So what comes late, or was written for a turn that never
    became durable, is harmless: no row names it. For the same reason calls may overtake each other.
    """

    async def put(
        self, job_id: str, version: int, content: bytes, unused: Sequence[int], others: Sequence[int] = ()
    ) -> None:
        """Keeps `content`; it is durable when this returns. Raises StoreError: perhaps it is there.

        May remove the versions `unused`, which no row names any more or ever will. `others` stay.
        """

    async def find(self, job_id: str) -> Sequence[int]:
        """The versions of a job that are there, perhaps with some that are not. Raises StoreUnavailable."""

    async def get(self, job_id: str, version: int) -> bytes | None:
        """What was put under `version`; None: the store does not have it. Raises StoreUnavailable."""

    async def drop(self, job_id: str, unused: Sequence[int]) -> None:
        """Removes these versions; one that is not there is no error. Raises StoreError."""
