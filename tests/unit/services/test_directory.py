"""The address of a service: the operator's, that of an instance, or its own (SPEC section 9)."""

from collections.abc import Mapping

import msgspec

from scheduler_service.domain.services import Service
from scheduler_service.services.directory import RegistryDirectory
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.registry import Registry
from scheduler_service.services.router import Terms
from tests.unit.services.tables import MemoryTable, StandingClock

TENANT, NAME = "default", "billing"
SAID = Service(tenant=TENANT, name=NAME, address="http://billing.test")


def instance(instance_id: str, clock: StandingClock) -> Instance:
    return Instance(NAME, TENANT, instance_id, f"http://{instance_id}.test", seen=clock.now().steady)


def directory_of(
    registry: Registry, clock: StandingClock, tenant: str = TENANT, static: Mapping[str, str] = {}
) -> RegistryDirectory:
    """A directory whose services wait 30 s."""
    return RegistryDirectory(
        registry=registry,
        static=static,
        clock=clock,
        tenant=tenant,
        terms=lambda *key: Terms(awaits_instances=registry.awaits_instances(*key), wait=30_000),
    )


async def test_a_service_is_where_settings_say_else_an_instance_else_its_own_address(
    registry: Registry, clock: StandingClock
) -> None:
    """What `service://name/` reaches (SPEC section 9)."""
    static = {"static": "http://static.test"}
    directory = directory_of(registry, clock, static=static)
    assert directory.address(NAME) is None
    await registry.register(SAID, None)
    assert directory.address(NAME) == "http://billing.test"
    await registry.announce(instance("i1", clock), None)
    await registry.announce(instance("i2", clock), None)
    assert directory.address(NAME) == "http://i1.test"
    registry.instances.mark_draining(TENANT, NAME, "i1")
    assert directory.address(NAME) == "http://i2.test"
    registry.instances.mark_refused(TENANT, NAME, "i2")
    assert directory.address(NAME) == "http://billing.test"
    clock.steady = 10_000
    assert directory.address(NAME) == "http://billing.test"
    assert directory.address("static") == "http://static.test"
    forged = msgspec.structs.replace(instance("i3", clock), service="static")
    await registry.announce(forged, None)
    assert directory.address("static") == "http://static.test"


async def test_a_tenant_sees_no_service_of_another(registry: Registry, clock: StandingClock) -> None:
    """Neither its instances nor its own address."""
    directory = directory_of(registry, clock, "elsewhere")
    await registry.register(SAID, None)
    await registry.announce(instance("i1", clock), None)
    assert directory.address(NAME) is None


async def test_an_instance_that_only_claims_has_no_address(registry: Registry, clock: StandingClock) -> None:
    """It is passed over."""
    directory = directory_of(registry, clock)
    await registry.announce(msgspec.structs.replace(instance("a", clock), address=""), None)
    await registry.announce(instance("b", clock), None)
    assert directory.address(NAME) == "http://b.test"


async def test_who_was_there_before_the_start_is_awaited(
    registry: Registry, table: MemoryTable, clock: StandingClock
) -> None:
    """Of its tenant alone."""
    await registry.register(SAID, None)
    again = Registry(table=table, instances=Instances(), clock=clock)
    await again.load()
    found = [directory_of(again, clock, tenant).wait(NAME) > 30_000 for tenant in (TENANT, "elsewhere")]
    assert found == [True, False]
    clock.steady += 10_000
    assert directory_of(again, clock).wait(NAME) == 30_000
