"""Names become addresses that the egress policy has judged (SPEC section 9)."""

import pytest

from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.transport.guard import EgressPolicy
from tests.unit.transport.exchanges import OK, head_of, request
from tests.unit.transport.servers import Stage, TableResolver, repeating

pytestmark = pytest.mark.anyio


async def test_names_connect_to_the_judged_address_alone(stage: Stage) -> None:
    """One refused address refuses the name; one that turns is judged anew (SPEC section 9)."""
    server = await stage.server(repeating(OK))
    resolver = TableResolver(
        {"mixed.test": [["127.0.0.1", "10.0.0.1"]], "turns.test": [["127.0.0.1"], ["10.0.0.1"]]}
    )
    sender = stage.sender(resolver=resolver, idle_seconds=0.0)
    mixed = await sender.send(request(f"http://mixed.test:{server.port}/"))
    assert isinstance(mixed, Fault)
    assert mixed.kind is FaultKind.EGRESS
    assert isinstance(await sender.send(request(f"http://turns.test:{server.port}/")), Answer)
    assert head_of(server.requests[0])["host"] == f"turns.test:{server.port}"
    turned = await sender.send(request(f"http://turns.test:{server.port}/"))
    assert isinstance(turned, Fault)
    assert turned.kind is FaultKind.EGRESS
    assert resolver.asked == ["mixed.test", "turns.test", "turns.test"]


async def test_the_next_address_is_tried(stage: Stage) -> None:
    """Where a name's first address does not answer, the next one is tried."""
    server = await stage.server(repeating(OK))
    sender = stage.sender(resolver=TableResolver({"two.test": [["127.0.0.9", "127.0.0.1"]]}))
    assert isinstance(await sender.send(request(f"http://two.test:{server.port}/")), Answer)


async def test_the_machines_own_resolver(stage: Stage) -> None:
    """`localhost` is looked up as the machine does."""
    server = await stage.server(repeating(OK))
    policy = EgressPolicy(allow=["127.0.0.0/8", "::1"], deny=[])
    outcome = await stage.sender(policy=policy).send(request(f"http://localhost:{server.port}/"))
    assert isinstance(outcome, Answer)


async def test_an_unknown_name_is_a_failed_connection(stage: Stage) -> None:
    """A name without an address is `connect`, also when the answer is empty (SPEC section 9)."""
    sender = stage.sender(resolver=TableResolver({"empty.test": [[]]}))
    for host in ("empty.test", "missing.test"):
        outcome = await sender.send(request(f"http://{host}/hush"))
        assert isinstance(outcome, Fault)
        assert outcome.kind is FaultKind.CONNECT
        assert host in outcome.message
        assert "hush" not in outcome.message
