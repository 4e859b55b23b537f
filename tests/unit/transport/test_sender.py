"""What the sender sends, and what it makes of ordinary answers."""

import asyncio
import errno
import gc
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from scheduler_service.domain.moments import Now
from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.ports.sending import NotSent, always
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
    crossing,
    head_of,
    keeping,
    no_descriptor,
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


async def test_host_and_authority_are_checked(stage: Stage, certificate: tuple[Path, Path]) -> None:
    """The right name and the address pass; another name, or an unknown authority, is `connect`."""
    cert, _ = certificate
    server = await serve_tls(stage, certificate)
    resolver = TableResolver({"good.test": [["127.0.0.1"]], "bad.test": [["127.0.0.1"]]})
    sender = stage.sender(resolver=resolver, trust=lambda: ssl.create_default_context(cafile=str(cert)))
    for host in ("good.test", "good.test", "127.0.0.1"):
        outcome = await sender.send(
            OutboundRequest("GET", f"https://{host}:{server.port}/", (), timeout=5000)
        )
        assert isinstance(outcome, Answer), outcome
    assert server.connections == 2
    strangers = (
        (sender, "bad.test"),
        (stage.sender(resolver=resolver), "good.test"),
    )
    for stranger, host in strangers:
        outcome = await stranger.send(
            OutboundRequest("GET", f"https://{host}:{server.port}/", (), timeout=5000)
        )
        assert outcome.kind is FaultKind.CONNECT
        assert "certificate" in outcome.message
    assert len(server.requests) == 3


async def test_a_private_authority_is_named_in_the_environment(
    stage: Stage, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenSSL has it; without it the message says so, and does not ask whether the target is up."""
    server = await serve_tls(stage, certificate)
    refused = await stage.sender().send(get(server))
    assert "certificate verify failed: self-signed certificate" in refused.message
    assert "(PEM) by SSL_CERT_FILE" in refused.message
    assert "Is it up" not in refused.message
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert isinstance(await stage.sender().send(get(server)), Answer)


def read_nothing() -> ssl.SSLContext:
    """What OpenSSL makes, without an error, when it cannot open its file of authorities."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def read_in_vain() -> ssl.SSLContext:
    """What happens where the file is named."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("read_first", [read_nothing, read_in_vain])
async def test_authorities_that_cannot_be_read_are_read_again(
    stage: Stage, certificate: tuple[Path, Path], read_first: Callable[[], ssl.SSLContext]
) -> None:
    """For want of a descriptor: the call waits for one, and none fails for it (SPEC section 9)."""
    server = await serve_tls(stage, certificate)
    reads = 0
    with ExitStack() as shortage:

        def trust() -> ssl.SSLContext:
            nonlocal reads
            reads += 1
            if reads == 1:
                shortage.enter_context(no_descriptor())
                return read_first()
            return ssl.create_default_context(cafile=str(certificate[0]))

        sender = stage.sender(trust=trust, log=lambda event, **keys: shortage.close())
        for _ in range(2):
            outcome = await sender.send(get(server))
            assert isinstance(outcome, Answer), outcome
    assert reads == 2


async def test_a_trust_without_authorities_is_not_kept(stage: Stage, certificate: tuple[Path, Path]) -> None:
    """A descriptor may have become free before anybody could see that there was none."""
    server = await serve_tls(stage, certificate)
    contexts = [ssl.create_default_context(cafile=str(certificate[0])), read_nothing()]
    sender = stage.sender(trust=contexts.pop)
    assert isinstance(await sender.send(get(server)), Fault)
    assert isinstance(await sender.send(get(server)), Answer)


async def serve_tls(stage: Stage, certificate: tuple[Path, Path]) -> Server:
    """A target with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return await stage.server(repeating(OK), ssl=context)


def get(server: Server) -> OutboundRequest:
    """A request by its address."""
    return OutboundRequest("GET", f"https://127.0.0.1:{server.port}/", (), timeout=60_000)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"


def saying(*pieces: bytes, then: str) -> Handler:
    """A handler that reads a request, says the pieces, and then ends in the way that is named."""

    async def handle(peer: Peer) -> None:
        await peer.read()
        for piece in pieces:
            await peer.say(piece)
        if then == "reset":
            peer.reset()
        elif then == "hang":
            await peer.reader.read()

    return handle


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (saying(then="close"), "before it answered"),
        (saying(then="reset"), "before it answered"),
        (saying(HEAD, b"half", then="close"), "in the middle"),
        (saying(HEAD, b"half", then="reset"), ""),
        (saying(b"HTTP/1.1 200", then="close"), "in the middle"),
        (saying(CHUNKED + b"3\r\nabc\r\n", then="close"), "in the middle"),
        (saying(CHUNKED + b"-3\r\nabc\r\n", then="hang"), "HTTP/1.1"),
        (saying(b"220 smtp ready\r\n", then="hang"), "HTTP/1.1"),
        (saying(b"HTTP/1.1 200 OK\r\n", *[b"X-A: b\r\n" * 50] * 10, then="hang"), "headers"),
        (saying(b"HTTP/1.1 200 OK\r\nX-A: ", *[b"b" * 10_000] * 20, then="hang"), "headers"),
    ],
)  # fmt: skip
async def test_no_whole_answer_is_a_fault(stage: Stage, handler: Handler, words: str) -> None:
    """Cut, reset, or not HTTP: kind `connect`, naming the origin; sent once."""
    server = await stage.server(handler)
    outcome = await stage.sender().send(request(f"{server.url}/hush"))
    assert (outcome.kind, outcome.unsent) == (FaultKind.CONNECT, False)
    assert server.url in outcome.message
    assert words in outcome.message
    assert "hush" not in outcome.message
    assert server.connections == 1


