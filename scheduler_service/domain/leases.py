"""Work that instances claim from queues, and the leases under which they have it (SPEC section 13).

Moments are steady ms unless they say otherwise.
"""

import msgspec

from scheduler_service.domain.parts import PartEnd, PartName, QueuedPart, write_part_id
from scheduler_service.domain.wire import OutboundRequest


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What an instance asks of a queue; `leases` has a fresh name for each part that it has room for.

    `capacity` is how many parts of the queue it may hold at a time, those that it has already among them;
    None: no limit.
    """

    tenant: str
    queue: str
    instance: str
    leases: tuple[str, ...]
    now: int
    capacity: int | None = None


class Rank(msgspec.Struct, frozen=True, gc=False):
    """Where a part stands in a queue, for an instance that may have it. `is_named`: it names who may."""

    priority: int
    is_named: bool
    created_at: int
    part_id: str


class Sight(msgspec.Struct, frozen=True, gc=False):
    """What a claim would find: the ranks of parts, best first, and how many the instance holds already."""

    ranks: tuple[Rank, ...]
    held: int


class Leased(msgspec.Struct, frozen=True, gc=False):
    """A part in the hands of an instance until `until`; its options are those in force now."""

    lease: str
    until: int
    part: QueuedPart


class Renewed(msgspec.Struct, frozen=True, gc=False):
    """A lease that goes on until `until`. `lease` and `renew` are the lengths in ms from now on.

    `cancelled`: nobody wants the work any more.
    """

    until: int
    lease: int
    renew: int
    cancelled: bool
    job_id: str
    name: PartName


class EndedPart(msgspec.Struct, frozen=True, gc=False):
    """A part that is over, on its way to its job; `request` is what those who claimed it were given."""

    part_id: str
    job_id: str
    name: PartName
    end: PartEnd
    request: OutboundRequest


class Swept(msgspec.Struct, frozen=True, gc=False):
    """What a look at the leases found: parts that are over, and when to look again (None: nothing waits)."""

    ended: tuple[EndedPart, ...]
    next_look: int | None


def rank_of(part: QueuedPart) -> Rank:
    """Where the part stood, by the options that are in force for it."""
    options = part.options
    return Rank(options.priority, bool(options.specific), part.created_at, write_part_id(part.name))


def order_of(rank: Rank) -> tuple[int, bool, int, str]:
    """Who has the least is first: by priority, then what names instances, then age."""
    return -rank.priority, not rank.is_named, rank.created_at, rank.part_id
