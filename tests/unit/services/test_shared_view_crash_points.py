"""A change of the registry that ends half-way: what was answered stays, and a repetition does the rest."""

import pytest

from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.services import RateLimit, Service
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.services.shared_table import SHOP, TENANT, ViewedCluster

WITHIN = 2 * SECOND


async def test_a_removal_that_cannot_be_shared_may_be_repeated(cluster: ViewedCluster) -> None:
    """The service stays until its instances have left."""
    one, two = cluster.nodes.values()
    await one.register("a")
    await cluster.go_on(WITHIN)
    cluster.shared.fails_writes = True
    with pytest.raises(StoreUnavailable):
        await one.registry.remove(TENANT, SHOP)
    assert one.registry.find(TENANT, SHOP) is not None
    assert one.online() == ["a"]
    cluster.shared.fails_writes = False
    assert await one.registry.remove(TENANT, SHOP)
    await cluster.go_on(WITHIN)
    assert two.registry.find(TENANT, SHOP) is None
    assert one.online() == two.online() == []


async def test_a_registration_that_cannot_be_shared_may_be_repeated(cluster: ViewedCluster) -> None:
    """Its service is stored; the instance is known at no node before it is known at all."""
    one, two = cluster.nodes.values()
    cluster.shared.fails_writes = True
    with pytest.raises(StoreUnavailable):
        await one.register("a")
    assert one.registry.find(TENANT, SHOP) is not None
    assert one.online() == []
    cluster.shared.fails_writes = False
    await one.register("a")
    await cluster.go_on(WITHIN)
    assert one.online() == two.online() == ["a"]
    assert two.registry.find(TENANT, SHOP) is not None


async def test_a_service_of_a_node_that_died_before_it_told_of_it(cluster: ViewedCluster) -> None:
    """Between the table and the notice: the others read the table when a node is gone."""
    two = cluster.nodes["two"]
    await cluster.go_on(WITHIN)
    cluster.shared.fails_writes = True
    said = Service(tenant=TENANT, name=SHOP, rate_limit=RateLimit(5))
    await cluster.nodes["one"].registry.register(said, None)
    await cluster.stop("one")
    cluster.shared.fails_writes = False
    await cluster.go_on(WITHIN)
    found = two.registry.find(TENANT, SHOP)
    assert found is not None
    assert found.rate_limit == RateLimit(5)
