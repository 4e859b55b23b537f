"""Connections that are kept, shared, waited for and closed (SPEC section 9)."""

import asyncio
import errno
import os
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.transport.addresses import Address, read_url
from scheduler_service.transport.egress_guard import Route, Trust
from scheduler_service.transport.errors import TimedOut
from tests.unit.transport.servers import OK, Peer, Server, Stage, no_descriptor, repeating, request


async def test_a_connection_closed_while_idle_is_not_used(stage: Stage) -> None:
    """The keep-alive race, as far as it can be known: a peer's close is seen before the next request."""
    hung_up = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.say(OK)
        peer.writer.close()
        await peer.writer.wait_closed()
        hung_up.set()

    server = await stage.server(handle)
    sender = stage.sender()
    for _ in range(3):
        assert isinstance(await sender.send(request(server.url)), Answer)
        await hung_up.wait()
        hung_up.clear()
    assert len(server.requests) == 3


async def test_noise_on_an_idle_connection(stage: Stage) -> None:
    """An answer that nobody asked for never becomes the answer to the next request."""
    spoke = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.say(OK)
        await peer.say(OK.replace(b"200", b"500"))
        spoke.set()
        await peer.reader.read()

    server = await stage.server(handle)
    sender = stage.sender()
    for _ in range(2):
        outcome = await sender.send(request(server.url))
        assert outcome.status == 200
        await spoke.wait()
        spoke.clear()
    assert server.connections == 2


async def test_an_early_answer(stage: Stage) -> None:
    """An answer before the request was read whole counts, and spends the connection."""

    async def handle(peer: Peer) -> None:
        await peer.reader.readexactly(100)
        await peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await peer.reader.read()

    server = await stage.server(handle, limit=1024)
    sender = stage.sender()
    for count in (1, 2):
        outcome = await sender.send(request(server.url, body=b"x" * 20_000_000))
        assert outcome.status == 413
        assert server.connections == count


async def test_a_call_given_up_leaves_the_next_one_on_its_connection_alone(stage: Stage) -> None:
    """Cancelled while its answer comes in, it has no say over who takes the connection then
    (SPEC section 4)."""
    peers: list[Peer] = []
    came = [asyncio.Event(), asyncio.Event()]

    async def note(peer: Peer) -> None:
        peers.append(peer)
        while True:
            await peer.read()
            next(event for event in came if not event.is_set()).set()

    server = await stage.server(note)
    sender = stage.sender()
    given_up = asyncio.create_task(sender.send(request(server.url)))
    await came[0].wait()
    peers[0].writer.write(OK)
    await asyncio.sleep(0)  # the answer is readable now: it is read in the round in which this goes on
    following = asyncio.create_task(sender.send(request(server.url)))
    given_up.cancel()
    await came[1].wait()
    for peer in peers:
        peer.writer.write(OK)
    async with asyncio.timeout(60):
        answer = await following
    assert answer.status == 200


async def test_the_line_before_a_full_origin(stage: Stage) -> None:
    """Beyond the limit calls wait in line, and none is lost, whether connections are kept or not."""
    busiest = open_now = 0

    async def handle(peer: Peer) -> None:
        nonlocal busiest, open_now
        open_now += 1
        busiest = max(busiest, open_now)
        try:
            while b"/close" not in await peer.read():
                await peer.say(OK)
        finally:
            open_now -= 1
        await peer.say(OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))

    server = await stage.server(handle)
    sender = stage.sender(connections=2)
    urls = [f"{server.url}/{'close' if number % 3 else ''}" for number in range(60)]
    outcomes = await asyncio.gather(*[sender.send(request(url)) for url in urls])
    assert all(isinstance(outcome, Answer) for outcome in outcomes)
    assert busiest <= 2


async def test_tenants_take_turns_in_the_line(stage: Stage) -> None:
    """Many calls of one delay a call of another by one."""
    came, may_answer = asyncio.Event(), asyncio.Event()

    async def handle(peer: Peer) -> None:
        while True:
            await peer.read()
            came.set()
            await may_answer.wait()
            await peer.say(OK)

    server = await stage.server(handle)
    sender = stage.sender(connections=1)
    first = asyncio.create_task(sender.send(request(f"{server.url}/first")))
    await came.wait()
    ended: list[str] = []

    async def send(name: str, tenant: str) -> None:
        await sender.send(request(f"{server.url}/{name}", tenant=tenant))
        ended.append(name)

    async with asyncio.TaskGroup() as calls:
        for number in range(20):
            calls.create_task(send(f"crowd-{number}", "crowd"))
        calls.create_task(send("other", "other"))
        await asyncio.sleep(0)  # all of them stand in line now
        may_answer.set()
    await first
    assert ended == ["crowd-0", "other", *(f"crowd-{number}" for number in range(1, 20))]


async def test_the_wait_in_line_counts(stage: Stage) -> None:
    """A call in line ends at its timeout or when it is stopped, and leaves its place to the next."""
    came = asyncio.Event()

    async def handle(peer: Peer) -> None:
        if b"/slow" in await peer.read():
            came.set()
            await peer.reader.read()
        await peer.say(OK)

    server = await stage.server(handle)
    sender = stage.sender(connections=1)
    slow = asyncio.create_task(sender.send(request(f"{server.url}/slow")))
    await came.wait()
    late = await sender.send(request(server.url, timeout=60))
    assert late.kind is FaultKind.TIMEOUT
    stopped, queued = (asyncio.create_task(sender.send(request(server.url))) for _ in range(2))
    await asyncio.sleep(0)  # both stand in line now
    slow.cancel()
    stopped.cancel()
    assert isinstance(await queued, Answer)
    assert len(server.requests) == 2


