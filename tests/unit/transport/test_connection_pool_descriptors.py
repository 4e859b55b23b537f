"""Calls to several origins over few descriptors (SPEC section 9)."""

import asyncio
import errno
import os
from collections.abc import Sequence
from typing import Any

from scheduler_service.domain.wire import Answer, FaultKind
from scheduler_service.transport.addresses import Address, read_url
from tests.unit.transport.servers import OK, Peer, Server, Stage, no_descriptor, repeating, request


class Slow:
    """A target that answers when `release` is set; `waiting` calls have come to it."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.waiting = 0
        self.more = asyncio.Event()

    async def handle(self, peer: Peer) -> None:
        """Serves one connection."""
        while True:
            await peer.read()
            self.waiting += 1
            self.more.set()
            await self.release.wait()
            await peer.say(OK)

    async def until(self, count: int) -> None:
        """Returns when so many calls have come."""
        while self.waiting < count:
            self.more.clear()
            await self.more.wait()


async def slow_servers(stage: Stage, count: int) -> tuple[list[Slow], list[Server]]:
    """So many slow targets."""
    slow = [Slow() for _ in range(count)]
    return slow, [await stage.server(one.handle) for one in slow]


async def test_slow_targets_leave_a_healthy_one_its_share(stage: Stage) -> None:
    """They hold what they may, their other calls wait in line, and none of them fails for it."""
    lines: list[tuple[str, dict[str, Any]]] = []
    slow, servers = await slow_servers(stage, 3)
    healthy = await stage.server(repeating(OK))
    sender = stage.sender(descriptors=40, log=lambda event, **keys: lines.append((event, keys)))
    calls = [
        asyncio.create_task(sender.send(request(server.url, timeout=60_000)))
        for server in servers
        for _ in range(100)
    ]
    for one in slow:
        await one.until(5)
    for _ in range(20):
        beside = [sender.send(request(healthy.url)) for _ in range(10)]
        assert all(isinstance(answer, Answer) for answer in await asyncio.gather(*beside))
    assert sum(one.waiting for one in slow) < 40
    for one in slow:
        one.release.set()
    assert all(isinstance(answer, Answer) for answer in await asyncio.gather(*calls))
    assert {event for event, _ in lines} == {"calls_delayed"}


async def test_more_origins_than_descriptors(stage: Stage) -> None:
    """Each gets its turn, over connections that others have left idle or that were slow."""
    slow, servers = await slow_servers(stage, 12)
    sender = stage.sender(descriptors=6)
    calls = [asyncio.create_task(sender.send(request(server.url))) for server in servers for _ in range(5)]
    some = [asyncio.create_task(one.until(1)) for one in slow]
    await asyncio.wait(some, return_when=asyncio.FIRST_COMPLETED)
    for one in slow:
        one.release.set()
    assert all(isinstance(answer, Answer) for answer in await asyncio.gather(*calls))
    assert all(one.waiting == 5 for one in slow)
    await asyncio.gather(*some)


async def test_a_call_that_waits_for_a_descriptor_ends_at_its_timeout(stage: Stage) -> None:
    """As `timeout`, with the remedy, and not as `connect`."""
    [slow], [server] = await slow_servers(stage, 1)
    sender = stage.sender(descriptors=2)
    first = asyncio.create_task(sender.send(request(server.url)))
    await slow.until(1)
    late = await sender.send(request(server.url, timeout=50))
    assert late.kind is FaultKind.TIMEOUT
    assert "raise LimitNOFILE" in late.message
    slow.release.set()
    assert isinstance(await first, Answer)


async def test_cancelled_calls_leave_their_descriptors_to_others(stage: Stage) -> None:
    """At any point of their way."""
    _, [server] = await slow_servers(stage, 1)
    healthy = await stage.server(repeating(OK))
    sender = stage.sender(descriptors=3)
    for rounds in range(30):
        calls = [asyncio.create_task(sender.send(request(server.url))) for _ in range(6)]
        for _ in range(rounds):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(await sender.send(request(healthy.url)), Answer)


async def test_a_call_for_which_there_is_no_descriptor_is_tried_again(stage: Stage) -> None:
    """It is not the fault of the target; where none becomes free, the call ends at its timeout."""
    server = await stage.server(repeating(OK))
    noted = asyncio.Event()
    sender = stage.sender(log=lambda event, **keys: noted.set())
    with no_descriptor():
        call = asyncio.create_task(sender.send(request(server.url, timeout=60_000)))
        noting = asyncio.create_task(noted.wait())
        await asyncio.wait([call, noting], return_when=asyncio.FIRST_COMPLETED)
        assert noting.done(), "a descriptor became free"
        late = await sender.send(request(server.url, timeout=50))
    assert late.kind is FaultKind.TIMEOUT
    assert "raise LimitNOFILE" in late.message
    assert isinstance(await call, Answer)


class Starved:
    """A resolver that finds no descriptor at first."""

    def __init__(self) -> None:
        self.asked = 0

    async def resolve(self, host: str) -> Sequence[Address]:
        """Loopback, at the third time."""
        self.asked += 1
        if self.asked < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        address = read_url("http://127.0.0.1:1").site.address
        assert address is not None
        return (address,)


async def test_a_lookup_for_which_there_is_no_descriptor_is_tried_again(stage: Stage) -> None:
    """The same for names."""
    server = await stage.server(repeating(OK))
    resolver = Starved()
    sender = stage.sender(resolver=resolver)
    url = server.url.replace("127.0.0.1", "localhost")
    assert isinstance(await sender.send(request(url)), Answer)
    assert resolver.asked == 3