def closing_kept(then: str) -> Handler:
    """A handler that answers once over each connection, and ends at the next request."""

    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.say(b"HTTP/1.1 204 X\r\n\r\n")
        await peer.read()
        if then == "reset":
            peer.reset()
        elif then == "half":
            await peer.say(b"HTTP/1.1 2")

    return handle


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
async def test_what_comes_to_a_closed_connection_is_sent_once_more(stage: Stage, method: str) -> None:
    """Nothing of it came to the target, and the method is idempotent (RFC 9110 section 9.2.2)."""
    peers: list[Peer] = []
    server = await stage.server(keeping(peers, b"HTTP/1.1 204 X\r\n\r\n"))
    sender = stage.sender()
    for may_go in (always, crossing(peers)):
        outcome = await sender.send(request(f"{server.url}/{len(peers)}", method=method), may_go)
        assert isinstance(outcome, Answer)
    assert (server.connections, len(server.requests)) == (2, 2)
    # Another method is sent once, whatever is known
    outcome = await sender.send(request(server.url), crossing(peers[1:]))
    assert isinstance(outcome, Fault)
    assert (server.connections, len(server.requests)) == (2, 2)


async def test_so_is_a_body_of_its_own(stage: Stage) -> None:
    """A body apart from the head is counted with it."""
    peers: list[Peer] = []
    server = await stage.server(keeping(peers, OK))
    sender = stage.sender()
    for may_go in (always, crossing(peers)):
        assert isinstance(await sender.send(request(server.url, "PUT", body=b"x" * 40_000), may_go), Answer)
    assert (server.connections, len(server.requests)) == (2, 2)


@pytest.mark.parametrize("then", ["close", "reset", "half"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
async def test_what_the_target_may_have_handled_is_sent_once(stage: Stage, method: str, then: str) -> None:
    """It came before the connection was closed: a failed connection, and `retry` decides (SPEC section 5)."""
    server = await stage.server(closing_kept(then))
    sender = stage.sender()
    assert isinstance(await sender.send(request(server.url, method=method)), Answer)
    outcome = await sender.send(request(server.url, method=method))
    assert (outcome.kind, outcome.unsent) == (FaultKind.CONNECT, False)
    assert (server.connections, len(server.requests)) == (1, 2)


async def test_nobody_listens(stage: Stage) -> None:
    """A refused connection is `connect`, and nothing was sent; after a redirect something was."""
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    outcome = await stage.sender().send(request(f"http://127.0.0.1:{port}/"))
    assert (outcome.kind, outcome.unsent) == (FaultKind.CONNECT, True)
    moved = f"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n"
    first = await stage.server(saying(moved.encode(), then="hang"))
    outcome = await stage.sender().send(request(first.url, redirects=1))
    assert (outcome.kind, outcome.unsent) == (FaultKind.CONNECT, False)


async def drip(peer: Peer) -> None:
    """Answers a byte a millisecond, for ever: no wait between two is long, and they are never too many."""
    await peer.read()
    await peer.say(b"HTTP/1.1 200 OK\r\n\r\n")
    while not peer.writer.is_closing():
        await peer.say(b"x")
        await asyncio.sleep(0.001)


async def loop_redirect(peer: Peer) -> None:
    """Redirects in a circle; each hop alone would be in time."""
    while True:
        await peer.read()
        await asyncio.sleep(0.2)
        await peer.say(b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    "handler", [saying(then="hang"), saying(HEAD, b"half", then="hang"), drip, loop_redirect]
)
async def test_the_timeout_covers_the_whole_call(stage: Stage, handler: Handler) -> None:
    """Silence, a stop, a slow drip, slow redirects: over at the timeout, and closed (SPEC section 4)."""
    server = await stage.server(handler)
    outcome = await stage.sender().send(request(server.url, timeout=500, redirects=5))
    assert outcome.kind is FaultKind.TIMEOUT
    assert 500 <= outcome.elapsed < 10_000
    await server.ended.wait()


async def test_a_slow_resolver_and_a_slow_function(stage: Stage) -> None:
    """The timeout covers the lookup of the name, and system functions."""

    class Never:
        async def resolve(self, host: str) -> Sequence[Address]:
            await asyncio.Event().wait()
            return ()

    async def stuck() -> Answer:
        await asyncio.Event().wait()
        return Answer(200)

    sender = stage.sender(resolver=Never(), system={"stuck": stuck})
    for url in ("http://slow.test/", "system://stuck"):
        outcome = await sender.send(request(url, timeout=100))
        assert outcome.kind is FaultKind.TIMEOUT


async def test_no_handshake(stage: Stage) -> None:
    """A peer that accepts and never speaks TLS ends at the timeout; one that speaks HTTP is `connect`."""
    silent = await stage.server(saying(then="hang"))
    plain = await stage.server(lambda peer: peer.say(b"HTTP/1.1 400 Bad\r\n\r\n"))
    sender = stage.sender()
    outcome = await sender.send(request(silent.url.replace("http:", "https:"), timeout=150))
    assert outcome.kind is FaultKind.TIMEOUT
    outcome = await sender.send(request(plain.url.replace("http:", "https:")))
    assert outcome.kind is FaultKind.CONNECT


async def test_cancellation_closes_the_connection(stage: Stage) -> None:
    """A call that is stopped closes its connection; the next one is not disturbed."""
    came = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.read()
        came.set()
        await peer.reader.read()

    server = await stage.server(handle)
    sender = stage.sender()
    call = asyncio.create_task(sender.send(request(server.url)))
    await came.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await server.ended.wait()
