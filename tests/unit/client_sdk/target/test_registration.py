"""The instance in the registry: register, heartbeat, drain, deregister (SPEC section 13)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from client_sdk import Client
from client_sdk.client import Patience
from client_sdk.errors import DeclarationError
from client_sdk.models import ServiceDeclaration
from client_sdk.target import Service, job
from tests.unit.client_sdk.registry import Registry

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def registered(**options: Any) -> AsyncIterator[tuple[Service, Registry]]:
    """A service that is not started yet, and the registry that it will speak to."""
    registry = Registry()
    patience = Patience(retries=0)
    async with Client("http://scheduler.test", transport=registry.transport, patience=patience) as client:
        given: dict[str, Any] = {"address": "http://10.0.0.7:9000", "signals": (), "instance_id": "one"}
        given |= {"heartbeat_seconds": 0.001, "registration_seconds": 0.003}
        service = Service("reports", client=client, **(given | options))
        try:
            yield service, registry
        finally:
            await service.stop()


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


async def test_a_job_is_declared_once() -> None:
    """Two functions under one id are a mistake; the same one twice is none."""

    @job(job_id="one")
    def first() -> None: ...

    @job(job_id="one")
    def second() -> None: ...

    async with registered(jobs=[first, first]) as (service, _):
        with pytest.raises(DeclarationError, match="declared twice"):
            service.add(second)


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that does not know the lifespan protocol."""
    raise RuntimeError(scope["type"])


@pytest.mark.parametrize("make", [lambda service: service.wrap(nothing), lambda service: service])
async def test_start_and_end_of_an_application(make: Callable[[Service], Any]) -> None:
    """The lifespan of the application is that of the instance."""
    async with registered() as (service, registry):
        await live(make(service), lambda: registry.instances)
        assert registry.told[-1] == "deregistered"


async def test_the_lifespan_of_the_application_goes_on() -> None:
    """The instance is registered after the application has started, and leaves before it stops."""
    order: list[str] = []
    async with registered() as (service, registry):

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            order.append(f"up {len(registry.told)}")
            yield
            order.append(f"down after {registry.told[-1]}")

        app = FastAPI(lifespan=lifespan)
        app.add_middleware(service.wrap)
        await live(app, lambda: registry.instances)
        assert order == ["up 0", "down after deregistered"]


async def live(app: Any, condition: Callable[[], Any]) -> None:
    """One run of the lifespan protocol; `condition` holds between start and end."""
    asked: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    asked.put_nowait({"type": "lifespan.startup"})
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    task = asyncio.create_task(app(scope, asked.get, said.put))
    assert await said.get() == {"type": "lifespan.startup.complete"}
    assert condition()
    asked.put_nowait({"type": "lifespan.shutdown"})
    assert await said.get() == {"type": "lifespan.shutdown.complete"}
    await task
