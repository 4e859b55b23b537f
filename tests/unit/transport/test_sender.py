"""What the sender sends, and what it makes of ordinary answers."""

import asyncio
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from scheduler_service.domain.moments import Now
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.ports.sending import NotSent
from scheduler_service.transport.addresses import Address
from scheduler_service.transport.egress_guard import EgressPolicy, Trust
from tests.manual_clock import ManualClock
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import (
    OK,
    Handler,
    Peer,
    Server,
    Stage,
    TableResolver,
    head_of,
    repeating,
    request,
)


async def test_service_targets(stage: Stage) -> None:
    """A static service may be on loopback though the policy refuses it; as http the same address may not."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(
        policy=EgressPolicy(allow=[], deny=[]),
        directory=StaticDirectory(addresses={"oa": f"{server.url}/base", "meta": "http://169.254.169.254"}),
        owner_url=server.url,
    )
    outcome = await sender.send(request("service://oa/x?y=1"))
    assert outcome.url == f"{server.url}/base/x?y=1"
    assert isinstance(await sender.send(request("service:/own")), Answer)
    assert [head_of(raw)[""] for raw in server.requests] == [
        "POST /base/x?y=1 HTTP/1.1",
        "POST /own HTTP/1.1",
    ]
    direct = await sender.send(request(f"{server.url}/x"))  # a pooled connection must not be a way around
    assert direct.kind is FaultKind.EGRESS
    metadata = await sender.send(request("service://meta/x"))
    assert metadata.kind is FaultKind.EGRESS
    unknown = await sender.send(request("service://nobody/x"))
    assert unknown.kind is FaultKind.NO_INSTANCE
    assert "services.static" in unknown.message


async def test_a_request_that_may_not_go_leaves_nothing(stage: Stage) -> None:
    """It is asked when the connection is there, new or kept; the connection serves the next one."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    for _ in range(2):
        with pytest.raises(NotSent):
            await sender.send(request(server.url), lambda: False)
    assert (server.requests, server.connections) == ([], 1)
    assert isinstance(await sender.send(request(server.url), lambda: True), Answer)
    with pytest.raises(NotSent):
        await sender.send(request(server.url), lambda: False)
    assert (len(server.requests), server.connections) == (1, 1)
    # What stood still while it waited in line must not leave on an answer from before
    server = await stage.server(repeating(OK))
    sender = stage.sender(connections=1)
    asked: list[int] = []

    def may_go() -> bool:
        asked.append(server.connections)
        return True

    answers = await asyncio.gather(*(sender.send(request(server.url), may_go) for _ in range(3)))
    assert all(isinstance(answer, Answer) for answer in answers)
    assert asked == [1, 1, 1]


class Counting(ManualClock):
    """Counts how often it is asked."""

    asked = 0

    def now(self) -> Now:
        self.asked += 1
        return super().now()


async def test_system_functions(stage: Stage) -> None:
    """`system://NAME` runs a function of this process; one that fails or is not there is a Fault."""

    async def clean() -> Answer:
        return Answer(200, body=b'{"removed":3}')

    async def broken() -> Answer:
        raise KeyError("table")

    sender = stage.sender(system={"clean": clean, "broken": broken})
    done = await sender.send(request("system://clean"))
    assert (done.body, done.url) == (b'{"removed":3}', "system://clean")
    failed = await sender.send(request("system://broken"))
    assert failed.kind is FaultKind.CONNECT
    assert "system://broken" in failed.message
    missing = await sender.send(request("system://other"))
    assert missing.kind is FaultKind.NO_INSTANCE
    # The same for what runs in this process
    called: list[bool] = []

    async def function() -> Answer:
        called.append(True)
        return Answer(200)

    with pytest.raises(NotSent):
        await stage.sender(system={"one": function}).send(request("system://one"), lambda: False)
    assert called == []
    # `X-Scheduling-Deadline` is of requests: the clock is not asked

    async def function() -> Answer:
        return Answer(200)

    clock = Counting()
    await stage.sender(system={"one": function}, clock=clock).send(request("system://one"))
    assert clock.asked == 0


NAME = "rebind.test"


async def inside(stage: Stage) -> tuple[Server, str]:
    """A server that nobody may reach, and its address by a name that leads to it now."""
    server = await stage.server(repeating(OK))
    return server, f"http://{NAME}:{server.port}"


@pytest.mark.parametrize("chosen", [False, True])
async def test_a_name_that_leads_elsewhere_now_is_refused(stage: Stage, chosen: bool) -> None:
    """Whatever it resolved to when it was registered; no connection is made."""
    server, address = await inside(stage)
    sender = stage.sender(
        policy=EgressPolicy(allow=[], deny=[]),
        directory=StaticDirectory(addresses={"oa": address}),
        resolver=TableResolver({NAME: [["127.0.0.1"]]}),
        trust_of=lambda _, noted: Trust.VOUCHED if noted else Trust.NONE,
    )
    outcome = await sender.send(request("service://oa/x", base=address if chosen else ""))
    assert outcome.kind is FaultKind.EGRESS
    assert server.connections == 0
    if chosen:  # who registered it is noted beside it
        vouched = request("service://oa/x", base=address, vouched=True)
        assert isinstance(await sender.send(vouched), Answer)


async def test_the_connection_goes_to_the_address_that_was_judged(stage: Stage) -> None:
    """The name is resolved once for each connection: a second answer is never used unjudged."""
    server, address = await inside(stage)
    resolver = TableResolver({NAME: [["127.0.0.1"], ["169.254.169.254"]]})
    sender = stage.sender(
        directory=StaticDirectory(addresses={"oa": address}),
        resolver=resolver,
        trust_of=lambda _, noted: Trust.VOUCHED if noted else Trust.NONE,
    )
    assert isinstance(await sender.send(request("service://oa/x")), Answer)
    assert (resolver.asked, server.connections) == ([NAME], 1)


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
            assert outcome.kind is FaultKind.TIMEOUT
