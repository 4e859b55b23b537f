"""A bare target in a process of its own: answers 200 and keeps who came when.

`python -m tests.bench.target` prints its port; `GET /arrivals` gives `[[jobId, idempotencyKey, ms], …]`, and
`GET /count` how many they are, which hardly disturbs it.
"""

import asyncio
import gc
import json
import sys
import time
from typing import Any

import uvloop

OK = b'HTTP/1.1 200 OK\r\ncontent-length: 8\r\ncontent-type: application/json\r\n\r\n{"n": 1}'
JOB, KEY = b"X-Scheduling-Job-Id: ", b"Idempotency-Key: "


class Target(asyncio.Protocol):
    """One connection; requests come whole or in pieces, with a Content-Length or without a body."""

    def __init__(self, arrivals: list[tuple[str, str, float]]) -> None:
        self.arrivals = arrivals
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self.transport: Any = transport  # uvloop has transports of its own

    def data_received(self, data: bytes) -> None:
        """Bytes came: every whole request is answered."""
        now = time.time() * 1000
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end]
            size = end + 4 + content_length(head)
            if len(self.buffer) < size:
                return
            self.buffer = self.buffer[size:]
            self._take(head, now)

    def _take(self, head: bytes, now: float) -> None:
        if head.startswith(b"GET "):
            asked = len(self.arrivals) if head.startswith(b"GET /count") else self.arrivals
            body = json.dumps(asked).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            return
        self.arrivals.append((_value(head, JOB), _value(head, KEY), now))
        self.transport.write(OK)


def content_length(head: bytes) -> int:
    """Of the body after this head; 0 where it does not say."""
    place = head.lower().find(b"\r\ncontent-length:")
    return 0 if place < 0 else int(head[place + 17 :].split(b"\r\n", 1)[0])


def _value(head: bytes, name: bytes) -> str:
    place = head.lower().find(name.lower())
    return "" if place < 0 else head[place + len(name) :].split(b"\r\n", 1)[0].decode()


async def main() -> None:
    """Serves until standard input ends; no collection of garbage stops its clock."""
    gc.disable()
    arrivals: list[tuple[str, str, float]] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Target(arrivals), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
