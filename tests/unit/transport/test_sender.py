"""What the sender sends, and what it makes of ordinary answers."""

import asyncio

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.ports.sending import NotSent
from scheduler_service.transport.guard import EgressPolicy
from tests.static_directory import StaticDirectory
from tests.unit.transport.exchanges import OK, head_of, request
from tests.unit.transport.servers import Stage, repeating


async def test_service_targets(stage: Stage) -> None:
    """A static service may be on loopback though the policy refuses it; as http the same address may not."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(
        policy=EgressPolicy(allow=[], deny=[]),
        directory=StaticDirectory(addresses={"oa": f"{server.url}/base", "meta": "http://169.254.169.254"}),
        owner_url=server.url,
    )
    outcome = await sender.send(request("service://oa/x?y=1"))
    assert isinstance(outcome, Answer)
    assert outcome.url == f"{server.url}/base/x?y=1"
    assert isinstance(await sender.send(request("service:/own")), Answer)
    assert [head_of(raw)[""] for raw in server.requests] == [
        "POST /base/x?y=1 HTTP/1.1",
        "POST /own HTTP/1.1",
    ]
    direct = await sender.send(request(f"{server.url}/x"))  # a pooled connection must not be a way around
    assert isinstance(direct, Fault)
    assert direct.kind is FaultKind.EGRESS
    metadata = await sender.send(request("service://meta/x"))
    assert isinstance(metadata, Fault)
    assert metadata.kind is FaultKind.EGRESS
    unknown = await sender.send(request("service://nobody/x"))
    assert isinstance(unknown, Fault)
    assert unknown.kind is FaultKind.NO_INSTANCE
    assert "services.static" in unknown.message


async def test_a_request_that_may_not_go_leaves_nothing(stage: Stage) -> None:
    """It is asked when the connection is there, new or kept; the connection serves the next one."""
    server = await stage.server(repeating(OK))
    sender = stage.sender()
    for _ in range(2):
        with pytest.raises(NotSent):
            await sender.send(request(server.url), lambda: False)
    assert (server.requests, server.connections) == ([], 1)
    assert isinstance(await sender.send(request(server.url), lambda: True), Answer)
    with pytest.raises(NotSent):
        await sender.send(request(server.url), lambda: False)
    assert (len(server.requests), server.connections) == (1, 1)


async def test_who_may_go_is_asked_after_the_wait_for_a_connection(stage: Stage) -> None:
    """What stood still while it waited in line must not leave on an answer from before."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(connections=1)
    asked: list[int] = []

    def may_go() -> bool:
        asked.append(server.connections)
        return True

    answers = await asyncio.gather(*(sender.send(request(server.url), may_go) for _ in range(3)))
    assert all(isinstance(answer, Answer) for answer in answers)
    assert asked == [1, 1, 1]
