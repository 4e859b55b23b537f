"""What the nodes of a cluster share: the jobs and their turns, the outbox, the table of nodes.

Everything here raises StoreError.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.moments import Due, Now
from scheduler_service.domain.public_events import Occurrence
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import (
    Commit,
    JobStore,
    NoteDamaged,
    Remembered,
    RequestStore,
    Settlement,
)


class Node(msgspec.Struct, frozen=True):
    """A scheduler process by its last heartbeat. `started_at` is wall, `seen_at` steady ms.

    `format` is that of the shared tables which its program knows; "": a program before 0.2.0, which does not
    say it.
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
    format: str = ""

    @property
    def holder(self) -> Holder:
        """The same as the state of a job names it."""
        return Holder(self.node_id, self.boot)


TURNS_IN_ROWS = "0009"
"""The first format in which each claim is the commit of its turn; older programs know other ones."""


class TurnClaim(msgspec.Struct, frozen=True):
    """A turn that `holder` claims at `at` (steady ms): all of `commit`, over the sequence that it expects.

    `state` is what the row keeps of the job after it: its document, and what the history may not have yet;
    of a service that is alone the document, None of a destroyed job.
    `is_first`: the job is created without its actor, and no reminder guards it. `records`: those of `commit`
    that are rows of their own, and not in the `state`.
    """

    commit: Commit
    holder: Holder
    at: int
    state: bytes | None = b""
    is_first: bool = False
    records: tuple[Batch, ...] = ()


class QueueTurn(msgspec.Struct, frozen=True):
    """What the turn `sequence` of a life of a job wants in the queues; `at` is steady."""

    uid: str
    sequence: int
    at: int
    writes: tuple[QueueWrite, ...]


class Unbegun(msgspec.Struct, frozen=True):
    """A job of `creator` that was created without its actor, and had no turn since; moments are wall."""

    job_id: str
    due: int
    created_at: int
    creator: Holder


class ClaimedJob(msgspec.Struct, frozen=True):
    """A job after its latest turn, and who took that, `at` a steady moment.

    `state` None: it lies where 0.1.0 has written it.
    """

    entry: CatalogueEntry
    sequence: int
    holder: Holder
    due: Due
    state: bytes | None
    is_first: bool = False
    at: int = 0


class ClusterStore(RequestStore, JobStore, Protocol):
    """The shared tables but for the nodes'."""

    async def claim(self, claim: TurnClaim) -> None:
        """Makes a turn durable: the job's row and all that the turn writes, in one transaction.

        Raises StoreConflict: the job is not at the sequence that was read, and nothing was written.
        """

    async def claim_all(self, claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        """Claims turns of different jobs in one transaction; for each None, or its error.

        What cannot be stored fails alone.
        """

    async def load(self, job_id: str) -> ClaimedJob | None:
        """A job after its latest turn, destroyed ones too, or None."""

    async def sequence(self, job_id: str) -> int | None:
        """The sequence of the latest turn; None: no such job."""

    async def old_copy(self, job_id: str, sequence: int) -> bytes | None:
        """The state that a node of 0.1.0 has written beside its claim of this turn, if it has."""

    async def keep(
        self, deliveries: Sequence[Delivery], answers: Sequence[Remembered], holder: Holder
    ) -> None:
        """Keeps answers of no turn, and what a state of 0.1.0 has; a delivery that is there stays."""

    async def enqueue(self, turn: QueueTurn) -> None:
        """Writes into the queues what a state of 0.1.0 wants there, once for a turn, however often."""

    async def unsent(self, deliveries: Sequence[Delivery], holder: Holder) -> list[Delivery]:
        """Those of `deliveries` that are kept, not done, and to be sent by `holder`."""

    async def settle(self, settlements: Sequence[Settlement], now: int, holder: Holder) -> None:
        """Writes the state of deliveries; done ones are removed after an hour (`now` steady ms)."""

    async def deliveries(self, after: str, limit: int) -> list[Delivery]:
        """As `ports.state.StateStore.deliveries`: those of all nodes that are not done."""

    async def adopt(
        self, alive: Iterable[Holder], holder: Holder, limit: int, note_damaged: NoteDamaged
    ) -> list[Delivery]:
        """Makes `holder` the sender of deliveries whose node is not among `alive`; at most `limit`.

        `note_damaged` is told of those that cannot be read.
        """

    async def adopt_records(self, alive: Iterable[Holder], holder: Holder, limit: int) -> list[Batch]:
        """The same for records of deliveries, which the history may not have yet."""

    async def written(self, keys: Sequence[tuple[str, int]]) -> None:
        """The history has these records of deliveries, by (uid, sequence)."""

    async def overdue(self, now: Now, limit: int) -> list[str]:
        """Jobs whose alarm should have rung by `now`, the longest overdue first."""

    async def unbegun(self, after: tuple[int, str], until: int, limit: int) -> list[Unbegun]:
        """Jobs without a turn since their creation, in order of (due, job_id), `after` a pair of these.

        They are due up to `until` (wall).
        """

    async def abandoned(self, alive: Iterable[Holder], since: int, limit: int) -> dict[str, int]:
        """Jobs whose last turn was a node's that is not among `alive`, and that may have unfinished work.

        Of each the steady moment of that turn's claim.

        Those with live executions, and those of whose records the history may lack some: claimed since
        `since` (steady ms). Of each node those with live executions come first, then the latest claims.
        """

    async def prune(self, now: Now) -> None:
        """Removes kept answers after 24 h, and deliveries that are done after one."""


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

    async def remove(self, holders: Sequence[Holder]) -> None:
        """Removes these nodes: their heartbeats count no more, and they commit nothing."""

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

    async def seal_key(self) -> bytes:
        """The key with which all nodes seal the ids of events; made by the first one that asks."""

    async def are_wanted(self, now: int) -> bool:
        """Whether a node wants them."""

    async def put(self, occurrences: Sequence[Occurrence], now: int) -> bool:
        """Adds a group, and removes what is too much; False: nobody wants it, and nothing was written."""

    async def after(self, number: int, limit: int) -> list[EventGroup]:
        """The groups after `number`, in order."""

    async def forget(self, before: int) -> None:
        """Removes groups that are older."""
