"""The queues from which instances claim parts of steps."""

from collections.abc import Awaitable, Sequence
from typing import Protocol

from scheduler_service.domain.leases import (
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    HeldPart,
    Leased,
    LeaseHolder,
    QueueFigures,
    QueueQuery,
    Renewed,
    Swept,
)
from scheduler_service.domain.step_parts import PartEnd


class Queues(Protocol):
    """The parts in queues, beside the jobs' state; published and withdrawn in the turn's own transaction,
    in a cluster right after it.

    Each method is one conditional write: no other write comes between its read and its write. Moments are
    steady ms. All raise StoreError.
    """

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        """Leases parts that the instance may have: by priority, then those that name it, then age."""

    def renew(self, lease: str, now: int, holder: LeaseHolder | None = None) -> Awaitable[Renewed | None]:
        """The lease goes on from `now`; None: it is lost, or not one of `holder`."""

    def complete(
        self, lease: str, end: PartEnd, now: int, holder: LeaseHolder | None = None
    ) -> Awaitable[EndedPart | bool]:
        """The end of the part, to be delivered to its job.

        True: there is nothing to deliver, because the lease was completed with the same end before; that is
        known for a day, of the newest 100,000 leases at least. False: the lease is lost, or not one of
        `holder`, or the part has ended differently. Where the job does not wait for the part any more, the
        result is withdrawn: the end has no effect, and the lease is lost from now on.
        """

    def free(self, freeing: Freeing) -> Awaitable[Swept | None]:
        """The lease of the part ends now, and the part is free or over, as after a sweep.

        None: nobody holds this part of this queue.
        """

    def sweep(self, now: int) -> Awaitable[Swept]:
        """Frees or ends the parts of expired leases, and ends parts that nobody has claimed within their
        queue timeout, at most 500 of each at a time.
        """

    def extend(self, now: int) -> Awaitable[None]:
        """After a downtime: each lease has its full length from `now`; no queue timeout ends sooner than
        after a minute, or its own length where that is less. Neither that nor a delay ends later than its
        full length from `now`, for the clock may have been set back meanwhile.
        """

    def hold(self, tenant: str, queue: str, now: int) -> Awaitable[None]:
        """The queue is paused: a queue timeout that has passed by `now` ends nothing until `go_on`."""

    def go_on(self, tenant: str, queue: str, since: int, now: int) -> Awaitable[None]:
        """A pause since `since` is over: what was not claimed yet may wait for what was left of its queue
        timeout then, from `now`. Done again it gives more, up to a whole queue timeout, never less.
        """

    def drop(self, part_id: str) -> Awaitable[None]:
        """Deletes an ended part whose job does not wait for it.

        The lease is lost from now on, unless its completion was repeated before: what was accepted again
        stays so.
        """

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        """Parts whose end may not have been delivered to their job, in order of their ids."""

    async def changed(self, after: str, limit: int) -> list[ChangedPart]:
        """Parts that are not over with lease changes that their job has not accepted, in order of ids."""

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        """Queues with parts that wait or are leased, by name; with `query.name` at most that one."""

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        """What is leased of the queue `query.name`, in order of the parts' ids."""


class SharedQueues(Queues, Protocol):
    """The queues of a cluster: every node gives out any part, and delivers what another one has left.

    Leases count by the clock of the cluster. A node that starts extends none while another one is there.
    """

    async def ended(self, after: str, limit: int, before: int | None = None) -> list[EndedPart]:
        """As in `Queues`; `before`: only those that have ended before that steady moment."""

    async def changed(self, after: str, limit: int, before: int | None = None) -> list[ChangedPart]:
        """As in `Queues`; `before`: only those that have changed before that steady moment."""

    async def claimable(self, names: Sequence[tuple[str, str]], now: int) -> list[tuple[str, str]]:
        """Which of these queues (tenant, name) have a part that is free, for one instance or another."""
