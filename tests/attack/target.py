"""Hostile targets: handlers for the servers of tests/unit/transport/servers."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.unit.transport.servers import Handler, Peer

MIB = 1 << 20


def saying(body: Any, *, status: int = 200, headers: bytes = b"") -> Handler:
    """Answers every request with the same JSON; `headers` are whole lines, each with its CRLF."""
    payload = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
    answer = head.encode() + headers + b"\r\n" + payload

    async def handle(peer: Peer) -> None:
        while True:
            await peer.read()
            await peer.say(answer)

    return handle


def held(until: Callable[[], Awaitable[Any]]) -> Handler:
    """Answers 200 when `until` has returned: `Event.wait`, in a bench `partial(asyncio.sleep, 6)`."""

    async def handle(peer: Peer) -> None:
        while True:
            await peer.read()
            await until()
            await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    return handle


def at_one_moment(count: int, answer: bytes) -> Handler:
    """Answers when so many requests have come, each over a connection of its own."""
    asked, ready = 0, asyncio.Event()

    async def handle(peer: Peer) -> None:
        nonlocal asked
        await peer.read()
        asked += 1
        if asked == count:
            ready.set()
        await ready.wait()
        await peer.say(answer)
        await peer.reader.read()

    return handle


def huge(size: int) -> Handler:
    """Answers every request with so many bytes."""

    async def handle(peer: Peer) -> None:
        while True:
            await peer.read()
            await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            for start in range(0, size, MIB):
                await peer.say(b"x" * min(MIB, size - start))

    return handle


async def silent(peer: Peer) -> None:
    """Takes the request and says nothing."""
    await peer.read()
    await peer.reader.read()


async def endless_head(peer: Peer) -> None:
    """Header lines without end."""
    await peer.read()
    await peer.say(b"HTTP/1.1 200 OK\r\n")
    while True:
        await peer.say(b"X-More: and more\r\n" * 100)


async def endless_body(peer: Peer) -> None:
    """Chunks without end."""
    await peer.read()
    await peer.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await peer.say(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
        await asyncio.sleep(0)
