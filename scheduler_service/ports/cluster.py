"""What the nodes of a cluster share: claims before commits, the outbox, the table of nodes.

Everything here raises StoreError.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.occurrences import Occurrence
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import NoteDamaged, Remembered, Settlement


class Node(msgspec.Struct, frozen=True):
    """A scheduler process by its last heartbeat. `started_at` is wall, `seen_at` steady ms.

    `reads_claims` 0: its program does not know that a claim may be the commit of its turn. `format` is that
    of the shared tables which its program knows; "": a program before 0.2.0, which does not say it.
    """

    node_id: str
    boot: str
    address: str
    version: str
    state: str
    started_at: int
    seen_at: int
    jobs_held: int
    running: int
    reads_claims: int = 1
    format: str = ""

    @property
    def holder(self) -> Holder:
        """The same as the state of a job names it."""
        return Holder(self.node_id, self.boot)


class TurnClaim(msgspec.Struct, frozen=True):
    """One turn before its commit: `sequence` follows `expected`, the one that was read, by `holder`.

    `at` is the steady moment of the claim. `definition`: the text, where the turn brings a revision. `copy`:
    the state that will be written, where another node may overwrite it late, or that will not be, where the
    claim itself `is_commit`. `is_exact`: nobody has compared the state that was read with the store's, so the
    claim is taken from `expected` alone. `may_wait`: nothing is sent after the turn, so it may be claimed
    some milliseconds later, together with others. `remembered`: an answer to keep where the claim is the
    commit of a creation; other turns have theirs in their state.
    """

    entry: CatalogueEntry
    due: Due
    expected: int
    sequence: int
    holder: Holder
    at: int
    definition: bytes | None = None
    copy: bytes | None = None
    is_exact: bool = False
    may_wait: bool = False
    is_commit: bool = False
    remembered: Remembered | None = None


class LatestClaim(msgspec.Struct, frozen=True):
    """Who claimed a job last, with the state that the claim brought, if it brought one.

    Where it `is_commit`, that state was written nowhere else.
    """

    holder: Holder
    copy: bytes | None = None
    is_commit: bool = False


class QueueTurn(msgspec.Struct, frozen=True):
    """What the committed turn `sequence` of a life of a job wants in the queues; `at` is steady."""

    uid: str
    sequence: int
    at: int
    writes: tuple[QueueWrite, ...]


class Unbegun(msgspec.Struct, frozen=True):
    """A job of `creator` whose first state lies with its claim; moments are wall."""

    job_id: str
    due: int
    created_at: int
    creator: Holder


class ClaimedJob(msgspec.Struct, frozen=True):
    """The catalogue's row of a job, and who claimed its latest turn."""

    entry: CatalogueEntry
    sequence: int
    holder: Holder
    at: int
    due: Due


class PendingBatches(Protocol):
    """Records of deliveries that the history may not have yet."""

    async def forget(self, keys: Sequence[tuple[str, int]]) -> None:
        """The history has these, by (uid, sequence)."""

    async def adopt(self, alive: Iterable[Holder], holder: Holder, limit: int) -> list[Batch]:
        """Assigns to `holder` those of nodes that are not among `alive`; at most `limit`."""


