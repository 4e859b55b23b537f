"""A call that fails leaves nothing behind that only the garbage collector could find."""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from scheduler_service.domain.wire import Fault, FaultKind, OutboundRequest
from scheduler_service.transport.addresses import Address
from tests.unit.transport.servers import Handler, Peer, Stage

CALLS = 5
BODY = b"y" * 50_000
SHORT, LONG = 30, 5_000


async def hang(peer: Peer) -> None:
    """Never answers."""
    await peer.read()
    await peer.reader.read()


async def cut(peer: Peer) -> None:
    """Closes in the middle of its answer."""
    await peer.read()
    await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + b"x" * 60_000)


class Silent:
    """A resolver that never answers."""

    async def resolve(self, host: str) -> Sequence[Address]:
        """Waits until the call's time is up."""
        return await asyncio.get_running_loop().create_future()


def post(url: str, timeout: int) -> OutboundRequest:
    return OutboundRequest("POST", url, (), BODY, timeout=timeout)


@contextmanager
def leaving_no_circles() -> Iterator[None]:
    """What is done within leaves no large body to the collector, which rests meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
        assert held_by_circles() == 0
    finally:
        gc.enable()


def held_by_circles() -> int:
    """The bytes of large bodies that the collector finds in what nobody refers to."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        found = gc.garbage[:]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    bodies = {id(one): len(one) for thing in found for one in gc.get_referents(thing) if _is_large(one)}
    return sum(bodies.values())


def _is_large(thing: object) -> bool:
    return isinstance(thing, bytes | bytearray) and len(thing) > len(BODY) // 2


@pytest.mark.parametrize(("handler", "timeout"), [(hang, SHORT), (cut, LONG), (None, LONG)])
async def test_a_failed_call_leaves_no_circles(stage: Stage, handler: Handler | None, timeout: int) -> None:
    """Else each one would keep its request, and what came of the answer, until the collector runs."""
    url = "http://127.0.0.1:1" if handler is None else (await stage.server(handler)).url
    sender = stage.sender()
    with leaving_no_circles():
        for _ in range(CALLS):
            assert isinstance(await sender.send(post(url, timeout)), Fault)


async def test_a_call_that_ran_out_of_time_in_line_leaves_none(stage: Stage) -> None:
    """The same where it never had a connection."""
    url = (await stage.server(hang)).url
    sender = stage.sender(connections=1)
    first = asyncio.ensure_future(sender.send(post(url, LONG)))
    await asyncio.sleep(0)
    with leaving_no_circles():
        for _ in range(CALLS):
            assert isinstance(await sender.send(post(url, SHORT)), Fault)
    first.cancel()


async def test_a_call_that_ran_out_of_time_while_a_connection_opened_leaves_none(stage: Stage) -> None:
    """The same where no address was known yet."""
    sender = stage.sender(resolver=Silent())
    with leaving_no_circles():
        for _ in range(CALLS):
            outcome = await sender.send(post("http://localhost:1", SHORT))
            assert isinstance(outcome, Fault)
            assert outcome.kind is FaultKind.TIMEOUT
