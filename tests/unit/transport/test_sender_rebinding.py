"""A service's name is judged where it is connected to, unless somebody vouches for it (SPEC section 9)."""

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind, OutboundRequest
from scheduler_service.transport.guard import EgressPolicy
from tests.static_directory import StaticDirectory
from tests.unit.transport.servers import Server, Stage, TableResolver, repeating

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
NAME = "rebind.test"


def request(base: str = "") -> OutboundRequest:
    """A call of the service; `base`: its instance was chosen before."""
    return OutboundRequest("GET", "service://oa/x", (), timeout=5_000, base=base)


async def inside(stage: Stage) -> tuple[Server, str]:
    """A server that nobody may reach, and its address by a name that leads to it now."""
    server = await stage.server(repeating(OK))
    return server, f"http://{NAME}:{server.port}"


@pytest.mark.parametrize("chosen", [False, True])
async def test_a_name_that_leads_elsewhere_now_is_refused(stage: Stage, chosen: bool) -> None:
    """Whatever it resolved to when it was registered; no connection is made."""
    server, address = await inside(stage)
    sender = stage.sender(
        policy=EgressPolicy(allow=[], deny=[]),
        directory=StaticDirectory(addresses={"oa": address}),
        resolver=TableResolver({NAME: [["127.0.0.1"]]}),
        vouched=lambda _: False,
    )
    outcome = await sender.send(request(address if chosen else ""))
    assert isinstance(outcome, Fault)
    assert outcome.kind is FaultKind.EGRESS
    assert server.connections == 0


async def test_the_connection_goes_to_the_address_that_was_judged(stage: Stage) -> None:
    """The name is resolved once for each connection: a second answer is never used unjudged."""
    server, address = await inside(stage)
    resolver = TableResolver({NAME: [["127.0.0.1"], ["169.254.169.254"]]})
    sender = stage.sender(
        directory=StaticDirectory(addresses={"oa": address}), resolver=resolver, vouched=lambda _: False
    )
    assert isinstance(await sender.send(request()), Answer)
    assert (resolver.asked, server.connections) == ([NAME], 1)


@pytest.mark.parametrize(("led", "kind"), [("127.0.0.1", None), ("169.254.169.254", FaultKind.EGRESS)])
async def test_an_address_that_is_vouched_for_may_be_private(
    stage: Stage, led: str, kind: FaultKind | None
) -> None:
    """Not one that is always refused."""
    server, address = await inside(stage)
    sender = stage.sender(
        policy=EgressPolicy(allow=[], deny=[]),
        directory=StaticDirectory(addresses={"oa": address}),
        resolver=TableResolver({NAME: [[led]]}),
        vouched=lambda given: given == address,
    )
    outcome = await sender.send(request())
    assert (outcome.kind if isinstance(outcome, Fault) else None) is kind
    assert server.connections == (1 if kind is None else 0)
