"""One connection: kept, or spent."""

import pytest

from scheduler_service.domain.wire import Answer
from tests.unit.transport.exchanges import OK, request
from tests.unit.transport.servers import Stage, answering, repeating


async def test_a_connection_is_kept_and_used_again(stage: Stage) -> None:
    """Calls one after the other share a connection."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    for _ in range(5):
        assert isinstance(await sender.send(request(server.url)), Answer)
    assert (server.connections, len(server.requests)) == (1, 5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok-and-noise",
    ],
)
async def test_a_spent_connection_is_not_used_again(stage: Stage, answer: bytes) -> None:
    """Where the peer closes, or says more than it should, the next call gets a connection of its own."""
    server = await stage.server(answering(answer))
    sender = stage.sender()
    for _ in range(2):
        outcome = await sender.send(request(server.url))
        assert isinstance(outcome, Answer)
        assert outcome.body == b"ok"
    assert server.connections == 2
