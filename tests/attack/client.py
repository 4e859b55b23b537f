"""A hostile client: bytes as given, half requests, connections that say nothing or do not listen."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Self
from urllib.parse import urlsplit

SMALL_BUFFER = 4_096


class Client:
    """One connection to a service; nothing is read from it until an answer is asked for."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, url: str, *, buffer: int | None = None) -> Self:
        """Connects to the service at `url`; `buffer`: so many bytes of an unread answer fit at this end."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        parts = urlsplit(url)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
        except OSError:
            sock.close()
            raise
        return cls(*await asyncio.open_connection(sock=sock, limit=buffer or 2**16))

    async def say(self, data: bytes) -> None:
        """Returns when `data` has left. Raises ConnectionError where the peer has gone."""
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of one answer that has a Content-Length.

        Raises ConnectionError or IncompleteReadError where the connection ends before.
        """
        head = await self._reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        return int(head.split(b" ", 2)[1]), await self._reader.readexactly(length)

    async def begin(self) -> None:
        """Returns when an answer has begun. Raises IncompleteReadError where the connection ends before."""
        await self._reader.readexactly(1)

    async def rest(self) -> bytes:
        """What still comes until the peer ends the connection, a reset included."""
        found = b""
        try:
            while more := await self._reader.read(2**16):
                found += more
        except ConnectionError:
            pass
        return found

    def close(self) -> None:
        """Ends the connection at once."""
        self._writer.transport.abort()


def get(path: str, *lines: str) -> bytes:
    """A whole request without a body, with more header lines."""
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *lines, "", ""]).encode("latin-1")


def post(path: str, body: bytes, *lines: str, length: int | None = None) -> bytes:
    """A request with a body of JSON; `length`: what Content-Length says instead of the truth."""
    first = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    given = len(body) if length is None else length
    return "\r\n".join([*first, f"Content-Length: {given}", *lines, "", ""]).encode("latin-1") + body


@asynccontextmanager
async def open_client(url: str, *, buffer: int | None = None) -> AsyncIterator[Client]:
    """One connection, closed afterwards."""
    client = await Client.to(url, buffer=buffer)
    try:
        yield client
    finally:
        client.close()


@asynccontextmanager
async def many_clients(
    url: str, count: int, *, first: bytes = b"", buffer: int | None = None
) -> AsyncIterator[list[Client]]:
    """So many connections at once, each of which has said `first`, unless it was refused, and no more."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            client = await Client.to(url, buffer=buffer)
            stack.callback(client.close)
            clients.append(client)
            if first:
                with suppress(ConnectionError):
                    await client.say(first)
        yield clients
