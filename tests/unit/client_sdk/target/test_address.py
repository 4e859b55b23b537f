"""Where the scheduler reaches an instance that was not told so (SPEC section 16)."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi import FastAPI

from client_sdk import Client, Service
from client_sdk.target.address import (
    TRIES_BEFORE_WARNING,
    ListeningSocket,
    OwnAddress,
    find_host,
    find_listeners,
)
from tests.rows import each_row
from tests.unit.client_sdk.lines import Waits, serving
from tests.unit.client_sdk.registry import Registry

SCHEDULER = "http://127.0.0.1:8000"


class World:
    """The sockets on which the process listens, as a test says."""

    def __init__(self, *listeners: ListeningSocket) -> None:
        self.listeners = set(listeners)
        self.waits = Waits()

    def address(self, *, given: str | None = None, port: int | None = None) -> OwnAddress:
        """An address to be found in this world."""
        return OwnAddress(
            name="files",
            given=given,
            port=port,
            scheduler=SCHEDULER,
            listeners=lambda: self.listeners,
            pause=self.waits,
        )


@each_row(
    ("listeners", "given", "port", "found"),
    [
        ((), "http://files.test", None, "http://files.test"),
        ((), None, 9001, "http://127.0.0.1:9001"),
        ((ListeningSocket("0.0.0.0", 9001),), None, None, "http://127.0.0.1:9001"),
        ((ListeningSocket("10.1.2.3", 9001),), None, None, "http://10.1.2.3:9001"),
        ((ListeningSocket("fd00::1", 9001),), None, None, "http://[fd00::1]:9001"),
        ((ListeningSocket("::", 9001), ListeningSocket("::", 9100)), None, None, None),
        ((), None, None, None),
    ],
)
async def test_an_address_is_found(
    listeners: tuple[ListeningSocket, ...], given: str | None, port: int | None, found: str | None
) -> None:
    """As given; else the interface that reaches the scheduler, and the port on which the process listens."""
    assert await World(*listeners).address(given=given, port=port).find() == found


async def test_who_is_waited_for_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Once, with what to write; when the server opens its socket the waiting ends."""
    world = World()

    async def pause(seconds: float) -> None:
        await world.waits(seconds)
        if len(world.waits.seconds) > 2 * TRIES_BEFORE_WARNING:
            world.listeners.add(ListeningSocket("127.0.0.1", 9001))

    address = OwnAddress(
        name="files",
        given=None,
        port=None,
        scheduler=SCHEDULER,
        listeners=lambda: world.listeners,
        pause=pause,
    )
    await address.wait()
    assert address.known == "http://127.0.0.1:9001"
    said = ["files is not registered yet: its port is not known; give port=… or address=… to the Service"]
    assert [record.getMessage() for record in caplog.records] == said
    assert max(world.waits.seconds) == 1.0


async def test_loopback_is_not_told_to_a_scheduler_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    """It would call itself there; the warning says on which address the server has to listen."""
    waits = Waits()

    async def find_own(scheduler: str) -> str:
        assert scheduler == "http://scheduler.test:8000"
        return "10.1.2.3"

    async def pause(seconds: float) -> None:
        await waits(seconds)
        if len(waits.seconds) > TRIES_BEFORE_WARNING:
            listeners.clear()
            listeners.add(ListeningSocket("0.0.0.0", 9001))

    listeners = {ListeningSocket("127.0.0.1", 9001)}
    address = OwnAddress(
        name="files",
        given=None,
        port=None,
        scheduler="http://scheduler.test:8000",
        listeners=lambda: listeners,
        find_own=find_own,
        pause=pause,
    )
    await address.wait()
    assert address.known == "http://10.1.2.3:9001"
    [record] = caplog.records
    assert record.getMessage().endswith("let its server listen on 10.1.2.3")


async def test_the_interface_is_that_to_the_scheduler() -> None:
    """Nothing is sent to find it; a name that leads nowhere gives none."""
    assert await find_host("http://127.0.0.1:1") == "127.0.0.1"
    assert await find_host("http://no-such-host.invalid") is None
    # Those that listen, and no others; looking at them leaves them open
    with listening() as port:
        assert ListeningSocket("127.0.0.1", port) in find_listeners()
        assert ListeningSocket("127.0.0.1", port) in find_listeners()
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert ListeningSocket(*client.getsockname()) not in find_listeners()
    assert ListeningSocket("127.0.0.1", port) not in find_listeners()


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def default_timeout() -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(30)
    yield
    socket.setdefaulttimeout(before)


@pytest.mark.usefixtures("default_timeout")
@pytest.mark.parametrize("is_blocking", [True, False])
def test_looking_changes_no_socket(is_blocking: bool) -> None:
    """Blocking ones stay so, where the application has a default timeout too: drivers in C rely on it."""
    with listening() as port, socket.socket() as other, socket.create_server(("127.0.0.1", 0)) as server:
        for one in (other, server):
            os.set_blocking(one.fileno(), is_blocking)
        assert ListeningSocket("127.0.0.1", port) in find_listeners()
        assert [os.get_blocking(one.fileno()) for one in (other, server)] == [is_blocking] * 2


async def test_an_application_registers_without_an_address() -> None:
    """Its server opens the socket after the application has started."""
    registry = Registry()
    async with Client(SCHEDULER, transport=registry.transport) as client:
        service = Service("reports", client=client, signals=(), instance_id="one")
        app = FastAPI()
        app.add_middleware(service.wrap)
        async with serving(app, lifespan="on") as url:
            await registry.until(lambda: "one" in registry.instances)
            assert registry.instances["one"].address == url
        assert registry.told[-1] == "deregistered"
    # It was never registered
    registry = Registry()
    async with Client("http://no-such-host.invalid", transport=registry.transport) as client:
        service = Service("reports", client=client, port=9001, signals=())
        await service.start()
        await service.stop()
    assert "instance" not in registry.told
