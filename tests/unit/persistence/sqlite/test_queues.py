"""What the queues of a shard show of themselves before anybody claims (ports.queues.ShardQueues)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.domain.leases import Claim, Rank, Sight, order_of, rank_of
from scheduler_service.domain.parts import write_part_id
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from tests.unit.persistence.queue_bench import DONE, Bench

pytestmark = pytest.mark.anyio


class Counted:
    """Counts the transactions that were begun."""

    def __init__(self) -> None:
        self.begun = 0

    def before(self, point: str) -> None:
        self.begun += point is FaultPoint.BEGIN

    def after(self, point: str) -> None:
        """Nothing to do."""


@pytest.fixture
def faults() -> Counted:
    return Counted()


@pytest.fixture(params=["file", "memory"])
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, faults: Counted
) -> AsyncIterator[SqliteStateStore]:
    folder = tmp_path if request.param == "file" else None
    store = await SqliteStateStore.open(folder=folder, durability="process", faults=faults)
    yield store
    await store.close()


@pytest.fixture
def bench(store: SqliteStateStore) -> Bench:
    return Bench(store)


async def look(
    store: SqliteStateStore, instance: str = "a", most: int = 9, now: int = 0, capacity: int | None = None
) -> Sight:
    leases = tuple(f"look-{place}" for place in range(most))
    return await store.queues.look(Claim("default", "work", instance, leases, now, capacity))


async def test_a_look_shows_what_a_claim_gives(store: SqliteStateStore, bench: Bench) -> None:
    """In its order, at most as many as leases, of a step one part; the capacity is not its concern."""
    await bench.publish()
    await bench.publish(2, specific=("a", "b"))
    await bench.publish(3, priority=5)
    await bench.publish(specific=("b",))
    ranks = (await look(store, capacity=1)).ranks
    assert [(rank.priority, rank.is_named, rank.created_at) for rank in ranks] == [
        (5, False, 3), (0, True, 2), (0, False, 1),
    ]  # fmt: skip
    assert (await look(store, most=2)).ranks == ranks[:2]
    assert (await look(store, most=0)).ranks == ()
    given = await bench.claim("a", most=9)
    assert tuple(rank_of(one.part) for one in given) == ranks
    assert sorted(ranks, key=order_of) == list(ranks)
    assert (await look(store)).ranks == ()


async def test_a_look_counts_what_the_instance_holds(store: SqliteStateStore, bench: Bench) -> None:
    """Its own under lease, in this queue; what is over, unwanted or lost is not held."""
    for _ in range(3):
        await bench.publish(lease=1_000)
    first, _ = await bench.claim("a", most=2)
    await bench.claim("b")
    assert (await look(store)).held == 2
    await bench.queues.complete(first.lease, DONE, 1)
    assert (await look(store)).held == 1
    assert (await look(store, now=1_000)).held == 0


async def test_a_look_sees_what_was_just_written(store: SqliteStateStore, bench: Bench) -> None:
    """Each time, and it writes nothing."""
    for number in range(20):
        (name,) = await bench.publish()
        expected = Rank(0, False, number + 1, write_part_id(name))
        assert (await look(store)).ranks == (expected,)
        await bench.claim("b")


async def test_a_look_writes_nothing(store: SqliteStateStore, bench: Bench, faults: Counted) -> None:
    """No transaction of the writer is begun, whether or not there is something to see."""
    for _ in range(2):
        begun = faults.begun
        await look(store)
        assert faults.begun == begun
        await bench.publish()
