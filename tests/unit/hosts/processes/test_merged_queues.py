"""The queues of several shards are those of one store (SPEC section 13): claims, leases, ends, and errors."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.effects import WithdrawParts
from scheduler_service.domain.leases import Claim, EndedPart, Leased, Swept
from scheduler_service.domain.parts import PartEnd, write_part_id
from scheduler_service.hosts.processes.merged_queues import SWEEP_RETRY_MS
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from tests.unit.hosts.processes.memory_shards import MemoryShards
from tests.unit.hosts.processes.queue_life import asked, unsure
from tests.unit.persistence.queue_bench import DONE, Bench

pytestmark = pytest.mark.anyio


INSTANCES = st.sampled_from(["a", "b"])
PUBLISHED = st.tuples(
    st.just("publish"),
    st.integers(1, 3),
    st.fixed_dictionaries(
        {
            "priority": st.integers(-1, 1),
            "specific": st.sampled_from([(), (), ("a",), ("a", "b"), ("c",)]),
            "lease": st.sampled_from([1_000, 5_000]),
        }
    ),
)
CLAIMED = st.tuples(st.just("claim"), INSTANCES, st.integers(1, 6), st.sampled_from([None, None, 1, 2, 4]))
ENDED = st.tuples(st.just("end"), st.integers(0, 5))
PASSED = st.tuples(st.just("pass"), st.sampled_from([500, 1_000, 10_000]))
ACTS = st.lists(st.one_of(PUBLISHED, PUBLISHED, CLAIMED, CLAIMED, ENDED, PASSED), min_size=3, max_size=25)


class Life:
    """A queue and what happens to it, recorded so that two of them can be compared."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.now = 0
        self.held: list[Leased] = []

    async def act(self, kind: str, *said: Any) -> object:
        match kind:
            case "publish":
                return await self.bench.publish(said[0], **said[1])
            case "claim":
                instance, most, capacity = said
                given = await self.bench.claim(instance, most=most, now=self.now, capacity=capacity)
                self.held += given
                return [(one.part, one.until) for one in given]
            case "end" if self.held:
                lease = self.held.pop(said[0] % len(self.held)).lease
                return await self.bench.queues.complete(lease, DONE, self.now)
            case "pass":
                self.now += said[0]
                swept = await self.bench.queues.sweep(self.now)
                return sorted(one.part_id for one in swept.ended), swept.next_look
        return None


async def compare(acts: list[tuple[Any, ...]], places: list[int]) -> None:
    """One store and three shards live through the same."""
    alone, shards = await SqliteStateStore.open(folder=None), await MemoryShards.open()
    shards.place = lambda execution: places[execution % len(places)]
    lives = [Life(Bench(alone)), Life(Bench(shards))]  # type: ignore[arg-type]
    try:
        for act in acts:
            one, merged = [await life.act(*act) for life in lives]
            assert merged == one, act
        ends = [await life.bench.queues.ended("", 99) for life in lives]
        assert ends[0] == ends[1]
    finally:
        await alone.close()
        await shards.close()


@settings(deadline=None, max_examples=50)
@given(acts=ACTS, places=st.lists(st.integers(0, 2), min_size=1, max_size=7))
def test_shards_give_what_one_store_gives(acts: list[tuple[Any, ...]], places: list[int]) -> None:
    """The same parts in the same order, whatever their priorities, names, ages, steps and capacities."""
    asyncio.run(compare(acts, places))


async def test_a_lease_tells_its_shard(store: MemoryShards, bench: Bench) -> None:
    """No other shard is asked for it as long as its own knows it."""
    store.place = lambda execution: 2
    await bench.publish()
    (leased,) = await bench.claim()
    assert leased.lease == "lease-0.2"
    assert await bench.queues.renew(leased.lease, 1) is not None
    assert isinstance(await bench.queues.complete(leased.lease, DONE, 2), EndedPart)
    assert await bench.queues.complete(leased.lease, DONE, 3) is True
    assert (asked(store, "renew"), asked(store, "complete")) == ([0, 0, 1], [0, 0, 2])


NONSENSE = [
    "",
    ".",
    "x",
    "lease-0",
    "lease-0.7",
    "lease-0.-1",
    "lease-0.²",
    "a.0.9",
    "a.\x00",
    "9" * 5_000,
]


@pytest.mark.parametrize("lease", NONSENSE)
async def test_an_odd_lease_is_lost_and_no_error(bench: Bench, lease: str) -> None:
    """Names that no claim has made, whatever they end with."""
    assert await bench.queues.renew(lease, 0) is None
    assert await bench.queues.complete(lease, DONE, 0) is False


