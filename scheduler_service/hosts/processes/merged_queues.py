"""The queues of several shards as one (SPEC section 13)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from scheduler_service.domain.leases import (
    ChangedPart,
    Claim,
    EndedPart,
    Freeing,
    HeldPart,
    Leased,
    QueueFigures,
    QueueQuery,
    Renewed,
    Sight,
    Swept,
    merge_figures,
    order_of,
    rank_of,
)
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.parts import PartEnd
from scheduler_service.hosts.processes.fan_out import accept, all_of, settle
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.queues import Queues, ShardQueues

ENDED_PAGE = 500
SWEEP_RETRY_MS = SECOND
"""The pause until a shard whose leases could not be swept is swept again."""

SWEEP_SECONDS = 5.0

Answer = TypeVar("Answer")
ClaimLocks = WeakValueDictionary[tuple[str, str, str], asyncio.Lock]


class MergedQueues:
    """`ports.queues.Queues` over those of all shards, by number; nothing else claims from these shards.

    A lease ends with `.K`, where K is the shard that gave it. That is a hint: the jobs may be divided anew
    between two starts, so where that shard does not know the lease, or the name has no such end, all others
    are asked.

    `clock` says how long a claim has looked: its leases count from then on.
    """

    def __init__(self, *, shards: Sequence[ShardQueues], clock: Clock | None = None) -> None:
        self._shards = shards
        self._clock = clock
        self._by_suffix = {str(number): shard for number, shard in enumerate(shards)}
        self._claim_locks: ClaimLocks = WeakValueDictionary()
        self._unacknowledged: set[int] = set()

    async def claim(self, claim: Claim) -> tuple[Leased, ...]:
        """Leases what one store with all parts would give, the best first; without parts nothing is written.

        Raises StoreUnavailable where a shard is away and the others have given nothing yet. Raises
        StoreUncertain where a shard cannot say whether it wrote: the parts that others gave come back when
        their leases end, as after a caller that hangs up.
        """
        if claim.capacity is None:
            return await self._claim(claim)
        # Its leases are counted in all shards before one of them writes, so its claims run one at a time.
        key = (claim.tenant, claim.queue, claim.instance)
        async with self._claim_locks.setdefault(key, asyncio.Lock()):
            return await self._claim(claim)

    async def renew(self, lease: str, now: int) -> Renewed | None:
        """The lease goes on from `now`; None where it is lost."""
        return await self._first_that_knows(lease, lambda shard: shard.renew(lease, now))

    async def complete(self, lease: str, end: PartEnd, now: int) -> EndedPart | bool:
        """Ends a part, in the shard that knows its lease.

        A shard that does not know the lease returns False, as does one that refuses the end. The others are
        asked in both cases, and none of them can overrule a refusal: a lease is known to one shard, in which
        it was made and completed, or to several that were given the same fact when the jobs were divided.
        """
        return await self._first_that_knows(lease, lambda shard: shard.complete(lease, end, now))

    async def free(self, freeing: Freeing) -> Swept | None:
        """Ends the lease in the shard that has the part; its id does not name that shard.

        Raises StoreError where no shard holds it and one is away.
        """
        answers = await settle([shard.free(freeing) for shard in self._shards])
        freed = next((answer for answer in answers if isinstance(answer, Swept)), None)
        return freed or accept(answers)[0]

    async def sweep(self, now: int) -> Swept:
        """Sweeps each shard, 500 leases at a time; one that is away is swept again in a second.

        The next sweep of a shard after an error returns all its unacknowledged ends. Raises StoreError where
        all are away.
        """
        answers = await settle([self._sweep(number, now) for number in range(len(self._shards))])
        swept = [answer for answer in answers if isinstance(answer, Swept)]
        if not swept:
            accept(answers)
        looks = [one.next_look for one in swept if one.next_look is not None]
        if len(swept) < len(answers):
            looks.append(now + SWEEP_RETRY_MS)
        ended = tuple(one for shard in swept for one in shard.ended)
        return Swept(ended, min(looks, default=None), tuple(one for shard in swept for one in shard.freed))

    async def extend(self, now: int) -> None:
        """After a downtime: no lease ends sooner than its whole length from `now`."""
        await all_of([shard.extend(now) for shard in self._shards])

    async def hold(self, tenant: str, queue: str, now: int) -> None:
        """In each shard that is there: one that comes back has given its parts a minute more."""
        answers = await settle([shard.hold(tenant, queue, now) for shard in self._shards])
        if all(isinstance(answer, StoreError) for answer in answers):
            accept(answers)

    async def go_on(self, tenant: str, queue: str, since: int, now: int) -> None:
        """In all shards. Raises StoreError where one is away: the pause is not over then."""
        await all_of([shard.go_on(tenant, queue, since, now) for shard in self._shards])

    async def drop(self, part_id: str) -> None:
        """Removes an ended part in all shards: a part's id does not name its job, and few are dropped.

        A shard that is away keeps it until it is back and returns its unacknowledged ends once more.
        """
        answers = await settle([shard.drop(part_id) for shard in self._shards])
        if all(isinstance(answer, StoreError) for answer in answers):
            accept(answers)

    async def ended(self, after: str, limit: int) -> list[EndedPart]:
        """Parts whose end may not have reached their job, in order of their ids."""
        pages = await all_of([shard.ended(after, limit) for shard in self._shards])
        return sorted((one for page in pages for one in page), key=lambda one: one.part_id)[:limit]

    async def changed(self, after: str, limit: int) -> list[ChangedPart]:
        """Parts with lease changes that may not have reached their job, in order of their ids."""
        pages = await all_of([shard.changed(after, limit) for shard in self._shards])
        return sorted((one for page in pages for one in page), key=lambda one: one.part_id)[:limit]

    async def figures(self, query: QueueQuery) -> list[QueueFigures]:
        """The queues of all shards, each with its sums. Raises StoreError where one shard is away."""
        pages = await all_of([shard.figures(query) for shard in self._shards])
        return merge_figures((one for page in pages for one in page), query.limit)

    async def held(self, query: QueueQuery) -> list[HeldPart]:
        """What is leased of a queue. Raises StoreError where one shard is away."""
        pages = await all_of([shard.held(query) for shard in self._shards])
        return sorted((one for page in pages for one in page), key=lambda one: one.part_id)[: query.limit]

    async def _claim(self, claim: Claim) -> tuple[Leased, ...]:
        taken: list[Leased] = []
        began = self._steady()
        try:
            # This ends: a shard gives less than it showed only where another claim got the part, or where the
            # parts are large.
            while await self._is_overtaken(claim, taken, began) and _weigh(taken) < claim.room // 2:
                claim = _without(claim, taken)
        except StoreUnavailable:
            if not taken:
                raise
        return tuple(taken)

    async def _is_overtaken(self, claim: Claim, taken: list[Leased], began: int) -> bool:
        """Adds to `taken` what the shards give; True: another claim was faster, so that there may be more."""
        sights = await all_of([shard.look(claim) for shard in self._shards])
        # A lease counts from when it is given, not from when it was asked for.
        claim = msgspec.structs.replace(claim, now=claim.now + self._steady() - began)
        claims = divide(claim, sights)
        answers = await settle([self._shards[number].claim(some) for number, some in claims.items()])
        given = [leased for answer in answers if isinstance(answer, tuple) for leased in answer]
        taken += sorted(given, key=lambda leased: order_of(rank_of(leased.part)))
        accept(answers)
        return len(given) < sum(len(some.leases) for some in claims.values())

    def _steady(self) -> int:
        return 0 if self._clock is None else self._clock.now().steady

    async def _first_that_knows(self, lease: str, call: Callable[[Queues], Awaitable[Answer]]) -> Answer:
        """The answer of the shard that knows the lease. Raises StoreError where none does and one failed."""
        answers: list[Answer | StoreError] = []
        for shard in self._in_order(lease):
            (answer,) = await settle([call(shard)])
            if answer and not isinstance(answer, StoreError):
                return answer
            answers.append(answer)
        return accept(answers)[0]

    def _in_order(self, lease: str) -> Iterable[Queues]:
        """All shards, first the one that the lease's suffix names."""
        hinted = self._by_suffix.get(lease.rpartition(".")[2])
        if hinted is not None:
            yield hinted
        yield from (shard for shard in self._shards if shard is not hinted)

    async def _sweep(self, number: int, now: int) -> Swept:
        """Sweeps one shard; after an error, all its ended parts: earlier ends may not have been delivered."""
        shard = self._shards[number]
        try:
            swept = await _in_time(shard.sweep(now), number)
            if number in self._unacknowledged:
                swept = Swept(
                    tuple(await _all_ended(shard)), swept.next_look, tuple(await _all_changed(shard))
                )
        except StoreError:
            self._unacknowledged.add(number)
            raise
        self._unacknowledged.discard(number)
        return swept


