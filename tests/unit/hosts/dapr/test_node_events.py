"""Every node of a cluster shows the events of all nodes, while any of them is asked for them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.hosts.dapr.node_events import MOST_WAITING, STEP, NodeEvents
from scheduler_service.persistence.cluster.nodes import SharedEvents
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.ports.cluster import EventGroup
from scheduler_service.telemetry.event_feed import UNKNOWN, EventFeed, EventReader
from scheduler_service.telemetry.event_source import Occurrences
from scheduler_service.telemetry.log_summaries import Tally
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio
PATIENCE = 20.0


class Node:
    """A node's occurrences, and its event stream over the shared database."""

    def __init__(self, name: str, shared: SharedEvents, clock: ManualClock) -> None:
        self.faults: list[object] = []
        self.occurrences = Occurrences()
        self.events = NodeEvents(
            shared=shared,
            occurrences=self.occurrences,
            clock=clock,
            node=name,
            failed=Tally("events_not_shared", log=lambda event, /, **keys: self.faults.append(keys["error"])),
        )
        self.feed = EventFeed(source=self.events, most_readers=5)

    def happen(self, *numbers: int) -> None:
        for number in numbers:
            kind = OccurrenceKind.STARTED
            self.occurrences.publish(
                Occurrence(kind=kind, at=1, tenant="default", job_id="j", execute_number=number)
            )


class Cluster:
    """Two nodes, one database, one clock."""

    def __init__(self, database: JobDatabase) -> None:
        self.clock = ManualClock(wall=1_000_000)
        shared = SharedEvents(database=database)
        self.one, self.two = Node("one", shared, self.clock), Node("two", shared, self.clock)

    async def until(self, condition: Any) -> None:
        """Time goes by until it is so."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.clock.advance(50)
                await asyncio.sleep(0.001)


class BrokenEvents(SharedEvents):
    """Has a defect in the first look for events, and in the first write of them."""

    def __init__(self, *, database: JobDatabase) -> None:
        super().__init__(database=database)
        self.left = {"put", "after"}

    async def put(self, occurrences: Sequence[Occurrence], now: int) -> bool:
        """Divides by zero once."""
        self._fail_once("put")
        return await super().put(occurrences, now)

    async def after(self, number: int, limit: int) -> list[EventGroup]:
        """Divides by zero once."""
        self._fail_once("after")
        return await super().after(number, limit)

    def _fail_once(self, name: str) -> None:
        if name in self.left:
            self.left.remove(name)
            raise ZeroDivisionError("a defect")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    database = await JobDatabase.open(url="sqlite://")
    cluster = Cluster(database)
    for node in (cluster.one, cluster.two):
        node.events.start()
    yield cluster
    for node in (cluster.one, cluster.two):
        await node.feed.close()
        await node.events.stop()
    await database.close()


async def collect(cluster: Cluster, reader: EventReader, most: int) -> list[tuple[str | None, int | None]]:
    """The next events: the node, and the number."""
    found: list[tuple[str | None, int | None]] = []
    while len(found) < most:
        await cluster.until(lambda: reader.has_more)
        taken = reader.take(lambda one: True, most)
        if taken.gap:
            found.append(("gap", taken.gap))
        found += [(event.occurrence.node, event.occurrence.execute_number) for event in taken.events]
    return found


async def test_events_of_both_nodes_are_read_at_either(cluster: Cluster) -> None:
    """With the node at which each happened; before anybody asks, neither makes any."""
    assert not cluster.one.occurrences.are_wanted
    reader = await cluster.one.feed.follow()
    await cluster.until(lambda: cluster.two.occurrences.are_wanted)
    cluster.one.happen(1)
    assert await collect(cluster, reader, 1) == [("one", 1)]
    cluster.two.happen(2, 3)
    assert await collect(cluster, reader, 2) == [("two", 2), ("two", 3)]


async def test_who_comes_back_to_another_node_misses_nothing(cluster: Cluster) -> None:
    """Ids are of one line: that of the shared table."""
    reader = await cluster.one.feed.follow()
    await cluster.until(lambda: cluster.two.occurrences.are_wanted)
    cluster.one.happen(1)
    await collect(cluster, reader, 1)
    cluster.two.happen(2, 3)
    reader.leave()
    again = await cluster.two.feed.follow(reader.id)
    assert await collect(cluster, again, 2) == [("two", 2), ("two", 3)]


async def test_the_wish_ends_for_all_nodes(cluster: Cluster) -> None:
    """A minute after the node that had it has gone; then who comes back is told of a gap."""
    reader = await cluster.one.feed.follow()
    await cluster.until(lambda: cluster.two.occurrences.are_wanted)
    cluster.one.happen(1)
    await collect(cluster, reader, 1)
    reader.leave()
    await cluster.one.feed.close()  # as a node that stops does
    begun = cluster.clock.now().steady
    await cluster.until(lambda: not cluster.two.occurrences.are_wanted)
    assert cluster.clock.now().steady - begun <= 2 * MINUTE
    again = await cluster.two.feed.follow(reader.id)
    cluster.two.happen(2)
    assert await collect(cluster, again, 2) == [("gap", UNKNOWN), ("two", 2)]


async def test_what_is_too_much_at_once_is_told_as_a_gap(cluster: Cluster) -> None:
    """A node keeps a bounded number for the database; positions rise through all groups."""
    reader = await cluster.two.feed.follow()
    await cluster.until(lambda: cluster.one.occurrences.are_wanted)
    cluster.one.happen(*range(MOST_WAITING + 3))
    seen = 0
    last = None
    while seen <= MOST_WAITING:
        await cluster.until(lambda: reader.has_more)
        for event in reader.take(lambda one: True, STEP).events:
            seen, last = seen + 1, event.occurrence
    assert last is not None
    assert (last.kind, last.count) == (OccurrenceKind.GAP, 3)


async def test_a_defect_ends_neither_writing_nor_reading() -> None:
    """Each is counted; what the defect of a write has lost is told as a gap, and all later events come."""
    database = await JobDatabase.open(url="sqlite://")
    cluster = Cluster(database)
    shared = BrokenEvents(database=database)
    cluster.one = Node("one", shared, cluster.clock)
    cluster.one.events.start()
    reading = asyncio.create_task(cluster.one.feed.follow())
    await cluster.until(lambda: cluster.one.occurrences.are_wanted)
    cluster.one.happen(1)
    await cluster.until(lambda: reading.done() and not shared.left)
    cluster.one.happen(2)
    found = await collect(cluster, reading.result(), 2)
    assert found == [("one", 2), ("one", None)]  # the gap has no number
    assert cluster.one.faults == ["ZeroDivisionError: a defect"]  # the second one is summed up later
    await cluster.one.feed.close()
    await cluster.one.events.stop()
    await database.close()
