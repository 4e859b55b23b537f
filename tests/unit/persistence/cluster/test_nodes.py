"""The nodes of a cluster and the leases that one of them holds for all (SPEC section 14)."""

import msgspec
import pytest
import sqlalchemy as sa

from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.job_store.schema import nodes
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
