"""What a node of a cluster does for its queues beside claims: looking, and delivering what was left."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from scheduler_service.domain.effects import PublishParts
from scheduler_service.domain.leases import Claim
from scheduler_service.domain.replies import Reply, Taken
from scheduler_service.domain.step_parts import PartName, QueuedPart, QueueOptions
from scheduler_service.domain.turn_events import Event, LeasesChanged, PartEnded
from scheduler_service.persistence.cluster.cluster_queues import ClusterQueues
from scheduler_service.ports.cluster import QueueTurn
from scheduler_service.ports.delivery import Command
from scheduler_service.services.instances import Instances
from scheduler_service.services.pauses import Pauses
from scheduler_service.services.pull_queues import PullQueues
from scheduler_service.services.queue_watch import LEFT_AFTER_MS, QueueWatch
from scheduler_service.services.rate_windows import ClaimRate
from scheduler_service.services.router import MemoryRouter, Terms
from tests.manual_clock import ManualClock
from tests.unit.hosts.house import until
from tests.unit.persistence.cluster_store import ClusterStore
from tests.unit.persistence.queue_bench import DONE, REQUEST
from tests.unit.services.tables import MemoryTable, tell_nobody


class Node:
    """The queues of one node, whose jobs take what they are told; `gate` keeps them from it."""

    def __init__(self, store: ClusterStore) -> None:
        self.store, self.clock = store, ManualClock()
        self.events: list[Event] = []
        self.gate = asyncio.Event()
        self.gate.set()
        table = store.queues
        self.queues = PullQueues(table=table, clock=self.clock, log=_ignore)
        self.pauses = Pauses(table=MemoryTable(), clock=self.clock, tell=tell_nobody)
        self.watch = QueueWatch(queues=self.queues, table=table, clock=self.clock, log=_ignore)

    async def __call__(self, job_id: str, command: Command) -> Reply:
        self.events.append(command.event)
        await self.gate.wait()
        return Taken()

    async def start(self) -> None:
        """Begins to deliver to the jobs."""
        router = MemoryRouter(instances=Instances(), terms=lambda *_: Terms(), clock=self.clock)
        rate = ClaimRate(rate_of=router.rate_of, clock=self.clock)
        await self.queues.start(self, lambda *_: None, rate, self.pauses)

    async def publish(self, number: int) -> None:
        """Another node does."""
        name = PartName("uid", number, 1, 0, 0)
        part = QueuedPart(name, "work", 1, REQUEST, QueueOptions(), 0, number, "job", "default")
        await self.store.shared.enqueue(QueueTurn("uid", number, 0, (PublishParts((part,)),)))

    async def leave_behind(self) -> None:
        """Another node gives out two parts, takes the end of one, and dies before it delivers."""
        now = self.clock.now().steady
        for number in (1, 2):
            await self.publish(number)
        first, _ = await self.store.queues.claim(Claim("default", "work", "a", ("x", "y"), now))
        await self.store.queues.complete(first.lease, DONE, now)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    store = await ClusterStore.open("sqlite://")
    found = Node(store)
    yield found
    found.gate.set()
    await found.watch.stop()
    await found.queues.stop()
    await store.close()


async def test_what_was_left_is_delivered_once_at_a_time(node: Node) -> None:
    """Not before its own node has had ten seconds; then until its job has it."""
    await node.start()
    await node.leave_behind()
    await node.watch.tend()
    assert node.events == []
    node.clock.advance(LEFT_AFTER_MS + 1)
    node.gate.clear()
    for _ in range(3):
        await node.watch.tend()
        await asyncio.sleep(0)
    assert sorted(type(one).__name__ for one in node.events) == [LeasesChanged.__name__, PartEnded.__name__]


async def test_a_claim_that_waits_is_woken(node: Node) -> None:
    """By a part that another node has published."""
    await node.start()
    node.watch.start()
    claiming = asyncio.ensure_future(node.queues.claim("default", "work", "a", most=1, wait=10**9))
    await until(lambda: bool(node.queues.awaited))
    await node.publish(1)
    while not claiming.done():
        node.clock.advance(250)
        await asyncio.to_thread(int)
    assert [one.part.name.execute_number for one in claiming.result()] == [1]


class BrokenQueues(ClusterQueues):
    """Has a defect in its first look for parts."""

    looks = 0

    async def claimable(self, names: Sequence[tuple[str, str]], now: int) -> list[tuple[str, str]]:
        """Divides by zero once."""
        self.looks += 1
        if self.looks == 1:
            raise ZeroDivisionError("a defect")
        return await super().claimable(names, now)


async def test_a_defect_ends_no_look_for_parts(node: Node) -> None:
    """It is one line of the log, and a claim that waits is woken by the next look."""
    lines: list[tuple[str, object]] = []
    table = BrokenQueues(database=node.store.database, downtime=10_000)
    watch = QueueWatch(
        queues=node.queues,
        table=table,
        clock=node.clock,
        log=lambda event, /, **keys: lines.append((event, keys.get("error"))),
    )
    await node.start()
    watch.start()
    # The other one waits on: the watch looks for it also where a sweep has woken the first.
    claiming, other = (
        asyncio.ensure_future(node.queues.claim("default", queue, "a", most=1, wait=10**9))
        for queue in ("work", "other")
    )
    await until(lambda: len(node.queues.awaited) == 2)
    await node.publish(1)
    async with asyncio.timeout(10):
        while not (claiming.done() and len(lines) > 1):
            node.clock.advance(250)
            await asyncio.to_thread(int)
    await watch.stop()
    other.cancel()
    assert lines == [("queues_not_read", "ZeroDivisionError: a defect"), ("queues_read_again", None)]


def _ignore(_: str, /, **keys: object) -> None:
    return