class ClusterStore(Protocol):
    """The shared tables but for the nodes'."""

    @property
    def pending_history(self) -> PendingBatches:
        """Records of deliveries that the history may not have yet."""

    @property
    def is_synced(self) -> bool:
        """Whether what was written outlives a power loss, and the end of the database's own process."""

    async def claim(self, claim: TurnClaim) -> None:
        """Claims a turn and brings the catalogue to it. Raises StoreConflict: nothing was written.

        It is taken from the sequence that was read; or where the row is this very holder's, who holds the
        job's lock; or where the present claim is older than 5 s: its turn can no longer end. The two latter
        not where it `is_exact`, nor where the present claim is a commit.
        """

    async def claim_all(self, claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        """Claims turns of different jobs in one transaction; for each None, or its error.

        What cannot be stored fails alone.
        """

    async def release(self, claim: TurnClaim, entry: CatalogueEntry, due: Due) -> None:
        """Makes the job's row what it was before `claim`, `entry` and `due`, where that is still the latest.

        For a turn that was certainly not written.
        """

    async def find(self, job_id: str) -> ClaimedJob | None:
        """The row of a job, destroyed ones too, or None."""

    async def sequence(self, job_id: str) -> int | None:
        """The turn that was claimed last; None: no such job."""

    async def latest(self, job_id: str) -> LatestClaim | None:
        """The claim of the job's latest turn; None: no such job."""

    async def definition(self, uid: str, revision: int) -> bytes | None:
        """A definition as posted, or None."""

    async def keep(
        self, deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> list[Delivery]:
        """Keeps deliveries and answers of a committed turn; returns the deliveries that are new."""

    async def enqueue(self, turn: QueueTurn) -> None:
        """Writes into the queues, all or nothing, once: where they have this turn or a later one of the same
        life, nothing. So any node may bring what it finds in the state of a job, however often.
        """

    async def settle(self, settlements: Sequence[Settlement], now: int, holder: Holder) -> None:
        """Writes the state of deliveries; done ones are removed after an hour (`now` steady ms)."""

    async def recall(self, scope: str, key: str, since: int) -> Remembered | None:
        """The answer kept under this Idempotency-Key since `since` (wall ms)."""

    async def remember_first(self, answer: Remembered, since: int) -> bool:
        """Keeps the answer; False: one of its key was kept at `since` (wall ms) or later, and stays."""

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """Durable deliveries that are not done, in order of id."""

    async def adopt(
        self, alive: Iterable[Holder], holder: Holder, limit: int, note_damaged: NoteDamaged
    ) -> list[Delivery]:
        """Makes `holder` the sender of deliveries whose node is not among `alive`; at most `limit`.

        `note_damaged` is told of those that cannot be read.
        """

    async def overdue(self, now: Now, limit: int) -> list[str]:
        """Jobs whose alarm should have rung by `now`, the longest overdue first."""

    async def unbegun(self, after: tuple[int, str], until: int, limit: int) -> list[Unbegun]:
        """Jobs without a turn by their actor that are due up to `until` (wall), in order of (due, job_id).

        Those `after` a pair of these.
        """

    async def abandoned(self, alive: Iterable[Holder], since: int, limit: int) -> dict[str, int]:
        """Jobs whose last turn was a node's that is not among `alive`, and that may have unfinished work.

        Of each the steady moment of that turn's claim.

        Those with live executions, and those of whose records the history may lack some: claimed since
        `since` (steady ms). Of each node those with live executions come first, then the latest claims.
        """

    async def forget(self, job_id: str) -> bool:
        """Removes a destroyed job, its counters, definitions and kept answers; False: there is none."""

    async def prune(self, now: Now) -> None:
        """Removes kept answers after 24 h; deliveries that are done, and copies of older states, after one.

        The copy of a job's latest state stays: the job may not have been read since the overwriting.
        """


class ClusterNodes(Protocol):
    """The table of nodes. `now` is always steady ms."""

    async def enter(self, node: Node, *, alive_since: int) -> bool:
        """Adds a node; False: a live one of the same name is there, seen after `alive_since`."""

    async def beat(self, node: Node) -> bool:
        """Updates the row of a node; False: another start of the node has replaced it."""

    async def list(self) -> list[Node]:
        """All nodes, in order of their names."""

    async def forget(self, before: int) -> None:
        """Removes nodes that were not seen since `before`."""

    async def next_epoch(self) -> int:
        """A number above all that were returned before."""

    async def keep_app_id(self, app_id: str) -> str:
        """The app id under which the actors' state is kept; the first one given stays."""

    async def lease(self, name: str, holder: Holder, now: int, until: int) -> bool:
        """Takes or renews a lease; False: another holder still has it."""


class EventGroup(msgspec.Struct, frozen=True):
    """What happened at one node within a moment, in order; numbers rise in the order of their writing."""

    number: int
    occurrences: tuple[Occurrence, ...]


class ClusterEvents(Protocol):
    """Events that nodes show each other while one of them wants them; times are steady ms."""

    async def want(self, now: int, until: int) -> int:
        """Says that a node wants events up to `until`; the number of the latest group.

        Where they were not wanted before, older groups are gone, and a number is left out.
        """

    async def are_wanted(self, now: int) -> bool:
        """Whether a node wants them."""

    async def put(self, occurrences: Sequence[Occurrence], now: int) -> bool:
        """Adds a group, and removes what is too much; False: nobody wants it, and nothing was written."""

    async def after(self, number: int, limit: int) -> list[EventGroup]:
        """The groups after `number`, in order."""

    async def forget(self, before: int) -> None:
        """Removes groups that are older."""
