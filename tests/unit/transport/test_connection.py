"""One connection: kept, or spent."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import Callable, Sequence

import pytest

from scheduler_service.domain.wire import Answer, FaultKind, OutboundRequest, Outcome
from scheduler_service.pacing.waiting_room import Place, Room
from scheduler_service.transport.connection import Deadlines, HttpConnection, ReadBuffer, make_prober
from scheduler_service.transport.errors import TransportError
from tests.certificate import Certificate, server_context
from tests.unit.transport.servers import OK, Handler, Peer, Server, Stage, answering, repeating, request


def test_a_probe_hears_bytes_and_the_end_of_its_own_socket() -> None:
    """It takes nothing away: whoever reads later finds all of it."""
    make_probe = make_prober()
    ours, theirs = socket.socketpair()
    other, silent = socket.socketpair()
    with ours, theirs, other, silent:
        ours.setblocking(False)
        is_silent, is_other_silent = make_probe(ours), make_probe(other)
        assert is_silent()
        theirs.sendall(b"unasked")
        assert not is_silent()
        assert ours.recv(100) == b"unasked"
        assert is_silent()
        theirs.close()
        assert not is_silent()
        assert is_other_silent()


BODY = bytes(range(256)) * 20_000
PIECE = 65_536


class Owner:
    """Takes back the connections of a test."""

    def __init__(self) -> None:
        self.released = 0

    def release(self, connection: HttpConnection) -> None:
        self.released += 1

    def lose(self, connection: HttpConnection) -> None:
        pass


class EncryptedTransport(asyncio.Transport):
    """A transport as TLS has it, whose peer takes nothing until `take` is called."""

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self._connection = connection
        self._high = 0
        self.pending = 0
        self.written = 0
        self.is_aborted = False

    def set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As TLS's (asyncio)."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0

    def get_write_buffer_size(self) -> int:
        return self.pending

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += len(data)
        was, self.pending = self.pending, self.pending + len(data)
        if was <= self._high < self.pending:
            self._connection.pause_writing()

    def take(self) -> None:
        """The peer takes all of it."""
        was, self.pending = self.pending, 0
        if was > self._high:
            self._connection.resume_writing()

    def abort(self) -> None:
        self.is_aborted = True
        asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


Begun = tuple[EncryptedTransport, HttpConnection, Owner, asyncio.Task[object]]


@pytest.fixture
async def begun() -> Begun:
    """An exchange of `BODY` whose peer has taken nothing yet."""
    owner = Owner()
    connection = HttpConnection(
        origin="https://target", owner=owner, deadlines=Deadlines(), limit=PIECE, is_silent=lambda: True,
        buffer=ReadBuffer(),
    )  # fmt: skip
    transport = EncryptedTransport(connection)
    connection.connection_made(transport)
    deadline = asyncio.get_running_loop().time() + 60
    task: asyncio.Task[object] = asyncio.create_task(
        connection.exchange(b"head", method="POST", deadline=deadline, body=BODY)
    )
    await settle()
    return transport, connection, owner, task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def answer(connection: HttpConnection) -> None:
    connection.get_buffer(-1)[: len(OK)] = OK
    connection.buffer_updated(len(OK))


async def test_no_more_is_encrypted_than_the_peer_takes(
    begun: Begun,
) -> None:
    """A piece or two at a time, all of it in the end, and then the connection carries another exchange."""
    transport, connection, owner, task = begun
    most = transport.pending
    while transport.written < len(BODY):
        assert transport.pending
        transport.take()
        await settle()
        most = max(most, transport.pending)
    assert PIECE < most <= 2 * PIECE
    assert transport.written == len(b"head") + len(BODY)
    transport.take()
    answer(connection)
    await task
    assert owner.released == 1
    assert not transport.is_aborted


async def test_an_answer_before_the_end_ends_the_connection(
    begun: Begun,
) -> None:
    """What follows on it would be taken for the rest of the body; nothing more of that is written."""
    transport, connection, owner, task = begun
    transport.pending = 0  # the peer has taken what there was, and nobody has been told yet
    answer(connection)
    written = transport.written
    await task
    assert (owner.released, transport.is_aborted, transport.written) == (0, True, written)


@pytest.mark.parametrize("end", ["lost", "cancelled"])
async def test_an_end_in_between_writes_no_more(begun: Begun, end: str) -> None:
    """Whoever ends the exchange."""
    transport, connection, _, task = begun
    written = transport.written
    if end == "lost":
        connection.eof_received()
        connection.resume_writing()
        await settle()
        assert transport.written == written
        connection.connection_lost(ConnectionResetError())
        with pytest.raises(TransportError):
            await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert transport.is_aborted
    connection.resume_writing()
    await settle()
    assert transport.written == written


async def serve(stage: Stage, certificate: Certificate, handler: Handler) -> Server:
    return await stage.server(handler, ssl=server_context(certificate))


async def send(
    stage: Stage, certificate: Certificate, *servers: Server, body: bytes = BODY, timeout: int = 30_000
) -> list[Outcome]:
    """`body` to each of them, one after the other."""
    sender = stage.sender(trust=lambda: ssl.create_default_context(cafile=str(certificate[0])))
    urls = [f"https://127.0.0.1:{one.port}/" for one in servers]
    return [await sender.send(OutboundRequest("POST", url, (), body, timeout=timeout)) for url in urls]


async def test_a_peer_that_answers_early_is_heard(stage: Stage, certificate: Certificate) -> None:
    """It has read the head alone; the next request has a connection of its own."""

    async def handle(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(OK)
        await peer.reader.read(-1)

    server = await serve(stage, certificate, handle)
    assert all(isinstance(one, Answer) for one in await send(stage, certificate, server, server))
    assert server.connections == 2


async def test_a_peer_that_takes_nothing_ends_by_the_timeout(stage: Stage, certificate: Certificate) -> None:
    """As over a plain connection."""

    async def handle(peer: Peer) -> None:
        peer.writer.transport.pause_reading()
        await asyncio.Event().wait()

    server = await serve(stage, certificate, handle)
    more_than_the_system_keeps = bytes(32 << 20)
    (outcome,) = await send(stage, certificate, server, body=more_than_the_system_keeps, timeout=300)
    assert outcome.kind is FaultKind.TIMEOUT


async def test_a_peer_that_goes_away_in_between_is_named(stage: Stage, certificate: Certificate) -> None:
    """The call fails at once, and not by its timeout."""

    async def handle(peer: Peer) -> None:
        await peer.reader.readexactly(PIECE)
        peer.reset()

    server = await serve(stage, certificate, handle)
    (outcome,) = await send(stage, certificate, server)
    assert outcome.kind is FaultKind.CONNECT


SIZE = 200_000
LARGE_BODY = (bytes(range(256)) * SIZE)[:SIZE]
MOST = 2 * SIZE
LIMIT = 1 << 20


def framed(body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"HTTP/1.1 200 OK\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[begin : begin + size] for begin in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


LARGE = framed(LARGE_BODY)
ZEROS = bytes(LIMIT - 1)
ANSWERS = {
    "length": (LARGE, LARGE_BODY),
    "chunked": (chunked(LARGE_BODY, 3_000), LARGE_BODY),
    "gzip": (framed(gzip.compress(LARGE_BODY * 3, 0), "Content-Encoding: gzip"), LARGE_BODY * 3),
    # In one read, but for its end: it is not decoded before there is room.
    "packed": (framed(gzip.compress(ZEROS), "Content-Encoding: gzip"), ZEROS),
    "packed members": (
        framed(gzip.compress(ZEROS[:70_000]) + gzip.compress(LARGE_BODY), "Content-Encoding: gzip"),
        ZEROS[:70_000] + LARGE_BODY,
    ),
}
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\n\r\n" + LARGE_BODY


class WatchedRoom(Room):
    """Knows how many bytes of bodies were admitted at one time, and how many bodies asked."""

    def __init__(self, most: int = MOST) -> None:
        super().__init__(most)
        self.peak = 0
        self.asked = 0

    def ask(self, units: int, go_on: Callable[[], None], key: str = "") -> Place:
        def watch() -> None:
            self.peak = max(self.peak, self.taken)
            go_on()

        self.asked += 1
        place = super().ask(units, watch, key)
        self.peak = max(self.peak, self.taken)
        return place

    def fill(self) -> Place:
        """Leaves no room for anybody, until this is given back."""
        return super().ask(MOST, lambda: None, "gate")


async def until(condition: Callable[[], bool]) -> None:
    """The loop goes on until then; the limit of the test ends a wait in vain."""
    while not condition():  # noqa: ASYNC110 - the room tells nobody
        await asyncio.sleep(0)


async def begin(stage: Stage, handler: Handler, room: Room, **changes: int) -> asyncio.Task[Outcome]:
    """A call to a server of its own."""
    server = await stage.server(handler)
    sender = stage.sender(room=room, response_bytes=LIMIT)
    return asyncio.create_task(sender.send(request(server.url, **changes)))


async def in_line(stage: Stage, handler: Handler, room: Room, **changes: int) -> asyncio.Task[Outcome]:
    """A call whose response waits for room."""
    task = await begin(stage, handler, room, **changes)
    await until(lambda: room.waiting == 1)
    return task


def bodies(outcomes: Sequence[Outcome]) -> list[bytes]:
    assert all(isinstance(outcome, Answer) for outcome in outcomes), outcomes
    return [outcome.body for outcome in outcomes if isinstance(outcome, Answer)]


async def test_many_at_one_moment_are_read_a_few_at_a_time(stage: Stage) -> None:
    """All of them arrive whole, over connections that are used again."""
    asked, ready = 0, asyncio.Event()

    async def handle(peer: Peer) -> None:
        nonlocal asked
        while True:
            await peer.read()
            asked += 1
            if asked == 40:
                ready.set()
            await ready.wait()
            await peer.say(LARGE)

    room = WatchedRoom()
    servers = [await stage.server(handle) for _ in range(4)]
    sender = stage.sender(room=room, response_bytes=LIMIT)
    outcomes = await asyncio.gather(
        *(sender.send(request(server.url)) for server in servers for _ in range(10))
    )
    assert bodies(outcomes) == [LARGE_BODY] * 40
    assert (room.asked, room.peak) == (40, MOST)
    await until(lambda: room.taken == 0)
    opened = sum(server.connections for server in servers)
    outcomes = await asyncio.gather(*(sender.send(request(server.url)) for server in servers))
    assert bodies(outcomes) == [LARGE_BODY] * 4
    assert sum(server.connections for server in servers) == opened


async def test_one_that_trickles_does_not_hold_up_those_of_others(stage: Stage) -> None:
    """Three of its bodies do not come to their end; the one of somebody else is read meanwhile."""
    go_on = asyncio.Event()

    async def trickle(peer: Peer) -> None:
        await peer.read()
        await peer.say(LARGE[:-1])
        await go_on.wait()
        await peer.say(LARGE[-1:])

    room = WatchedRoom()
    slow, quick = await stage.server(trickle), await stage.server(repeating(LARGE))
    sender = stage.sender(room=room, response_bytes=LIMIT)
    held = [asyncio.create_task(sender.send(request(slow.url))) for _ in range(3)]
    await until(lambda: room.waiting == 2)
    assert bodies([await sender.send(request(quick.url)) for _ in range(3)]) == [LARGE_BODY] * 3
    assert room.waiting == 2
    go_on.set()
    assert bodies(await asyncio.gather(*held)) == [LARGE_BODY] * 3


@pytest.mark.parametrize("kind", ANSWERS)
async def test_it_arrives_whole_after_it_has_waited(stage: Stage, kind: str) -> None:
    """And its connection carries another exchange."""
    answer, body = ANSWERS[kind]
    room = WatchedRoom()
    gate = room.fill()
    server = await stage.server(repeating(answer))
    sender = stage.sender(room=room, response_bytes=LIMIT)
    task = asyncio.create_task(sender.send(request(server.url)))
    await until(lambda: room.waiting == 1)
    gate.leave()
    assert bodies([await task, await sender.send(request(server.url))]) == [body] * 2
    assert server.connections == 1
    await until(lambda: room.taken == 0)


@pytest.mark.parametrize("answer", [UNTIL_CLOSE, framed(LARGE_BODY, "Connection: close")])
async def test_one_that_ends_with_the_connection_arrives_whole(stage: Stage, answer: bytes) -> None:
    """The end is seen after all that came before it."""
    room = WatchedRoom()
    gate = room.fill()

    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.say(answer)

    task = await in_line(stage, handle, room)
    gate.leave()
    assert bodies([await task]) == [LARGE_BODY]
    await until(lambda: room.taken == 0)


@pytest.mark.parametrize("must_wait", [True, False])
@pytest.mark.parametrize("answer", [UNTIL_CLOSE, framed(LARGE_BODY)])
async def test_over_tls_the_end_is_not_seen_before_what_came(
    stage: Stage, certificate: Certificate, answer: bytes, must_wait: bool
) -> None:
    """The peer has closed its socket at once, as many servers do."""
    room = WatchedRoom()
    gate = room.fill()
    if not must_wait:
        gate.leave()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        serving = asyncio.create_task(asyncio.to_thread(say_and_close, listener, certificate, answer))
        sender = stage.sender(room=room, response_bytes=LIMIT, trust=lambda: trust(certificate))
        task = asyncio.create_task(sender.send(get(port)))
        await serving
        if must_wait:
            await until(lambda: room.waiting == 1)
            for _ in range(300):  # what can be read is read
                await asyncio.sleep(0)
            gate.leave()
        assert bodies([await task]) == [LARGE_BODY]


def say_and_close(listener: socket.socket, certificate: Certificate, answer: bytes) -> None:
    """One exchange over TLS; then the socket is closed, without more."""
    raw, _ = listener.accept()
    with server_context(certificate).wrap_socket(raw, server_side=True) as peer:
        assert peer.recv(4_096).endswith(b"\r\n\r\n")
        peer.sendall(answer)


def trust(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.path))


def get(port: int) -> OutboundRequest:
    return OutboundRequest("GET", f"https://127.0.0.1:{port}/", (), timeout=60_000)


async def test_small_ones_and_those_without_a_body_do_not_ask(stage: Stage) -> None:
    """They arrive while there is no room at all."""
    room = WatchedRoom()
    room.fill()
    small = LARGE_BODY[:65_536]
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    unchanged = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000000\r\n\r\n"
    for answer, method, body in (
        (framed(small), "GET", small),
        (chunked(small, 3_000), "GET", small),
        (head, "HEAD", b""),
        (unchanged, "GET", b""),
    ):
        server = await stage.server(answering(answer))
        sender = stage.sender(room=room, response_bytes=LIMIT)
        assert bodies([await sender.send(request(server.url, method))]) == [body]
    assert (room.asked, room.waiting) == (0, 0)


async def test_one_whose_time_is_up_in_line_says_so(stage: Stage) -> None:
    """It has answered in time: the target is not to blame. It waits no more."""
    room = WatchedRoom()
    room.fill()
    outcome = await (await in_line(stage, repeating(LARGE), room, timeout=150))
    assert outcome.kind is FaultKind.TIMEOUT
    assert "answered, but other large responses were read first: raise the timeout" in outcome.message
    assert room.waiting == 0


async def test_one_that_is_cancelled_gives_its_room_back(stage: Stage) -> None:
    """Whether it is read or waits."""
    room = WatchedRoom()
    reading = await begin(stage, stalling(LARGE[:-1]), room)
    await until(lambda: room.taken == SIZE)
    gate = room.fill()
    waiting = await in_line(stage, repeating(LARGE), room)
    for task in (waiting, reading):
        task.cancel()
        await asyncio.wait([task])
    gate.leave()
    await until(lambda: (room.taken, room.waiting) == (0, 0))


@pytest.mark.parametrize("is_reset", [True, False])
async def test_one_that_is_cut_while_it_waits_fails_once_it_is_read_on(stage: Stage, is_reset: bool) -> None:
    """The end of the stream is not seen before; then the room is free again."""
    ended = asyncio.Event()

    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.say(LARGE[:100_000])
        if is_reset:
            peer.reset()
        ended.set()

    room = WatchedRoom()
    gate = room.fill()
    task = await in_line(stage, handle, room)
    await ended.wait()
    gate.leave()
    outcome = await task
    assert "closed the connection in the middle of its answer" in outcome.message
    await until(lambda: room.taken == 0)


def stalling(begin: bytes) -> Handler:
    """Says the begin of an answer and nothing more."""

    async def handle(peer: Peer) -> None:
        await peer.read()
        await peer.say(begin)
        await peer.reader.read()

    return handle
