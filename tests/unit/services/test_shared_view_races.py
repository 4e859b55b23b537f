"""Two nodes write of one instance at the same moment: the later word counts at both."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler_service.domain.moments import SECOND
from tests.unit.services.shared_table import SHOP, TENANT, ViewedCluster, ViewedNode

WITHIN = 2 * SECOND
PLACE = (TENANT, SHOP, "a")


@pytest.fixture
async def cluster() -> AsyncIterator[ViewedCluster]:
    made = ViewedCluster()
    one = await made.start("one")
    await made.start("two")
    await one.register("a")
    await one.register("z")
    await made.go_on(WITHIN)
    yield made
    await made.close()


async def hold_changes(cluster: ViewedCluster, node: ViewedNode) -> asyncio.Event:
    """What `node` has to write of `z` hangs until the event is set."""
    gate = cluster.shared.gate = asyncio.Event()
    node.beat("z", draining=True)
    await cluster.go_on(SECOND // 2)
    assert cluster.shared.gate is None
    return gate


async def test_a_leaving_is_not_undone_by_a_change_that_was_under_way(cluster: ViewedCluster) -> None:
    """It drains, says so at one node, and leaves at the other before that is written."""
    one, two = cluster.nodes.values()
    two.beat("a", draining=True)
    gate = await hold_changes(cluster, two)
    await one.registry.deregister(*PLACE)
    gate.set()
    await cluster.go_on(WITHIN)
    assert (one.instances.get(*PLACE), two.instances.get(*PLACE)) == (None, None)
    three = await cluster.start("three")
    assert three.instances.get(*PLACE) is None


async def test_one_that_a_leaving_overtook_while_a_change_was_written(cluster: ViewedCluster) -> None:
    """Its later sign of life revives it at all nodes."""
    one, two = cluster.nodes.values()
    await one.registry.deregister(*PLACE)
    cluster.clock.advance(10)
    two.beat("a")
    gate = await hold_changes(cluster, two)
    await two.view.catch_up()
    gate.set()
    await cluster.go_on(WITHIN)
    two.beat("a")
    await cluster.go_on(WITHIN)
    assert one.online() == two.online() == ["a"]
