"""The body of a response, kept up to a limit."""

from tests.unit.transport.exchanges import request
from tests.unit.transport.servers import Peer, Stage


async def test_a_large_body_both_ways(stage: Stage) -> None:
    """A request of megabytes arrives whole; an answer of 100 MiB is cut at the limit and read no further."""
    sent = 0

    async def handle(peer: Peer) -> None:
        nonlocal sent
        await peer.read()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
        for _ in range(1600):
            await peer.say(b"x" * 65_536)
            sent += 65_536

    server = await stage.server(handle, limit=1 << 16)
    outcome = await stage.sender(response_bytes=100_000).send(request(server.url, body=b"y" * 3_000_000))
    assert (outcome.status, outcome.body, outcome.truncated) == (200, b"x" * 100_000, True)
    assert server.requests[0].endswith(b"y" * 3_000_000)
    await server.ended.wait()
    assert sent < 50_000_000
