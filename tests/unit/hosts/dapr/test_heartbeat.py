"""Nodes with a fresh heartbeat, and those without (SPEC section 14)."""

import asyncio

import msgspec
import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.replies import Started
from scheduler_service.hosts.dapr.heartbeat import POLL_MS
from scheduler_service.hosts.dapr.liveness import HEARTBEAT_INTERVAL_MS, OFF, OFFLINE_AFTER_MS, RUNNING
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse, freeze

pytestmark = pytest.mark.anyio


async def test_a_node_past_its_heartbeat_commits_nothing(cluster: DaprHouse) -> None:
    """The others take it for dead: whatever it had in hand is left as they made it."""
    await cluster.create_by_actor()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    first = cluster.node
    await first.host.heartbeat.cancel()
    cluster.world.kill("one")
    second = await cluster.add("two")
    await cluster.advance(12_000)
    assert isinstance(await second.host("job", Command(Triggered())), Started)
    await cluster.settle()
    before = await second.shared.sequence("job")
    gate.set_result(None)
    with pytest.raises(StoreError):
        await frozen
    assert await second.shared.sequence("job") == before
    cluster.nodes["one"] = first


async def test_a_dead_node_is_seen_when_its_time_is_over(cluster: DaprHouse) -> None:
    """What it had in hand waits for that: it is not known only with this node's next heartbeat."""
    heartbeat = cluster.node.host.heartbeat
    await cluster.advance(HEARTBEAT_INTERVAL_MS - POLL_MS)  # the two write at different moments
    second = await cluster.add("two")
    await heartbeat.report(RUNNING)
    assert heartbeat.others
    await second.host.heartbeat.cancel()
    cluster.world.kill("two")
    await cluster.advance(OFFLINE_AFTER_MS - POLL_MS)
    assert heartbeat.others
    await cluster.advance(2 * POLL_MS)
    assert not heartbeat.others


async def test_a_second_node_of_a_name_refuses_to_start(cluster: DaprHouse) -> None:
    """`node.id` is unique among the living (SPEC section 14)."""
    adding = asyncio.create_task(cluster.add("one"))
    await cluster.advance(5_000)
    with pytest.raises(StoreUnavailable, match=r"node\.id"):
        await adding


@pytest.mark.parametrize("ends", ["stops", "dies"])
async def test_a_node_waits_for_those_of_older_programs(cluster: DaprHouse, ends: str) -> None:
    """They make turns durable in another way: it takes none beside them, and they cannot come back."""
    old = Node("old", "0", "http://old", "0", "running", 0, cluster.clock.now().steady, 0, 0)
    assert await cluster.node.nodes.enter(old, alive_since=0)
    joining = asyncio.create_task(cluster.add("two"))
    await cluster.advance(5_000)
    assert not joining.done()
    assert ("older_nodes_awaited", ["old"]) in [(event, keys.get("nodes")) for event, keys in cluster.log]
    if ends == "stops":
        assert await cluster.node.nodes.beat(msgspec.structs.replace(old, state=OFF))
    await cluster.advance(1_000 if ends == "stops" else OFFLINE_AFTER_MS)
    await joining
    assert not await cluster.node.nodes.beat(old)
