"""What the queues of a cluster promise beyond the suites: several nodes at once, and turns that come late."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from scheduler_service.domain.effects import PublishParts, QueueWrite, WithdrawParts
from scheduler_service.domain.leases import Claim, EndedPart, Leased
from scheduler_service.domain.step_parts import PartName, QueuedPart, QueueOptions
from scheduler_service.persistence.cluster.cluster_queues import ClusterQueues
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.cluster import QueueTurn
from tests.unit.persistence.cluster_store import ClusterStore
from tests.unit.persistence.queue_bench import DONE, REQUEST

pytestmark = pytest.mark.anyio
DOWNTIME = 10_000


class Nodes:
    """Some nodes over one database, each with connections of its own."""

    def __init__(self, databases: list[JobDatabase]) -> None:
        self.stores = [TurnStore(database=one) for one in databases]
        self.queues = [ClusterQueues(database=one, downtime=DOWNTIME) for one in databases]
        self.leases = 0

    async def publish(self, executions: int, total: int = 1, **options: Any) -> None:
        """So many steps, each with as many parts, by one turn."""
        parts = [
            queued(PartName("uid", number, 1, 0, index), total, **options)
            for number in range(1, executions + 1)
            for index in range(total)
        ]
        await self.stores[0].enqueue(QueueTurn("uid", 1, 0, (PublishParts(tuple(parts)),)))

    async def claim(
        self, node: int, instance: str, most: int = 1, now: int = 0, capacity: int | None = None
    ) -> tuple[Leased, ...]:
        """What the instance is given there."""
        leases = tuple(f"lease-{self.leases + place}" for place in range(most))
        self.leases += most
        return await self.queues[node].claim(Claim("default", "work", instance, leases, now, capacity))


@pytest.fixture
async def nodes(cluster_url: str) -> AsyncIterator[Nodes]:
    """Three over each server, as processes that know nothing of each other."""
    async with AsyncExitStack() as stack:
        databases = [await JobDatabase.open(url=cluster_url) for _ in range(3)]
        for database in databases:
            stack.push_async_callback(database.close)
        yield Nodes(databases)


def queued(name: PartName, total: int = 1, **options: Any) -> QueuedPart:
    """A part in the queue `work`."""
    chosen = QueueOptions(parallelism=total, **options)
    return QueuedPart(name, "work", total, REQUEST, chosen, 0, name.execute_number, "job", "default")


async def test_no_part_is_given_out_twice_by_nodes_that_claim_at_once(nodes: Nodes) -> None:
    """And none is left over, where all ask again until nothing is found."""
    await nodes.publish(120)

    async def work(node: int, instance: str) -> list[int]:
        got: list[int] = []
        while found := await nodes.claim(node, instance, most=3):
            got += [one.part.name.execute_number for one in found]
        return got

    found = await asyncio.gather(*(work(number % 3, f"w{number}") for number in range(12)))
    counted = Counter(number for some in found for number in some)
    assert counted == Counter(range(1, 121))


async def test_an_instance_gets_one_part_of_a_step_over_all_nodes(nodes: Nodes) -> None:
    """However many of its claims run at once."""
    await nodes.publish(4, total=5)
    found = await asyncio.gather(*(nodes.claim(number % 3, "a", most=4) for number in range(9)))
    steps = [one.part.name.execute_number for some in found for one in some]
    assert sorted(steps) == [1, 2, 3, 4]


async def test_capacity_counts_over_all_nodes(nodes: Nodes) -> None:
    """The claims of one instance take turns."""
    await nodes.publish(40)
    found = await asyncio.gather(*(nodes.claim(number % 3, "a", most=3, capacity=5) for number in range(9)))
    assert sum(map(len, found)) == 5


async def test_a_lease_is_swept_by_one_node(nodes: Nodes) -> None:
    """Of those that sweep at once each finds what the others leave."""
    await nodes.publish(30, lease=1_000, retries=0)
    await nodes.queues[0].sweep(0)
    assert len(await nodes.claim(0, "a", most=30)) == 30
    swept = await asyncio.gather(*(queues.sweep(1_000) for queues in nodes.queues))
    assert Counter(one.part_id for some in swept for one in some.ended).most_common(1)[0][1] == 1
    left = [await queues.sweep(1_001) for queues in nodes.queues]
    assert sum(len(some.ended) for some in [*swept, *left]) == 30


async def test_one_of_two_completions_counts(nodes: Nodes) -> None:
    """Sent to two nodes at once, the same one is accepted twice, and ends the part once."""
    await nodes.publish(1)
    (leased,) = await nodes.claim(0, "a")
    found = await asyncio.gather(*(queues.complete(leased.lease, DONE, 1) for queues in nodes.queues))
    assert sorted(type(one).__name__ for one in found) == ["EndedPart", "bool", "bool"]
    assert False not in found


async def enqueue(store: ClusterStore, sequence: int, *writes: QueueWrite, at: int = 0) -> None:
    """What a turn of the life `uid` brings."""
    await store.shared.enqueue(QueueTurn("uid", sequence, at, writes))


async def depth(store: ClusterStore) -> int:
    """How many parts can be claimed, by instances of which each gets one."""
    found = 0
    while await store.queues.claim(Claim("default", "work", f"w{found}", (f"l{found}",), 0)):
        found += 1
    return found


PUBLISH = PublishParts((queued(PartName("uid", 1, 1, 0, 0)),))


async def test_a_turn_that_is_written_again_changes_nothing(store: ClusterStore) -> None:
    """Its node was killed before it heard of it, and another one finds it in the job's state."""
    await enqueue(store, 7, PUBLISH)
    await enqueue(store, 7, PUBLISH)
    assert await depth(store) == 1


