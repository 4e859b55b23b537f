"""The instance in the registry: register, heartbeat, drain, deregister (SPEC section 13)."""

import asyncio

import pytest

from client_sdk.models import ServiceDeclaration
from tests.unit.client_sdk.registry import registered

pytestmark = pytest.mark.anyio


async def test_an_instance_says_what_it_is() -> None:
    """Its address, tags, capacity and all its jobs as declared timers; the service what it is as a whole."""
    settings = ServiceDeclaration(route="least_busy", grace_seconds=3600)
    about = {"tags": ["big"], "capacity": 4, "description": "the first"}
    async with registered(settings=settings, **about) as (service, registry):

        @service.job(timer={"period": "0 0 2 * * ?"})
        def nightly() -> None: ...

        await service.start()
        assert registry.told[:2] == ["service", "instance"]
        assert registry.services["reports"] == settings
        said = registry.instances["one"]
        assert (said.address, said.tags, said.capacity) == ("http://10.0.0.7:9000", ["big"], 4)
        assert said.timers == service.definitions()


async def test_heartbeats_and_registrations_go_on() -> None:
    """A heartbeat each time, in full every so often; in the end it leaves."""
    async with registered() as (service, registry):
        await service.start()
        await registry.until(lambda: registry.told.count("instance") >= 3)
        told = " ".join(registry.told)
        assert told.startswith("instance heartbeat heartbeat instance heartbeat heartbeat instance")
        assert not any(beat.draining for _, beat in registry.heartbeats)
        await service.stop()
        assert registry.told[-1] == "deregistered"
        assert "draining" in registry.told
        assert registry.instances == {}


async def test_heartbeats_come_as_often_as_the_scheduler_asks() -> None:
    """Its setting wins over the 3 s of the contract, unless the service was told otherwise."""
    async with registered(heartbeat_seconds=None, registration_seconds=1_000) as (service, registry):
        registry.heartbeat_seconds = 0.001
        await service.start()
        await registry.until(lambda: registry.told.count("heartbeat") >= 3)


async def test_a_scheduler_that_forgot_is_told_again() -> None:
    """It was started anew: the next heartbeat registers, with the jobs."""
    async with registered(registration_seconds=1_000) as (service, registry):
        await service.start()
        registry.instances.clear()
        await registry.until(lambda: registry.instances)
        assert registry.told.count("instance") == 2


async def test_a_scheduler_that_is_not_there_yet_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """The service starts; as soon as somebody answers it is registered. It is said once, not each time."""
    async with registered() as (service, registry):
        registry.is_down = True
        await service.start()
        for _ in range(50):
            await asyncio.sleep(0.001)
        registry.is_down = False
        await registry.until(lambda: "instance" in registry.told)
        assert sum("failed" in record.message for record in caplog.records) == 1


async def test_stopping_needs_no_scheduler() -> None:
    """It ends all the same."""
    async with registered() as (service, registry):
        await service.start()
        registry.is_down = True
        await service.stop()


async def test_ids_of_instances_are_their_own() -> None:
    """Two of one machine differ."""
    async with registered(instance_id=None) as (one, _), registered(instance_id=None) as (other, _):
        assert one.instance_id != other.instance_id