async def test_a_call_cancelled_at_any_point_keeps_no_connection(stage: Stage) -> None:
    """In the queue, while one is opened, just after getting one: the only connection serves the next call."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(connections=1)
    for rounds in range(40):
        calls = [asyncio.create_task(sender.send(request(server.url))) for _ in range(3)]
        for _ in range(rounds):
            await asyncio.sleep(0)
        for call in calls[: 1 + rounds % 2]:
            call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(outcome, Answer | asyncio.CancelledError) for outcome in outcomes)
        assert isinstance(outcomes[-1], Answer)


async def test_idle_connections_are_closed(stage: Stage) -> None:
    """After `idle_seconds` the sender hangs up by itself."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(idle_seconds=0.05)
    assert isinstance(await sender.send(request(server.url)), Answer)
    await server.ended.wait()
    # So that a change of the name's addresses is followed
    server = await stage.server(repeating(OK))
    sender = stage.sender(age_seconds=-1.0)
    for _ in range(2):
        assert isinstance(await sender.send(request(server.url)), Answer)
    assert server.connections == 2


async def test_calls_that_last_get_a_connection_each(stage: Stage) -> None:
    """Few connections are opened at a time, but none waits for the answer of another call."""
    everybody = asyncio.Event()
    calls = 0

    async def handle(peer: Peer) -> None:
        nonlocal calls
        await peer.read()
        calls += 1
        if calls == 60:
            everybody.set()
        await everybody.wait()
        await peer.say(OK)

    server = await stage.server(handle)
    sender = stage.sender()
    outcomes = await asyncio.gather(*[sender.send(request(server.url)) for _ in range(60)])
    assert all(isinstance(outcome, Answer) for outcome in outcomes)
    assert server.connections == 60


async def test_a_crowd_that_gets_no_answers_any_more_gets_a_connection_each(stage: Stage) -> None:
    """Who answered at once until now may need its time for the next ones: nobody waits for their answers."""
    everybody = asyncio.Event()
    held = 0

    async def handle(peer: Peer) -> None:
        nonlocal held
        while True:
            asked = await peer.read()
            if asked.endswith(b"slow"):
                held += 1
                if held == 200:
                    everybody.set()
                await everybody.wait()
            await peer.say(OK)

    server = await stage.server(handle)
    sender = stage.sender()
    quick = [sender.send(request(server.url, body=b"quick")) for _ in range(2_000)]
    slow = [sender.send(request(server.url, body=b"slow", timeout=10_000)) for _ in range(200)]
    outcomes = await asyncio.gather(*quick, *slow)
    assert all(isinstance(outcome, Answer) for outcome in outcomes)
    assert server.connections >= 200


async def test_a_route_whose_calls_ran_out_of_time_is_forgotten(stage: Stage) -> None:
    """It had no connection, and nobody waits for one any more."""
    server = await stage.server(repeating(OK))
    pool = stage.pool(connections=1, descriptors=1)
    loop = asyncio.get_running_loop()
    holder = await pool.get(Route(read_url(server.url).site, Trust.NONE), loop.time() + 60)
    for number in range(1, 6):
        route = Route(read_url(f"http://127.0.0.1:{number}").site, Trust.NONE)
        with pytest.raises(TimedOut, match="raise LimitNOFILE"):
            await pool.get(route, loop.time() + 0.03)
    assert pool.routes == 1
    assert not pool.budget.blocked
    assert holder.is_alive()


async def test_close_ends_calls_in_line_unsent(stage: Stage) -> None:
    """Those in flight make room as they end, but nothing is sent over it any more."""
    came = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.read()
        came.set()
        await peer.reader.read()

    server = await stage.server(handle)
    sender = stage.sender(connections=1)
    calls = [asyncio.create_task(sender.send(request(server.url, timeout=60_000))) for _ in range(6)]
    await came.wait()
    await sender.close()
    outcomes = await asyncio.gather(*calls, sender.send(request(server.url)))
    assert all(isinstance(one, Fault) and one.kind is FaultKind.CONNECT for one in outcomes)
    assert all("stopping" in one.message for one in outcomes if isinstance(one, Fault))
    assert len(server.requests) == server.connections == 1


async def test_a_connection_that_opens_after_close_is_not_used(stage: Stage) -> None:
    """Its call ends as those that were in line."""
    asked, found = asyncio.Event(), asyncio.Event()

    class Late:
        """A resolver that answers after the close."""

        async def resolve(self, host: str) -> Sequence[Address]:
            """Loopback."""
            asked.set()
            await found.wait()
            return [ip_address("127.0.0.1")]

    server = await stage.server(repeating(OK))
    sender = stage.sender(resolver=Late())
    url = server.url.replace("127.0.0.1", "localhost")
    call = asyncio.create_task(sender.send(request(url, timeout=60_000)))
    await asked.wait()
    await sender.close()
    found.set()
    outcome = await call
    assert "stopping" in outcome.message
    assert server.requests == []


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
