"""Exchanges with one server of this machine over HTTP/1.1 connections that are kept."""

import asyncio
import socket
from collections import deque
from functools import cached_property

from scheduler_service.transport.connection import HttpConnection, ReadBuffer, make_prober
from scheduler_service.transport.deadlines import Deadlines
from scheduler_service.transport.errors import ConnectFailed, Unreached
from scheduler_service.transport.response_parser import ParsedResponse

HOST = "127.0.0.1"
IDLE_SECONDS = 60.0
_STOPPED = "The connections of this node were closed: it stops."


class KeptConnections:
    """At most `most` connections to `port` of this machine, each with one exchange at a time.

    Who comes when all are in use waits for one, the first to come first. Nothing is sent twice. Answers are
    read up to `response_bytes`. Belongs to the event loop in which it is first used.
    """

    def __init__(self, *, port: int, most: int, response_bytes: int) -> None:
        self._port = port
        self._origin = f"http://{HOST}:{port}"
        self._response_bytes = response_bytes
        self._slots = asyncio.Semaphore(most)
        self._deadlines = Deadlines()
        self._buffer = ReadBuffer()
        self._make_probe = make_prober()
        self._idle: deque[HttpConnection] = deque()
        self._open: set[HttpConnection] = set()
        self._is_closed = False

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """Cached: `get_running_loop` makes a system call each time."""
        return asyncio.get_running_loop()

    async def exchange(self, request: bytes, *, method: str, seconds: float) -> ParsedResponse:
        """The answer to `request`, a whole one with its head, within `seconds`. Raises TransportError.

        After an error, and where the caller is cancelled, the connection is closed; whether the server has
        acted is unknown, unless the error is Unreached.
        """
        deadline = self._loop.time() + seconds
        await self._enter(deadline)
        try:
            connection = self._take() or await self._open_one(deadline)
            return await connection.exchange(request, method=method, deadline=deadline)
        finally:
            self._slots.release()

    async def close(self) -> None:
        """Closes all; what is under way, and what comes later, ends with ConnectFailed."""
        self._is_closed = True
        for connection in tuple(self._open):
            connection.fail(_STOPPED)
        self._deadlines.close()

    def release(self, connection: HttpConnection) -> None:
        """Keeps a connection after its exchange (`ConnectionOwner`), and closes one of those not needed."""
        now = connection.idle_since = self._loop.time()
        self._idle.append(connection)
        if self._idle[0].idle_since < now - IDLE_SECONDS:
            self._idle.popleft().abandon()

    def lose(self, connection: HttpConnection) -> None:
        """Forgets a connection that is closed (`ConnectionOwner`)."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def _take(self) -> HttpConnection | None:
        """The one that was used last, of those that the server has not closed."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_alive():
                return connection
            connection.abandon()
        return None

    async def _enter(self, deadline: float) -> None:
        """Waits for a slot. Raises Unreached. Only who has to wait pays for a timer."""
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise Unreached(f"all connections to {self._origin} are in use. Is it overloaded?") from None

    async def _open_one(self, deadline: float) -> HttpConnection:
        self._check_open()
        raw = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        raw.setblocking(False)
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self._attach(raw)
        except OSError as error:
            raw.close()
            reason = error.strerror or type(error).__name__
            raise Unreached(f"{self._origin} cannot be reached: {reason}. Is it up?") from error
        except BaseException:
            raw.close()
            raise
        self._open.add(connection)
        if self._is_closed:
            connection.abandon()
        self._check_open()
        return connection

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectFailed(_STOPPED)

    async def _attach(self, raw: socket.socket) -> HttpConnection:
        """Attaches the protocol to a connected socket. Raises OSError."""
        await self._loop.sock_connect(raw, (HOST, self._port))
        connection = HttpConnection(
            origin=self._origin,
            owner=self,
            deadlines=self._deadlines,
            limit=self._response_bytes,
            is_silent=self._make_probe(raw),
            buffer=self._buffer,
        )
        await self._loop.create_connection(lambda: connection, sock=raw)
        return connection
