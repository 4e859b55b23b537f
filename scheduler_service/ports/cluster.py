"""What nodes of a cluster write and read of jobs and of each other: values."""

import msgspec

from scheduler_service.domain.effects import QueueWrite
from scheduler_service.domain.moments import Due
from scheduler_service.domain.public_events import Occurrence
from scheduler_service.domain.wire import Holder
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit


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


class EventGroup(msgspec.Struct, frozen=True):
    """What happened at one node within a moment, in order; numbers rise in the order of their writing."""

    number: int
    occurrences: tuple[Occurrence, ...]
