"""The queues from which instances claim parts of steps."""

from collections.abc import Awaitable
from typing import Protocol

from scheduler_service.domain.leases import Claim, EndedPart, Leased, Renewed, Sight, Swept
from scheduler_service.domain.parts import PartEnd


class Queues(Protocol):
    """The parts in queues, beside the jobs' state; published and withdrawn in the turn's own transaction.

    Each method is one conditional write of the one writer, so that nobody comes between what it reads and
    what it writes. Moments are steady ms. All raise StoreError.
    """

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        """Leases what the instance may have: by priority, those that name it first, then age."""

    def renew(self, lease: str, now: int) -> Awaitable[Renewed | None]:
        """The lease goes on from `now`; None where it is lost."""

    def complete(self, lease: str, end: PartEnd, now: int) -> Awaitable[EndedPart | bool]:
        """The part's end, which its job has to hear of.

        True where there is nothing to tell: nobody awaits it, or the same was said before, which the store
        knows for a day, of the newest 100,000 leases at least. False: the lease is lost, or the part has
        ended otherwise.
        """

    def sweep(self, now: int) -> Awaitable[Swept]:
        """What leases that have ended leave behind; at most 500 of them at a time."""

    def extend(self, now: int) -> Awaitable[None]:
        """After a downtime: no lease ends sooner than its whole length from `now`."""

    def drop(self, part_id: str) -> Awaitable[None]:
        """Forgets an ended part that no job awaits."""

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        """Parts whose end may not have reached their job, in order of their ids."""


class ShardQueues(Queues, Protocol):
    """The queues of one shard of the jobs, of which there are several.

    A lease has one name in one shard at most, now and later: who makes the names sees to it.
    """

    async def look(self, claim: Claim) -> Sight:
        """What the claim would be given without its capacity; writes nothing.

        Sees all that was durable when it was called. Raises StoreUnavailable.
        """
