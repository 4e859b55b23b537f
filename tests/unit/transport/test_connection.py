"""One connection: kept, or spent."""

import asyncio
import socket
import ssl

import pytest

from scheduler_service.domain.wire import Answer, FaultKind, OutboundRequest, Outcome
from scheduler_service.transport.connection import Deadlines, HttpConnection, ReadBuffer, make_prober
from scheduler_service.transport.errors import TransportError
from tests.certificate import Certificate, server_context
from tests.unit.transport.servers import OK, Handler, Peer, Server, Stage


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
