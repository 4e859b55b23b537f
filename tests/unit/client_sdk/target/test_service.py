"""A service as an application: its jobs, its start and its end (SPEC section 16)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from client_sdk import Client
from client_sdk.errors import DeclarationError
from client_sdk.target import Service, job
from tests.rows import each_row
from tests.unit.client_sdk.registry import registered

pytestmark = pytest.mark.anyio


async def test_a_job_is_declared_once() -> None:
    """Two functions under one id are a mistake; the same one twice is none."""

    @job(job_id="one")
    def first() -> None: ...

    @job(job_id="one")
    def second() -> None: ...

    async with registered(jobs=[first, first]) as (service, _):
        with pytest.raises(DeclarationError, match="declared twice"):
            service.add(second)


@each_row(("name", "shown"), [("a b", "'a b'"), ("", "''"), (None, "None"), (5, "5")])
def test_a_name_that_is_none_is_refused_with_its_letters(name: Any, shown: str) -> None:
    """Also one that a forgotten variable has left empty."""
    with pytest.raises(ValueError, match="is no name of a service") as caught:
        Service(name, client=Client(), signals=())
    assert str(caught.value) == (
        f"service {shown} is no name of a service; "
        "use 1 to 128 of letters, digits, '.', '_' and '-', the first a letter or digit"
    )


async def nothing(scope: Any, receive: Any, send: Any) -> None:
    """An application that does not know the lifespan protocol."""
    raise RuntimeError(scope["type"])


@each_row("make", [lambda service: service.wrap(nothing), lambda service: service])
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
