"""A claim over the queues of several shares: looked for in all, taken where the best parts are."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from weakref import WeakValueDictionary

import msgspec

from scheduler_service.domain.leases import Claim, Leased, Sight, order_of, rank_of
from scheduler_service.hosts.processes.fan_out import accept, all_of, settle
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.queues import ShardQueues

Turns = WeakValueDictionary[tuple[str, str, str], asyncio.Lock]


class MergedClaim:
    """Claims what one store with all parts would give; nobody else claims from these shares.

    Each lease is given the number of its share as a suffix, `.K`.
    """

    def __init__(self, *, shares: Sequence[ShardQueues]) -> None:
        self._shares = shares
        self._turns: Turns = WeakValueDictionary()

    async def claim(self, claim: Claim) -> tuple[Leased, ...]:
        """Leases what the instance may have, the best first; where nothing is shown nothing is written.

        Where a share is away, nothing, unless others gave something already. Where one cannot say whether it
        wrote, what others gave comes back with its lease, like that of who hung up. Raises StoreError.
        """
        if claim.capacity is None:
            return await self._claim(claim)
        # What it holds is counted in all shares before one of them writes: its claims take turns.
        key = (claim.tenant, claim.queue, claim.instance)
        async with self._turns.setdefault(key, asyncio.Lock()):
            return await self._claim(claim)

    async def _claim(self, claim: Claim) -> tuple[Leased, ...]:
        taken: list[Leased] = []
        try:
            # This ends: each time that a share gives less than it showed, somebody else has got it.
            while await self._is_outrun(claim, taken):
                claim = _without(claim, taken)
        except StoreUnavailable:
            if not taken:
                raise
        return tuple(taken)

    async def _is_outrun(self, claim: Claim, taken: list[Leased]) -> bool:
        """Takes what is shown; whether somebody was faster, so that there may be more. Raises StoreError."""
        asked = divide(claim, await all_of([share.look(claim) for share in self._shares]))
        answers = await settle([self._shares[number].claim(some) for number, some in asked.items()])
        given = [leased for answer in answers if isinstance(answer, tuple) for leased in answer]
        taken += sorted(given, key=lambda leased: order_of(rank_of(leased.part)))
        accept(answers)
        return len(given) < sum(len(some.leases) for some in asked.values())


def divide(claim: Claim, sights: Sequence[Sight]) -> dict[int, Claim]:
    """What to claim in which share, so that the whole is the best of all and within the capacity."""
    room = len(claim.leases)
    if claim.capacity is not None:
        room = max(min(room, claim.capacity - sum(sight.held for sight in sights)), 0)
    shown = sorted((order_of(rank), number) for number, sight in enumerate(sights) for rank in sight.ranks)
    asked: dict[int, Claim] = {}
    names = iter(claim.leases)
    for number, count in Counter(number for _, number in shown[:room]).items():
        leases = tuple(f"{next(names)}.{number}" for _ in range(count))
        asked[number] = msgspec.structs.replace(claim, leases=leases, capacity=None)
    return asked


def _without(claim: Claim, taken: Sequence[Leased]) -> Claim:
    """The claim with the names that no part has yet."""
    used = {leased.lease.rpartition(".")[0] for leased in taken}
    return msgspec.structs.replace(claim, leases=tuple(name for name in claim.leases if name not in used))