async def test_a_turn_that_comes_late_brings_nothing_back(store: ClusterStore) -> None:
    """A node stood still with it while another one wrote it, and withdrew what it had brought."""
    await enqueue(store, 7, PUBLISH)
    await enqueue(store, 9, WithdrawParts("uid", 1))
    await enqueue(store, 7, PUBLISH)
    assert await depth(store) == 0


async def test_another_life_of_the_job_begins_anew(store: ClusterStore) -> None:
    """Its sequences may be lower; what is known of the old life is forgotten when that is long over."""
    await enqueue(store, 9, WithdrawParts("uid", 1))
    other = PublishParts((queued(PartName("other", 1, 1, 0, 0)),))
    await store.shared.enqueue(QueueTurn("other", 3, 0, (other,)))
    assert await depth(store) == 1


async def test_after_a_downtime_leases_have_their_whole_length(store: ClusterStore) -> None:
    """Whoever comes first finds that nobody swept: leases that ended meanwhile are renewed and completed."""
    queues = ClusterQueues(database=store.database, downtime=DOWNTIME)
    for number in range(1, 4):
        name = PartName("uid", number, 1, 0, 0)
        await enqueue(store, number, PublishParts((queued(name, lease=1_000),)))
    await queues.sweep(0)
    first, second, third = await queues.claim(Claim("default", "work", "a", ("x", "y", "z"), 0))
    assert await queues.renew(first.lease, 9_000) is None
    assert await queues.renew(first.lease, 50_000) is not None
    assert isinstance(await queues.complete(second.lease, DONE, 50_999), EndedPart)
    assert await queues.complete(third.lease, DONE, 51_000) is False


async def test_a_node_that_starts_beside_others_extends_nothing(store: ClusterStore) -> None:
    """The others were there to renew with."""
    queues = ClusterQueues(database=store.database, downtime=DOWNTIME)
    await enqueue(store, 1, PUBLISH)
    await queues.sweep(0)
    (leased,) = await queues.claim(Claim("default", "work", "a", ("x",), 0))
    for now in range(9_000, 63_000, 9_000):
        await queues.sweep(now)
        await queues.extend(now)
    assert await queues.renew(leased.lease, 63_001) is None


async def test_what_has_lain_there_for_a_while_is_found(store: ClusterStore) -> None:
    """Ends and claims that their node has not delivered: those of the last seconds are on their way."""
    for number in (1, 2, 3, 4):
        name = PartName("uid", number, 1, 0, 0)
        await enqueue(store, number, PublishParts((queued(name),)))
    queues = store.queues
    (first,) = await queues.claim(Claim("default", "work", "a", ("w",), 5))
    await queues.complete(first.lease, DONE, 10)
    (second,) = await queues.claim(Claim("default", "work", "a", ("x",), 11))
    await queues.complete(second.lease, DONE, 20)
    await queues.claim(Claim("default", "work", "a", ("y",), 12))
    await queues.claim(Claim("default", "work", "a", ("z",), 22))
    assert [one.name.execute_number for one in await queues.ended("", 9, 15)] == [1]
    assert [one.name.execute_number for one in await queues.changed("", 9, 15)] == [3]


async def test_which_queues_have_a_free_part(store: ClusterStore) -> None:
    """Of those that are asked for."""
    await enqueue(store, 1, PUBLISH)
    asked = [("default", "work"), ("default", "else"), ("other", "work")]
    assert await store.queues.claimable(asked, 0) == asked[:1]
    await store.queues.claim(Claim("default", "work", "a", ("x",), 0))
    assert await store.queues.claimable(asked, 0) == []
