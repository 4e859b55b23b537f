"""Parts that instances claim from queues, and their leases (SPEC section 13).

Moments are steady ms unless they say otherwise.
"""

import msgspec

from scheduler_service.domain.parts import PartEnd, PartName, QueuedPart, write_part_id
from scheduler_service.domain.wire import OutboundRequest


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A claim of an instance on a queue; `leases` has a new name for each part that it can take.

    `capacity` is how many parts of the queue it may hold at a time, those that it has included; None: no
    limit.
    """

    tenant: str
    queue: str
    instance: str
    leases: tuple[str, ...]
    now: int
    capacity: int | None = None


class Rank(msgspec.Struct, frozen=True, gc=False):
    """The place of a part in a queue. `is_named`: the part names the instances that may claim it."""

    priority: int
    is_named: bool
    created_at: int
    part_id: str


class Sight(msgspec.Struct, frozen=True, gc=False):
    """What a claim would get: the ranks of parts, best first, and how many the instance holds already."""

    ranks: tuple[Rank, ...]
    held: int


class Leased(msgspec.Struct, frozen=True, gc=False):
    """A part leased to an instance until `until`, with its current options."""

    lease: str
    until: int
    part: QueuedPart


class Renewed(msgspec.Struct, frozen=True, gc=False):
    """A lease renewed until `until`. `lease` and `renew` are its lengths in ms from now on.

    `cancelled`: the work is no longer needed.
    """

    until: int
    lease: int
    renew: int
    cancelled: bool
    job_id: str
    name: PartName


class EndedPart(msgspec.Struct, frozen=True, gc=False):
    """A part that has ended, to be delivered to its job; `request` is the one that its instances got."""

    part_id: str
    job_id: str
    name: PartName
    end: PartEnd
    request: OutboundRequest


class Swept(msgspec.Struct, frozen=True, gc=False):
    """The result of checking leases: ended parts, and when to check again (None: no lease is left)."""

    ended: tuple[EndedPart, ...]
    next_look: int | None


def rank_of(part: QueuedPart) -> Rank:
    """The rank of a part under its current options."""
    options = part.options
    return Rank(options.priority, bool(options.specific), part.created_at, write_part_id(part.name))


def order_of(rank: Rank) -> tuple[int, bool, int, str]:
    """The sort key of ranks: by priority, then parts that name instances, then age."""
    return -rank.priority, not rank.is_named, rank.created_at, rank.part_id
