"""Real servers on loopback that say exactly the bytes a test wants, and senders that may reach them."""

import asyncio
import gc
import os
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from ipaddress import ip_address
from typing import Any

from scheduler_service.domain.wire import OutboundRequest
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.ports.sending import MayGo
from scheduler_service.transport.addresses import Address
from scheduler_service.transport.connection import Deadlines
from scheduler_service.transport.connection_pool import RESPONSES_BYTES, Pool
from scheduler_service.transport.dns_lookups import SystemResolver
from scheduler_service.transport.egress_guard import EgressPolicy, Guard, Trust
from scheduler_service.transport.sender import HttpSender
from tests.manual_clock import ManualClock
from tests.static_directory import StaticDirectory

Handler = Callable[["Peer"], Awaitable[None]]


class TableResolver:
    """A resolver over a table; a name's answers come in order, the last one for ever."""

    def __init__(self, table: dict[str, Sequence[Sequence[str]]]) -> None:
        self._table = {host: list(answers) for host, answers in table.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[Address]:
        self.asked.append(host)
        answers = self._table.get(host)
        if answers is None:
            raise OSError("Name or service not known")
        texts = answers.pop(0) if len(answers) > 1 else answers[0]
        return [ip_address(text) for text in texts]


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: list[bytes]) -> None:
        self.reader = reader
        self.writer = writer
        self._log = log

    async def read(self) -> bytes:
        """One whole request, head and body; it is logged. Raises IncompleteReadError at the end."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        request = head + await self.reader.readexactly(length)
        self._log.append(request)
        return request

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Ends the connection with RST."""
        self.writer.transport.abort()


class Server:
    """One listener; `requests` and `connections` tell what has come."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[Any]] = set()
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.ended = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, **options: Any) -> asyncio.Server:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0, **options)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._handler(Peer(reader, writer, self.requests))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self.ended.set()
            writer.close()


class Stage:
    """Starts servers and senders for one test and ends them after it."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def server(self, handler: Handler, **options: Any) -> Server:
        server = Server(handler)
        listener = await server.serve(**options)
        self._stack.push_async_callback(server.stop)
        self._stack.callback(listener.close)
        return server

    def sender(self, **changes: Any) -> HttpSender:
        sender = make_sender(**changes)
        self._stack.push_async_callback(sender.close)
        return sender

    def pool(self, *, connections: int, descriptors: int = 16_384) -> Pool:
        pool = Pool(
            guard=Guard(policy=LOOPBACK, resolver=SystemResolver()),
            deadlines=Deadlines(),
            trust=ssl.create_default_context,
            response_bytes=65_536,
            connections=connections,
            idle_seconds=1.5,
            age_seconds=60.0,
            descriptors=descriptors,
            log=lambda event, **keys: None,
            room=Room(RESPONSES_BYTES),
        )
        self._stack.callback(pool.close, "the test is over")
        return pool


LOOPBACK = EgressPolicy(allow=["127.0.0.0/8", "localhost"], deny=[])


def vouch_for_all(address: str, noted: bool | None) -> Trust:
    """Every address of a service is one of the settings."""
    return Trust.OWN


def make_sender(**changes: Any) -> HttpSender:
    """A sender that may reach IPv4 loopback, unless `changes` say otherwise."""
    given: dict[str, Any] = {
        "policy": LOOPBACK,
        "directory": StaticDirectory(addresses={}),
        "resolver": SystemResolver(),
        "response_bytes": 65_536,
        "owner_url": None,
        "gateway": None,
        "system": {},
        "clock": ManualClock(),
        "trust_of": vouch_for_all,
    }
    return HttpSender(**(given | changes))


def answering(*answers: bytes) -> Handler:
    """A handler that gives these answers in turn over each connection, then waits for the peer to go."""

    async def handle(peer: Peer) -> None:
        for answer in answers:
            await peer.read()
            await peer.say(answer)
        await peer.reader.read()

    return handle


def repeating(answer: bytes) -> Handler:
    """A handler that always gives the same answer."""

    async def handle(peer: Peer) -> None:
        while True:
            await peer.read()
            await peer.say(answer)

    return handle


def keeping(peers: list[Peer], answer: bytes) -> Handler:
    """A handler that always gives the same answer, and notes its peers."""

    async def handle(peer: Peer) -> None:
        peers.append(peer)
        await repeating(answer)(peer)

    return handle


def crossing(peers: Sequence[Peer]) -> MayGo:
    """Lets a call go whose kept connection the target ends at that moment: its end crosses the request."""

    def may_go() -> bool:
        with socket.socket(fileno=os.dup(peers[0].writer.get_extra_info("socket").fileno())) as raw:
            raw.shutdown(socket.SHUT_RDWR)
        return True

    return may_go


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def request(url: str, method: str = "POST", **changes: Any) -> OutboundRequest:
    given: dict[str, Any] = {"headers": (), "timeout": 5000}
    return OutboundRequest(method, url, **(given | changes))


def head_of(raw: bytes) -> dict[str, str]:
    """The headers of a request, names in lower case; the request line under ``."""
    lines = raw.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    pairs = (line.partition(": ") for line in lines[1:])
    return {"": lines[0]} | {name.lower(): value for name, _, value in pairs}


@contextmanager
def no_descriptor() -> Iterator[None]:
    """This process can open nothing more, until the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    gc.collect()  # what it would close meanwhile
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
