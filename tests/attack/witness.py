"""The bystander's target, in a process that no attack keeps busy: `python -m tests.attack.witness URL`.

It prints its port and answers 200. It notes when each call arrives and the moment for which its `X-Planned`
says it was planned, asks `URL/health/live` ten times a second over new connections, and tells all of it at
`GET /seen`, until its standard input ends.
"""

import asyncio
import contextlib
import gc
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import uvloop

PLANNED = b"x-planned:"
EACH = 0.1
LONGEST = 30.0
QUESTION = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
Arrivals = list[tuple[str, float]]
Health = list[tuple[float, float | None]]


class Witness(asyncio.Protocol):
    """One connection, whose requests come whole and without a body."""

    def __init__(self, arrivals: Arrivals, health: Health) -> None:
        self._arrivals = arrivals
        self._health = health
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport: Any = transport  # uvloop has transports of its own

    def data_received(self, data: bytes) -> None:
        """Bytes came: every whole request is answered."""
        now = time.time() * 1000
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            self._take(head, now)

    def _take(self, head: bytes, now: float) -> None:
        body = b"{}"
        if head.startswith(b"GET /seen"):
            body = json.dumps({"arrivals": self._arrivals, "health": self._health}).encode()
        else:
            lines = head.split(b"\r\n")
            planned = next((line[len(PLANNED) :] for line in lines if line.lower().startswith(PLANNED)), b"")
            self._arrivals.append((planned.decode().strip(), now))
        self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


async def watch(port: int, health: Health) -> None:
    """Asks for ever; an answer that takes long does not put off the next question."""
    asked = set()
    while True:
        task = asyncio.create_task(_ask(port, health))
        asked.add(task)
        task.add_done_callback(asked.discard)
        await asyncio.sleep(EACH)


async def _ask(port: int, health: Health) -> None:
    at, began = time.time() * 1000, time.perf_counter()
    is_well = False
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(LONGEST):
            is_well = await _is_live(port)
    health.append((at, round((time.perf_counter() - began) * 1000, 1) if is_well else None))


async def _is_live(port: int) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(QUESTION)
        return (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    finally:
        writer.close()


async def main(url: str) -> None:
    """Serves until standard input ends."""
    arrivals: Arrivals = []
    health: Health = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Witness(arrivals, health), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    gc.freeze()
    watching = asyncio.create_task(watch(urlsplit(url).port or 80, health))
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    watching.cancel()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
