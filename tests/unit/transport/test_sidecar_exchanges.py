"""Connections to one server of this machine: kept, bounded, and closed; the rest is held by `test_pool`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from scheduler_service.transport.errors import Unreached
from scheduler_service.transport.sidecar_exchanges import KeptConnections
from tests.ports import free_port
from tests.unit.transport.servers import OK, Stage, answering, repeating

ASK = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
PATIENCE = 10.0


class Opener:
    """Makes connections that end with the test."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    def open(self, port: int, most: int = 8) -> KeptConnections:
        connections = KeptConnections(port=port, most=most, response_bytes=1_024)
        self._stack.push_async_callback(connections.close)
        return connections


@pytest.fixture
async def opener(stage: Stage) -> AsyncIterator[Opener]:
    async with AsyncExitStack() as stack:
        yield Opener(stack)


async def test_exchanges_one_after_the_other_share_a_connection(stage: Stage, opener: Opener) -> None:
    """The request comes as it was given, the answer whole."""
    server = await stage.server(repeating(OK))
    connections = opener.open(server.port)
    for _ in range(5):
        answer = await connections.exchange(ASK, method="GET", seconds=PATIENCE)
        assert (answer.status, answer.body) == (200, b"ok")
    assert (server.connections, server.requests) == (1, [ASK] * 5)
    # At once, and again each time: nothing was sent
    port = free_port()
    connections = opener.open(port)
    for _ in range(2):
        with pytest.raises(Unreached, match=f"http://127.0.0.1:{port} cannot be reached"):
            await connections.exchange(ASK, method="GET", seconds=PATIENCE)


@pytest.mark.parametrize("most", [1, 3])
async def test_no_more_than_said_are_open(stage: Stage, opener: Opener, most: int) -> None:
    """Those that wait are sent when one is free, the first to come first."""
    server = await stage.server(repeating(OK))
    connections = opener.open(server.port, most)
    asks = [ASK.replace(b"/ ", b"/%02d " % number) for number in range(20)]
    tasks = [connections.exchange(ask, method="GET", seconds=PATIENCE) for ask in asks]
    assert [answer.status for answer in await asyncio.gather(*tasks)] == [200] * 20
    assert server.connections == most
    assert sorted(server.requests) == asks
    assert most > 1 or server.requests == asks


async def test_the_wait_for_a_connection_ends_in_time(stage: Stage, opener: Opener) -> None:
    """Nothing was sent."""
    server = await stage.server(answering())
    connections = opener.open(server.port, most=1)
    first = asyncio.create_task(connections.exchange(ASK, method="GET", seconds=PATIENCE))
    await asyncio.sleep(0)
    with pytest.raises(Unreached, match="may be in use"):
        await connections.exchange(ASK, method="GET", seconds=0.05)
    first.cancel()
    await asyncio.wait([first])
