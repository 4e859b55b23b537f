"""A claim over the queues of several shards: searched in all, taken where the best parts are."""

import asyncio
from typing import cast

import pytest

from scheduler_service.hosts.processes.merged_queues import MergedQueues
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import OpenStore
from tests.manual_clock import ManualClock
from tests.unit.hosts.processes.memory_shards import MemoryShards
from tests.unit.hosts.processes.queue_life import asked, unsure
from tests.unit.persistence.queue_bench import Bench

pytestmark = pytest.mark.anyio


async def test_two_claims_of_one_instance_never_pass_its_capacity(store: MemoryShards, bench: Bench) -> None:
    """However many ask at once; another instance, or one without a limit, waits for nobody."""
    for _ in range(12):
        await bench.publish()
    given = await asyncio.gather(*(bench.claim("a", most=3, capacity=4) for _ in range(5)))
    assert sum(map(len, given)) == 4
    others = await asyncio.gather(bench.claim("b", most=3, capacity=4), bench.claim("c", most=3))
    assert [len(some) for some in others] == [3, 3]


async def test_parts_are_in_one_hand_whoever_asks_at_once(bench: Bench) -> None:
    """Who was overtaken looks again, and gets what is left: nobody leaves empty-handed beside free parts."""
    for _ in range(9):
        await bench.publish()
    given = await asyncio.gather(*(bench.claim(name, most=3) for name in "abc"))
    assert [len(some) for some in given] == [3, 3, 3]
    names = [one.part.name.execute_number for some in given for one in some]
    assert sorted(names) == list(range(1, 10))
    assert len({one.lease for some in given for one in some}) == 9


async def test_who_was_overtaken_looks_again(store: MemoryShards, bench: Bench) -> None:
    """Between the look and the claim somebody else has taken the best: the next ones are there."""
    store.place = lambda execution: 0 if execution < 3 else 1
    for _ in range(4):
        await bench.publish()
    store.calls[0].before["claim"] = lambda: bench.claim("b", most=1)
    given = await bench.claim("a", most=2)
    assert [one.part.name.execute_number for one in given] == [2, 3]
    assert await bench.executions_of("c", most=9) == [4]


async def test_where_nothing_is_shown_nothing_is_written(store: MemoryShards, bench: Bench) -> None:
    """A look is a read; where one shard shows something, that one alone is asked for it, once."""
    assert await bench.claim("a", most=3) == ()
    assert (asked(store, "look"), asked(store, "claim")) == ([1, 1, 1], [0, 0, 0])
    await bench.publish()
    assert len(await bench.claim("a", most=3)) == 1
    assert (asked(store, "look"), asked(store, "claim")) == ([2, 2, 2], [0, 1, 0])


async def test_a_claim_fails_where_a_shard_is_away(store: MemoryShards, bench: Bench) -> None:
    """What it holds there, and what is better there, is unknown. What others gave already is not lost."""
    for _ in range(3):
        await bench.publish()
    store.calls[1].before["claim"] = store.stores[1].close
    given = await bench.claim("a", most=3)
    assert sorted(one.part.name.execute_number for one in given) == [2, 3]
    with pytest.raises(StoreUnavailable):
        await bench.claim("a", most=3)


async def test_a_claim_of_which_a_shard_cannot_say_whether_it_wrote(
    store: MemoryShards, bench: Bench
) -> None:
    """An error, so that whoever asked looks at the leases: all of it comes back when they end."""
    for _ in range(3):
        await bench.publish(lease=1_000, delay=0)
    store.calls[1].after["claim"] = unsure
    with pytest.raises(StoreUncertain):
        await bench.claim("a", most=3)
    assert (await bench.queues.sweep(0)).next_look == 1_000
    await bench.queues.sweep(1_000)
    assert sorted(await bench.executions_of("b", most=3, now=1_000)) == [1, 2, 3]


async def test_a_lease_counts_from_when_it_is_given() -> None:
    """Not from when it was asked for: a process may have stood still while it was looked at."""
    store = await MemoryShards.open()
    clock = ManualClock(wall=10_000)
    queues = MergedQueues(shards=store.calls, clock=clock)
    bench = Bench(cast("OpenStore", store))
    bench.queues = queues
    await bench.publish(lease=1_000, retries=0)

    async def stand_still() -> None:
        clock.advance(4_000)

    store.calls[2].before["look"] = stand_still
    (leased,) = await bench.claim("a", now=10_000)
    assert leased.until == 15_000
    assert (await queues.sweep(14_999)).ended == ()
    await store.close()
