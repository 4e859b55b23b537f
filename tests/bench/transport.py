"""Measures one outbound request: this product's sender beside aiohttp and httpx, on loopback.

Run it from the checkout: `python -m tests.bench.transport [seconds per figure]`. The target is a bare
protocol server in its own process; "bare" writes the same bytes and waits for an answer without reading it:
what system calls and event loop cost alone. "cpu" is this process's time for one request, which is what an
execution pays; "wall" also counts the waiting for the target, and depends on how busy the machine is.
"""

import asyncio
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp
import httpx
import uvloop

from scheduler_service.domain.wire import Answer, OutboundRequest
from scheduler_service.transport.guard import EgressPolicy
from scheduler_service.transport.lookups import SystemResolver
from scheduler_service.transport.sender import HttpSender
from tests.manual_clock import ManualClock
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import vouch_for_all

HEADERS = (
    ("Idempotency-Key", "6f1f7d0c-1-0"),
    ("X-Scheduling-Job-Id", "bench"),
    ("X-Scheduling-Execute-Number", "1"),
    ("X-Scheduling-Request-Counts", "1"),
    ("Content-Type", "application/json"),
)
BODY = b'{"hello":"world"}'
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nServer: bench\r\nContent-Length: 11\r\n\r\n"
    b'{"ok":true}'
)
Call = Callable[[], Awaitable[None]]


class Target(asyncio.Protocol):
    """Answers whatever comes; a request of this bench always comes whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWER)  # type: ignore[attr-defined]


class Bare(asyncio.Protocol):
    """Writes a request and waits until anything comes: the floor under any client."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiter.set_result(None)

    def ask(self, data: bytes) -> Awaitable[None]:
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(data)  # type: ignore[attr-defined]
        return self._waiter


def serve(ready: Connection) -> None:
    """The target's process: tells its port, then serves until it is ended."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Target, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


async def measure(name: str, call: Call, callers: int, seconds: float) -> None:
    """Prints one line: requests a second, and microseconds of wall and of processor time for one."""
    count = 0

    async def repeat(until: float) -> None:
        nonlocal count
        while time.perf_counter() < until:
            await call()
            count += 1

    await asyncio.gather(*[repeat(time.perf_counter() + 0.2) for _ in range(callers)])
    count = 0
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*[repeat(wall + seconds) for _ in range(callers)])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:10} {callers:4} {count / wall:10.0f} {wall / count * 1e6:9.1f} {cpu / count * 1e6:9.1f}")


async def measure_floor(port: int, callers: int, seconds: float) -> None:
    """Measures bare writes, each caller on a connection of its own."""
    loop = asyncio.get_running_loop()
    pairs = [await loop.create_connection(Bare, "127.0.0.1", port) for _ in range(callers)]
    free = [protocol for _, protocol in pairs]
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS)
    data = (
        f"POST /path HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY
    )

    async def bare() -> None:
        protocol = free.pop()
        await protocol.ask(data)
        free.append(protocol)

    await measure("bare", bare, callers, seconds)
    for transport, _ in pairs:
        transport.close()


async def compare(port: int, seconds: float) -> None:
    """Measures each client with 1 and with 64 callers."""
    url = f"http://127.0.0.1:{port}/path"
    print(f"{'client':10} {'at once':>4} {'/s':>7} {'wall µs':>9} {'cpu µs':>9}")
    for callers in (1, 64):
        await measure_floor(port, callers, seconds)
        sender = HttpSender(
            policy=EgressPolicy(allow=["127.0.0.0/8"], deny=[]),
            directory=StaticDirectory(addresses={}),
            resolver=SystemResolver(),
            response_bytes=1 << 20,
            owner_url=None,
            gateway=None,
            system={},
            clock=ManualClock(),
            vouched=vouch_for_all,
        )
        request = OutboundRequest("POST", url, HEADERS, BODY, trace="0af7651916cd43dd8448eb211c80319c")

        async def ours(sender: HttpSender = sender, request: OutboundRequest = request) -> None:
            assert isinstance(await sender.send(request), Answer)

        await measure("punctual", ours, callers, seconds)
        await sender.close()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def theirs(session: aiohttp.ClientSession = session) -> None:
                async with session.post(url, headers=HEADERS, data=BODY) as response:
                    await response.read()

            await measure("aiohttp", theirs, callers, seconds)
        async with httpx.AsyncClient(trust_env=False) as client:

            async def others(client: httpx.AsyncClient = client) -> None:
                await client.post(url, headers=list(HEADERS), content=BODY)

            await measure("httpx", others, callers, seconds)


def main() -> None:
    """Starts the target, measures, ends the target."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    target = context.Process(target=serve, args=(there,), daemon=True)
    target.start()
    try:
        uvloop.run(compare(here.recv(), seconds))
    finally:
        target.terminate()
        target.join()


if __name__ == "__main__":
    main()
