"""What the sender makes of peers that hang, cut, reset and lie, and what it sends again."""

import asyncio
from collections.abc import Sequence

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.transport.addresses import Address
from tests.unit.transport.servers import Handler, Peer, Stage, request

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


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"])
async def test_a_kept_connection_that_closes_is_replaced_once(stage: Stage, method: str, then: str) -> None:
    """An idempotent request without a byte of an answer goes again, on a new one (RFC 9110 9.2.2)."""
    server = await stage.server(closing_kept(then))
    sender = stage.sender()
    for _ in range(2):
        assert isinstance(await sender.send(request(server.url, method=method)), Answer)
    assert (server.connections, len(server.requests)) == (2, 3)
    assert server.requests[1] == server.requests[2]


@pytest.mark.parametrize(("method", "then"), [("POST", "close"), ("PATCH", "reset"), ("GET", "half")])
async def test_others_are_sent_once(stage: Stage, method: str, then: str) -> None:
    """Another method, or a byte of an answer: whether the request was handled is unknown."""
    server = await stage.server(closing_kept(then))
    sender = stage.sender()
    assert isinstance(await sender.send(request(server.url, method=method)), Answer)
    assert isinstance(await sender.send(request(server.url, method=method)), Fault)
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
