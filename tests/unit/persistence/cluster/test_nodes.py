"""The nodes of a cluster, the leases that one holds for all, and their events (SPEC section 14)."""

import msgspec
import pytest
import sqlalchemy as sa

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.cluster.nodes import EVENTS_MARK, KEPT_GROUPS, SharedEvents
from scheduler_service.persistence.job_store.job_store_schema import event_groups, marks, nodes
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.cluster_store import ClusterStore
from tests.unit.persistence.samples import ONE, TWO

pytestmark = pytest.mark.anyio


async def test_numbers_are_given_out_once_and_leases_to_one(store: ClusterStore) -> None:
    """Each start of a node has a number of its own; one node sweeps."""
    assert [await store.nodes.next_epoch() for _ in range(3)] == [1, 2, 3]
    assert await store.nodes.lease("sweep", ONE, 0, 10)
    assert not await store.nodes.lease("sweep", TWO, 10, 20)
    assert await store.nodes.lease("sweep", ONE, 10, 20)
    assert await store.nodes.lease("sweep", TWO, 21, 30)


async def test_a_program_that_does_not_know_its_column_adds_no_node(store: ClusterStore) -> None:
    """It would take turns in another way beside the others."""
    older = Node("a", "1", "http://a", "1", "running", 1, 100, 0, 0)
    assert await store.nodes.enter(older, alive_since=0)
    assert await store.nodes.list() == [older]
    row = {name: value for name, value in msgspec.structs.asdict(older).items() if name != "format"}
    insert = sa.insert(nodes).values({**row, "node_id": "b"})
    with pytest.raises(StoreUnavailable, match="reads_claims"):
        await store.database.write(lambda connection: connection.execute(insert) and None)


async def test_nodes_are_listed_and_replaced_when_they_are_gone(store: ClusterStore) -> None:
    """A name belongs to one living node (SPEC section 14)."""
    first = Node("a", "1", "http://a", "1", "running", 1, 100, 0, 0)
    assert await store.nodes.enter(first, alive_since=0)
    second = Node("a", "2", "http://a", "1", "running", 2, 150, 3, 1, format="0008")
    assert not await store.nodes.enter(second, alive_since=99)
    assert await store.nodes.enter(second, alive_since=100)
    assert not await store.nodes.beat(first)
    assert await store.nodes.beat(second)
    assert await store.nodes.list() == [second]


async def test_a_node_that_is_removed_writes_no_heartbeat(store: ClusterStore) -> None:
    """Its start alone: another one of the same name stays."""
    first, second = (Node(name, "1", "http://a", "1", "running", 1, 100, 0, 0) for name in ("a", "b"))
    for node in (first, second):
        assert await store.nodes.enter(node, alive_since=0)
    await store.nodes.remove([first.holder, Holder("b", "0")])
    assert await store.nodes.list() == [second]
    assert not await store.nodes.beat(first)


def happened(number: int) -> Occurrence:
    return Occurrence(
        kind=OccurrenceKind.STARTED, at=1, tenant="default", job_id="j", execute_number=number, node="one"
    )


async def numbers(events: SharedEvents, after: int = 0) -> list[int]:
    return [group.number for group in await events.after(after, 10_000)]


async def test_nothing_is_written_before_a_node_wants_it(store: ClusterStore) -> None:
    """Nor when the wish is over."""
    events = store.events
    assert not await events.are_wanted(0)
    assert not await events.put([happened(1)], 0)
    await events.want(0, 100)
    assert await events.are_wanted(100)
    assert await events.put([happened(1)], 100)
    assert not await events.are_wanted(101)
    assert not await events.put([happened(2)], 101)
    assert len(await numbers(events)) == 1


async def test_groups_come_back_as_they_were_in_their_order(store: ClusterStore) -> None:
    """With every member, after the number that was read last."""
    events = store.events
    latest = await events.want(0, 100)
    await events.put([happened(1), happened(2)], 1)
    await events.put([happened(3)], 2)
    first, second = await events.after(latest, 10)
    assert first.occurrences == (happened(1), happened(2))
    assert (second.number, second.occurrences) == (first.number + 1, (happened(3),))
    assert await events.after(first.number, 10) == [second]
    assert await events.after(latest, 1) == [first]
    assert await events.want(50, 150) == second.number


async def test_a_wish_that_was_over_begins_anew(store: ClusterStore) -> None:
    """What happened meanwhile is in no group: a number is left out, and the older ones are gone."""
    events = store.events
    await events.want(0, 100)
    await events.put([happened(1)], 1)
    (gone,) = await numbers(events)
    latest = await events.want(101, 200)
    assert latest == gone + 1
    assert await numbers(events) == []
    await events.put([happened(2)], 102)
    assert await numbers(events) == [latest + 1]


async def test_the_table_is_bounded_in_number_and_age(store: ClusterStore) -> None:
    """The oldest groups go with each new one, and by their age; those of before are written at once here."""
    events = store.events
    latest = await events.want(0, 10_000)
    rows = [{"number": latest + 1 + number, "at": number} for number in range(KEPT_GROUPS)]

    def fill(connection: sa.Connection) -> None:
        connection.execute(sa.insert(event_groups).values(content=msgspec.msgpack.encode([])), rows)
        connection.execute(
            sa.update(marks).where(marks.c.name == EVENTS_MARK).values(value=latest + KEPT_GROUPS)
        )

    await store.database.write(fill)
    for number in range(KEPT_GROUPS, KEPT_GROUPS + 5):
        await events.put([happened(number)], number)
    assert await numbers(events) == list(range(latest + 6, latest + KEPT_GROUPS + 6))
    await events.forget(KEPT_GROUPS + 4)
    assert await numbers(events) == [latest + KEPT_GROUPS + 5]
