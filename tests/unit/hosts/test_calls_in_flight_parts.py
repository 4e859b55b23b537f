"""The parts of steps in a host: found, called, crashed and drained (SPEC section 13)."""

import pytest

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.turn_events import CancelRequested
from tests.unit.hosts.house import House
from tests.unit.hosts.memory_store import Fate

S = ExecutionState
STEP = {"url": "service://shop/run"}
SHARDED = STEP | {"route": "shard"}
A, B, C = "http://a.test", "http://b.test", "http://c.test"
pytestmark = pytest.mark.anyio


async def test_a_step_waits_no_longer_than_its_attempt(house: House) -> None:
    """It fails with the attempt, and its search is given up."""
    house.announce("a", capacity=1, load=1.0)
    await house.create(request=[STEP], timeoutSeconds=5)
    await house.trigger()
    await house.advance(5_000)
    assert house.executions() == {1: S.TERMINATED}
    assert house.sender.urls() == []
    assert not house.host.running


async def test_a_cancelled_step_leaves_its_place(house: House) -> None:
    """Who is cancelled while it calls makes room."""
    house.announce("a", capacity=1)
    house.sender.hold(A)
    await house.create(request=[STEP], overlapPolicy="allow")
    await house.trigger()
    await house.trigger()
    await house.settle()
    await house.deliver(CancelRequested(1))
    await house.settle()
    assert house.sender.urls() == [A, A]


async def test_a_crash_sends_the_open_parts_again(house: House) -> None:
    """At qos 1 those whose end is durable are left alone, the others go out byte for byte."""
    house.announce("a", "b", "c")
    house.sender.hold(B)
    house.sender.hold(C)
    await house.create(request=[SHARDED], qos=1)
    await house.trigger()
    await house.settle()
    before = {request.base: request for request in house.sender.requests}
    await house.crash()
    await house.start()
    await house.settle()
    assert {request.base: request for request in house.sender.requests} == {B: before[B], C: before[C]}
    assert house.executions() == {1: S.SUCCEEDED}


async def test_a_crash_while_it_waits_for_room(house: House) -> None:
    """The search goes on in the next process."""
    house.announce("a", capacity=1, load=1.0)
    await house.create(request=[STEP], qos=1)
    await house.trigger()
    await house.settle()
    await house.crash()
    house.instances.renew("default", "shop", "a", house.clock.now().steady, load=0.0)
    await house.start()
    assert house.executions() == {1: S.SUCCEEDED}


@pytest.mark.parametrize("fate", [Fate.REFUSED, Fate.SILENT, Fate.VANISHED])
@pytest.mark.parametrize("turn", range(1, 5))
async def test_a_store_that_fails_once_holds_nothing_up(fate: Fate, turn: int, house: House) -> None:
    """Whichever turn of the step the store refuses, or does not answer for, no part is lost or sent twice."""
    house.announce("a", "b")
    await house.create(request=[SHARDED], qos=1)
    house.store.fates.extend([Fate.WRITTEN] * turn + [fate])
    await house.trigger()
    for _ in range(8):
        await house.advance(1_000)
    assert house.executions() == {1: S.SUCCEEDED}
    assert sorted(house.sender.urls()) == [A, B]
