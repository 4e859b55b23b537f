"""What is old is forgotten by every node, and leaves the shared tables."""

import pytest

from scheduler_service.domain.moments import DAY, SECOND
from scheduler_service.domain.services import Service
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_registry import Changes
from tests.unit.services.shared_table import SHOP, TENANT, ViewedCluster

WITHIN = 2 * SECOND


async def scan(cluster: ViewedCluster, name: str) -> Changes:
    """A scan runs at this node. Returns what the shared tables have then."""
    await cluster.nodes[name].registry.forget_instances(cluster.clock.now().steady - DAY)
    return await cluster.shared.after(0, "")


async def test_instances_that_left_leave_the_table_a_day_later(cluster: ViewedCluster) -> None:
    """Until then those that were away hear of their leaving; one that is there stays."""
    one = cluster.nodes["one"]
    for name in ("pod1", "pod2", "a"):
        await one.register(name)
    for name in ("pod1", "pod2"):
        await one.registry.deregister(TENANT, SHOP, name)
    await cluster.go_on(WITHIN)
    cluster.clock.advance(DAY - 10 * SECOND)
    one.beat("a")
    await cluster.go_on(WITHIN)
    assert len((await scan(cluster, "two")).instances) == 3
    cluster.clock.advance(20 * SECOND)
    assert [row.instance_id for row in (await scan(cluster, "two")).instances] == ["a"]


async def test_silent_instances_are_forgotten_at_every_node(cluster: ViewedCluster) -> None:
    """Also where no scan runs, and whatever failed before."""
    one, two = cluster.nodes.values()
    await one.register("a")
    await cluster.go_on(WITHIN)
    cluster.clock.advance(DAY + SECOND)
    await cluster.go_on(WITHIN)
    assert [node.instances.known(TENANT, SHOP) for node in (one, two)] == [(), ()]
    cluster.shared.is_down = True
    with pytest.raises(StoreUnavailable):
        await scan(cluster, "two")
    cluster.shared.is_down = False
    assert (await scan(cluster, "two")).instances == ()


async def test_reports_of_nodes_that_are_gone_leave_the_table(cluster: ViewedCluster) -> None:
    """Not those of nodes that live and have no news."""
    one, two = cluster.nodes.values()
    one.calls[TENANT, SHOP, "a"] = two.calls[TENANT, SHOP, "a"] = 1
    await cluster.go_on(WITHIN)
    await cluster.stop("two")
    cluster.clock.advance(DAY + SECOND)
    assert [report.node for report in (await scan(cluster, "one")).reports] == ["one"]


async def test_notices_leave_the_table_once_all_have_read_them(cluster: ViewedCluster) -> None:
    """One of jobs that are declared anew stays until a scan has taken them."""
    one = cluster.nodes["one"]
    await one.registry.register(Service(tenant=TENANT, name="old"), None)
    one.registry.note_anew(TENANT, SHOP)
    await cluster.go_on(WITHIN)
    one.registry.take_anew(TENANT, "old")
    one.registry.settle_anew(TENANT, "old")
    await cluster.go_on(WITHIN)
    assert len((await scan(cluster, "two")).services) == 2
    for _ in range(2):
        cluster.clock.advance(DAY + SECOND)
        await cluster.go_on(WITHIN)
        found = await scan(cluster, "two")
    assert [notice.name for notice in found.services] == [SHOP]
