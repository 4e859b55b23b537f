"""Parts that instances claim from queues, and their leases (SPEC section 13).

Moments are steady ms unless they say otherwise.
"""

from collections.abc import Iterable

import msgspec

from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.step_parts import LeaseChange, PartEnd, PartName, QueuedPart
from scheduler_service.domain.wire import OutboundRequest

CLAIMED, LOST, WITHDRAWN = "claimed", "lost", "withdrawn"
"""What happened to a lease, in the stores, in the history and on the wire."""
DOWNTIME_GRACE_MS = MINUTE
"""The least time that a part has after a start of the scheduler, SPEC section 8."""

CLAIM_BYTES = 2 << 20
"""A claim gets parts of so many bytes together, as stored, or one that is larger."""


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A claim of an instance on a queue; `leases` has a new name for each part that it can take.

    `capacity` is how many parts of the queue it may hold at a time, those that it has included; None: no
    limit. `room`: it gets no further part where they would have more bytes.
    """

    tenant: str
    queue: str
    instance: str
    leases: tuple[str, ...]
    now: int
    capacity: int | None = None
    room: int = CLAIM_BYTES


class LeaseHolder(msgspec.Struct, frozen=True, gc=False):
    """Who may say something of a lease: its tenant; with `queue` what is in that queue alone."""

    tenant: str
    queue: str | None = None

    def may_hold(self, tenant: str, queue: str) -> bool:
        """Whether a lease of this queue can be its."""
        return tenant == self.tenant and self.queue in (None, queue)


class Leased(msgspec.Struct, frozen=True, gc=False):
    """A part leased to an instance until `until`, with its current options.

    `changes` are those of its leases that its job has not taken yet, this one included. `first_claim` is that
    of its step: the attempt's limit counts from it.
    """

    lease: str
    until: int
    part: QueuedPart
    changes: tuple[LeaseChange, ...] = ()
    first_claim: int | None = None


class Freeing(msgspec.Struct, frozen=True, gc=False):
    """Asks to end the lease of a part of a queue at `now`, whoever has it.

    `lease`: only while the part is under this one, which is handed back: nobody has worked on it, so that it
    is not counted as a retry, and is free without a delay.
    """

    tenant: str
    queue: str
    part_id: str
    now: int
    lease: str | None = None


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
    """A part that has ended, to be delivered to its job; `request` is the one that its instances got.

    `changes` as in `Leased`. `is_withdrawn`: its job did not wait for it any more; nothing is delivered.
    """

    part_id: str
    job_id: str
    name: PartName
    end: PartEnd
    request: OutboundRequest
    changes: tuple[LeaseChange, ...] = ()
    is_withdrawn: bool = False


class ChangedPart(msgspec.Struct, frozen=True, gc=False):
    """A part that is not over, with the changes of its leases that its job has not taken yet."""

    part_id: str
    job_id: str
    name: PartName
    changes: tuple[LeaseChange, ...]


class Swept(msgspec.Struct, frozen=True, gc=False):
    """The result of checking leases and queue timeouts: ended parts, parts that are free again, and when to
    check again (None: nothing has a moment).
    """

    ended: tuple[EndedPart, ...]
    next_look: int | None
    freed: tuple[ChangedPart, ...] = ()


class QueueQuery(msgspec.Struct, frozen=True, gc=False):
    """Asks for the figures of queues, or for what is held of the queue `name`: at most `limit` after `after`.

    `after` is the name of a queue, or the id of a part.
    """

    tenant: str
    name: str | None = None
    after: str = ""
    limit: int = 50


class QueueFigures(msgspec.Struct, frozen=True, gc=False):
    """A queue: how many parts wait, since when the oldest of them does (wall ms), and how many are leased."""

    name: str
    depth: int = 0
    oldest: int | None = None
    held: int = 0


class HeldPart(msgspec.Struct, frozen=True, gc=False):
    """A part that `instance` has under a lease until `until`; `total` is the number of parts of its step."""

    part_id: str
    job_id: str
    name: PartName
    total: int
    instance: str
    until: int


def merge_figures(found: Iterable[QueueFigures], limit: int) -> list[QueueFigures]:
    """The sums for each queue, in order of the names, at most `limit`."""
    merged: dict[str, QueueFigures] = {}
    for one in found:
        other = merged.get(one.name, QueueFigures(one.name))
        known = [moment for moment in (one.oldest, other.oldest) if moment is not None]
        merged[one.name] = QueueFigures(
            one.name, one.depth + other.depth, min(known, default=None), one.held + other.held
        )
    return [merged[name] for name in sorted(merged)[:limit]]
