"""What one heartbeat costs, counted and not timed: functions on the loop's thread, and writes."""

import asyncio
import socket
import sys
from types import FrameType

import uvloop

from scheduler_service.app.listener import listen
from scheduler_service.http_server.server import Server
from tests.unit.api.world import World

COUNT = 100
MOST_CALLS = 135
"""117 when this was written. With FastAPI's layers and a parsed address of the caller there were 195."""

BODY = b'{"load": 1, "draining": false}'
BEAT = (
    b"POST /services/a/instances/b/heartbeat HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
)


def test_a_heartbeat_calls_few_functions_and_is_answered_at_once() -> None:
    """A thousand instances send 333 a second. Each answer is one piece: two would wake its reader twice.

    On a loop of its own, as a service has it: that of other tests may be one whose functions count as well.
    """
    calls, pieces = uvloop.run(count_calls())
    assert pieces == [1] * COUNT
    assert MOST_CALLS / 2 < calls / COUNT < MOST_CALLS


async def count_calls() -> tuple[int, list[int]]:
    """How many functions heartbeats call, and in how many pieces each is answered."""
    world = World()
    (await world.client().put("/services/a/instances/b", json={})).raise_for_status()
    listener = listen("127.0.0.1", 0)
    server = Server(world.api, log=lambda event, **keys: None)
    serving = asyncio.create_task(server.serve([listener]))
    try:
        await asyncio.to_thread(send, listener.getsockname()[1], 1)
        calls, pieces = 0, []

        def count(frame: FrameType, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            pieces = await asyncio.to_thread(send, listener.getsockname()[1], COUNT)
        finally:
            sys.setprofile(None)
    finally:
        server.ask_to_end()
        await serving
    return calls, pieces


def send(port: int, count: int) -> list[int]:
    """Sends heartbeats over one connection; in how many pieces each answer came."""
    pieces = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(count):
            connection.sendall(BEAT)
            answer, received = b"", 0
            while not answer.endswith(b"}"):
                answer += connection.recv(65_536)
                received += 1
            assert answer.startswith(b"HTTP/1.1 200")
            pieces.append(received)
    return pieces