def divide(claim: Claim, sights: Sequence[Sight]) -> dict[int, Claim]:
    """The claim of each shard, so that together they take the best parts of all within the capacity.

    Each lease gets the number of its shard as a suffix, `.K`.
    """
    free = len(claim.leases)
    if claim.capacity is not None:
        free = max(min(free, claim.capacity - sum(sight.held for sight in sights)), 0)
    shown = sorted((order_of(rank), number) for number, sight in enumerate(sights) for rank in sight.ranks)
    claims: dict[int, Claim] = {}
    names = iter(claim.leases)
    counts = Counter(number for _, number in shown[:free])
    for number, count in counts.items():
        leases, room = tuple(f"{next(names)}.{number}" for _ in range(count)), claim.room // len(counts)
        claims[number] = msgspec.structs.replace(claim, leases=leases, capacity=None, room=room)
    return claims


def _weigh(taken: Sequence[Leased]) -> int:
    return sum(len(leased.part.request.body or b"") for leased in taken)


def _without(claim: Claim, taken: Sequence[Leased]) -> Claim:
    """The claim with the lease names that no part has yet."""
    used = {leased.lease.rpartition(".")[0] for leased in taken}
    return msgspec.structs.replace(claim, leases=tuple(name for name in claim.leases if name not in used))


async def _in_time(sweeping: Awaitable[Swept], number: int) -> Swept:
    """Its result. Raises StoreUncertain where that takes long: leases of other shards do not wait for it."""
    try:
        async with asyncio.timeout(SWEEP_SECONDS):
            return await sweeping
    except TimeoutError:
        late = f"shard {number} was not swept within {SWEEP_SECONDS:g} s"
        raise StoreUncertain(late, is_public=True) from None


async def _all_ended(shard: Queues) -> list[EndedPart]:
    found = page = await shard.ended("", ENDED_PAGE)
    while len(page) == ENDED_PAGE:
        page = await shard.ended(page[-1].part_id, ENDED_PAGE)
        found = [*found, *page]
    return found


async def _all_changed(shard: Queues) -> list[ChangedPart]:
    found = page = await shard.changed("", ENDED_PAGE)
    while len(page) == ENDED_PAGE:
        page = await shard.changed(page[-1].part_id, ENDED_PAGE)
        found = [*found, *page]
    return found
