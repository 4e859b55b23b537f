"""The queues of several shares as one (SPEC section 13)."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from scheduler_service.domain.leases import Claim, EndedPart, Leased, Renewed, Swept
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import PartEnd
from scheduler_service.hosts.processes.fan_out import accept, all_of, settle
from scheduler_service.hosts.processes.merged_claim import MergedClaim
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.queues import Queues, ShardQueues

PAGE = 500
AGAIN = SECOND
"""When a share whose leases could not be swept is looked at again."""

KnownCompletion = TypeVar("KnownCompletion")


class MergedQueues:
    """`ports.instances.Queues` over those of all shares, by number.

    A lease ends with `.K`, where K is the share that gave it. That is a hint: the jobs may be divided anew
    between two starts, so where that share does not know the lease, or the name has no such end, all others
    are asked.
    """

    def __init__(self, *, shares: Sequence[ShardQueues]) -> None:
        self._shares = shares
        self._claiming = MergedClaim(shares=shares)
        self._hints = {str(number): share for number, share in enumerate(shares)}
        self._untold: set[int] = set()

    def claim(self, claim: Claim) -> Awaitable[tuple[Leased, ...]]:
        """As in the port."""
        return self._claiming.claim(claim)

    async def renew(self, lease: str, now: int) -> Renewed | None:
        """As in the port."""
        return await self._ask(lease, lambda share: share.renew(lease, now))

    async def complete(self, lease: str, end: PartEnd, now: int) -> EndedPart | bool:
        """As in the port.

        A share that does not know the lease says False, as does one that refuses the end. The others are
        asked in both cases, and none of them can overrule a refusal: a lease is known to one share, in which
        it was made and completed, or to several that were given the same fact when the jobs were divided.
        """
        return await self._ask(lease, lambda share: share.complete(lease, end, now))

    async def sweep(self, now: int) -> Swept:
        """As in the port, of each share 500 at a time; one that is away is looked at again in a second.

        What it ended before, unheard, is told then. Raises StoreError where all are away.
        """
        asked = range(len(self._shares))
        answers = await settle([self._sweep(number, now) for number in asked])
        swept = [answer for answer in answers if isinstance(answer, Swept)]
        if not swept:
            accept(answers)
        looks = [one.next_look for one in swept if one.next_look is not None]
        if len(swept) < len(answers):
            looks.append(now + AGAIN)
        return Swept(tuple(ended for one in swept for ended in one.ended), min(looks, default=None))

    async def extend(self, now: int) -> None:
        """As in the port."""
        await all_of([share.extend(now) for share in self._shares])

    async def drop(self, part_id: str) -> None:
        """As in the port. All are asked: a part's id does not tell its job, and few are dropped.

        A share that is away has its turn when it is back: then its ends are told once more.
        """
        answers = await settle([share.drop(part_id) for share in self._shares])
        if all(isinstance(answer, StoreError) for answer in answers):
            accept(answers)

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        """As in the port."""
        pages = await all_of([share.ended(after, limit) for share in self._shares])
        return sorted((one for page in pages for one in page), key=lambda one: one.part_id)[:limit]

    async def _ask(self, lease: str, ask: Callable[[Queues], Awaitable[KnownCompletion]]) -> KnownCompletion:
        """What the share says that knows the lease; an error counts where nobody else knows it."""
        answers: list[KnownCompletion | StoreError] = []
        for share in self._in_order(lease):
            (answer,) = await settle([ask(share)])
            if answer and not isinstance(answer, StoreError):
                return answer
            answers.append(answer)
        return accept(answers)[0]

    def _in_order(self, lease: str) -> Iterable[Queues]:
        """All shares, that of the name's end first."""
        hinted = self._hints.get(lease.rpartition(".")[2])
        if hinted is not None:
            yield hinted
        yield from (share for share in self._shares if share is not hinted)

    async def _sweep(self, number: int, now: int) -> Swept:
        """What the share's leases leave behind, and after an error all that nobody may have heard of."""
        share = self._shares[number]
        try:
            swept = await share.sweep(now)
            if number in self._untold:
                swept = Swept(tuple(await _all_ended(share)), swept.next_look)
        except StoreError:
            self._untold.add(number)
            raise
        self._untold.discard(number)
        return swept


async def _all_ended(share: Queues) -> list[EndedPart]:
    found = page = await share.ended("", PAGE)
    while len(page) == PAGE:
        page = await share.ended(page[-1].part_id, PAGE)
        found = [*found, *page]
    return found