@pytest.mark.parametrize("lease", ["old", "old.0", "old.1", "old.2", "old.31"])
async def test_a_lease_is_known_wherever_its_part_lives_now(
    store: MemoryShards, bench: Bench, lease: str
) -> None:
    """The jobs were divided anew, or the lease is older than its end: it goes on all the same."""
    store.place = lambda execution: 1
    await bench.publish()
    await store.stores[1].queues.claim(Claim("default", "work", "a", (lease,), 0))
    assert await bench.queues.renew(lease, 1) is not None
    assert isinstance(await bench.queues.complete(lease, DONE, 2), EndedPart)
    assert await bench.queues.complete(lease, DONE, 3) is True
    assert await bench.queues.complete(lease, PartEnd(error="no"), 3) is False
    await bench.write(WithdrawParts("uid", 1))
    assert await bench.queues.complete(lease, DONE, 4) is True
    assert await bench.queues.complete(lease, PartEnd(error="no"), 4) is False


async def test_a_lease_is_known_while_another_shard_is_away(store: MemoryShards, bench: Bench) -> None:
    """Its own shard decides; where that one is away nobody says that the lease is lost."""
    store.place = lambda execution: execution
    for _ in range(2):
        await bench.publish()
    leases = {one.lease[-1]: one.lease for one in await bench.claim(most=2)}
    await store.stores[1].close()
    assert await bench.queues.renew(leases["2"], 1) is not None
    assert isinstance(await bench.queues.complete(leases["2"], DONE, 2), EndedPart)
    for call in (bench.queues.renew(leases["1"], 1), bench.queues.complete(leases["1"], DONE, 2)):
        with pytest.raises(StoreUnavailable):
            await call


@pytest.mark.parametrize("lease", ["old.0", "old.1"])
async def test_a_completion_of_which_nobody_knows_is_uncertain(
    store: MemoryShards, bench: Bench, lease: str
) -> None:
    """It may be durable, whoever else is away and whoever is asked first: said again, it is."""
    store.place = lambda execution: 1
    await bench.publish()
    await store.stores[1].queues.claim(Claim("default", "work", "a", (lease,), 0))
    store.calls[1].after["complete"] = unsure
    await store.stores[0].close()
    with pytest.raises(StoreUncertain):
        await bench.queues.complete(lease, DONE, 1)
    assert await bench.queues.complete(lease, DONE, 1) is True


async def leased_everywhere(bench: Bench) -> None:
    """A part of each shard in somebody's hands, which ends with its lease."""
    for _ in range(3):
        await bench.publish(lease=1_000, retries=0)
    await bench.claim("a", most=3)


async def test_a_sweep_ends_leases_everywhere(bench: Bench) -> None:
    """All that have ended, and looks again when the first of the others ends."""
    await leased_everywhere(bench)
    await bench.publish(lease=7_000)
    await bench.claim("b")
    swept = await bench.queues.sweep(1_000)
    assert (sorted(one.job_id for one in swept.ended), swept.next_look) == (
        ["job-1", "job-2", "job-3"],
        7_000,
    )
    assert await bench.queues.sweep(1_000) == Swept((), 7_000)


async def test_a_sweep_tells_what_ended_while_a_shard_is_away(store: MemoryShards, bench: Bench) -> None:
    """These ends are durable and would not be found again; the other shard is looked at again soon."""
    await leased_everywhere(bench)
    await store.stores[1].close()
    swept = await bench.queues.sweep(1_000)
    assert sorted(one.job_id for one in swept.ended) == ["job-2", "job-3"]
    assert swept.next_look == 1_000 + SWEEP_RETRY_MS
    for number in (0, 2):
        await store.stores[number].close()
    with pytest.raises(StoreUnavailable):
        await bench.queues.sweep(2_000)


async def test_what_a_shard_ended_unheard_is_told(store: MemoryShards, bench: Bench) -> None:
    """It went away after the write: with the next sweep that it answers, and once."""
    await leased_everywhere(bench)
    store.calls[1].after["sweep"] = unsure
    swept = await bench.queues.sweep(1_000)
    assert sorted(one.job_id for one in swept.ended) == ["job-2", "job-3"]
    store.calls[1].after["ended"] = unsure
    assert (await bench.queues.sweep(2_000)).ended == ()
    swept = await bench.queues.sweep(3_000)
    assert ([one.job_id for one in swept.ended], swept.next_look) == (["job-1"], None)
    assert (await bench.queues.sweep(3_000)).ended == ()


async def test_ends_are_merged_and_dropped_everywhere(store: MemoryShards, bench: Bench) -> None:
    """Pages in order of ids over all shards; a part is dropped wherever it lives."""
    names = [(await bench.publish())[0] for _ in range(7)]
    for leased in await bench.claim(most=7):
        await bench.queues.complete(leased.lease, DONE, 1)
    ids = sorted(map(write_part_id, names))
    found = await bench.queues.ended("", 3)
    found += await bench.queues.ended(found[-1].part_id, 99)
    assert [one.part_id for one in found] == ids
    for part_id in ids[:-1]:
        await bench.queues.drop(part_id)
    assert [one.part_id for one in await bench.queues.ended("", 9)] == ids[-1:]
    await store.stores[0].close()
    for call in (bench.queues.ended("", 9), bench.queues.extend(0)):
        with pytest.raises(StoreUnavailable):
            await call
    await bench.queues.drop("x")  # where it is away, it returns its ends once more when it is back
    for one in store.stores[1:]:
        await one.close()
    with pytest.raises(StoreUnavailable):
        await bench.queues.drop("x")
