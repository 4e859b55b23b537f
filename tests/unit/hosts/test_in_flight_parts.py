"""The parts of steps in a host: found, called, crashed and drained (SPEC section 13)."""

import asyncio

import pytest

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.services import RateLimit
from scheduler_service.domain.turn_events import CancelRequested
from scheduler_service.domain.wire import Answer
from scheduler_service.services.router import Terms
from tests.unit.hosts.house import House
from tests.unit.hosts.memory_store import Fate

S = ExecutionState
STEP = {"url": "service://shop/run"}
SHARDED = STEP | {"route": "shard"}
A, B, C = "http://a.test", "http://b.test", "http://c.test"
DRAINING = Answer(503, (("X-Instance-State", "draining"),))

pytestmark = pytest.mark.anyio


async def test_a_step_goes_to_an_instance() -> None:
    """It is found, called and answered."""
    house = await House().start()
    house.announce("a")
    await house.create(request=[STEP])
    await house.trigger()
    await house.settle()
    assert house.sender.urls() == [A]
    assert house.executions() == {1: S.SUCCEEDED}


async def test_without_instances() -> None:
    """Error `no_instance`, at once."""
    house = await House().start()
    await house.create(request=[STEP])
    await house.trigger()
    await house.settle()
    assert house.executions() == {1: S.TERMINATED}
    assert house.sender.urls() == []


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("names", ["a", "abc"])
async def test_a_spread_goes_to_all(names: str, qos: int) -> None:
    """Each instance gets its part, all at once, at either qos."""
    house = await House().start()
    house.announce(*names)
    await house.create(request=[SHARDED], qos=qos)
    await house.trigger()
    await house.settle()
    assert sorted(house.sender.urls()) == [f"http://{name}.test" for name in names]
    assert house.executions() == {1: S.SUCCEEDED}


async def test_one_part_fails_and_one_hangs() -> None:
    """The attempt waits for the one that hangs until its limit."""
    house = await House().start()
    house.announce("a", "b", "c")
    house.sender.answers(A, 500)
    house.sender.hold(B)
    await house.create(request=[SHARDED], timeoutSeconds=5)
    await house.trigger()
    await house.settle()
    assert house.executions() == {1: S.PROCESSING}
    await house.advance(5_000)
    assert house.executions() == {1: S.TERMINATED}


async def test_one_instance_leaves_midway() -> None:
    """Its part goes to another instance, in the same attempt; afterwards it gets nothing."""
    house = await House().start()
    house.announce("a", "b", "c")
    house.sender.answers(B, DRAINING)
    await house.create(request=[SHARDED])
    await house.trigger()
    await house.settle()
    assert house.executions() == {1: S.SUCCEEDED}
    assert sorted(house.sender.urls())[:3] == sorted(set(house.sender.urls()) | {A})[:3]
    assert len(house.sender.urls()) == 4
    await house.trigger()
    await house.settle()
    assert B not in house.sender.urls()[4:]


async def test_a_full_service_makes_the_step_wait() -> None:
    """Within its attempt: it goes on when there is room, and ends with the attempt's limit."""
    house = await House().start()
    house.announce("a", capacity=1)
    house.sender.hold(A)
    await house.create(request=[STEP], timeoutSeconds=5, overlapPolicy="allow")
    for _ in range(3):
        await house.trigger()
    await house.settle()
    assert house.sender.urls() == [A]
    house.sender.release(A)
    await house.settle()
    assert house.sender.urls() == [A, A, A]
    assert set(house.executions().values()) == {S.SUCCEEDED}


async def test_a_step_waits_no_longer_than_its_attempt() -> None:
    """It fails with the attempt, and its search is given up."""
    house = await House().start()
    house.announce("a", capacity=1, load=1.0)
    await house.create(request=[STEP], timeoutSeconds=5)
    await house.trigger()
    await house.advance(5_000)
    assert house.executions() == {1: S.TERMINATED}
    assert house.sender.urls() == []
    assert not house.host.running


async def test_a_cancelled_step_leaves_its_place() -> None:
    """Who is cancelled while it calls makes room."""
    house = await House().start()
    house.announce("a", capacity=1)
    house.sender.hold(A)
    await house.create(request=[STEP], overlapPolicy="allow")
    await house.trigger()
    await house.trigger()
    await house.settle()
    await house.deliver(CancelRequested(1))
    await house.settle()
    assert house.sender.urls() == [A, A]


async def test_a_rate_limit_spreads_calls_over_time() -> None:
    """At most `count` calls within `perSeconds`."""
    house = await House().start()
    house.announce("a", "b", "c")
    house.terms["shop"] = Terms(rate=RateLimit(2, 1_000))
    await house.create(request=[SHARDED])
    await house.trigger()
    await house.settle()
    assert len(house.sender.urls()) == 2
    await house.advance(1_000)
    assert len(house.sender.urls()) == 3
    assert house.executions() == {1: S.SUCCEEDED}


async def test_a_crash_sends_the_open_parts_again() -> None:
    """At qos 1 those whose end is durable are left alone, the others go out byte for byte."""
    house = await House().start()
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


async def test_a_crash_while_it_waits_for_room() -> None:
    """The search goes on in the next process."""
    house = await House().start()
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
async def test_a_store_that_fails_once_holds_nothing_up(fate: Fate, turn: int) -> None:
    """Whichever turn of the step the store refuses, or does not answer for, no part is lost or sent twice."""
    house = await House().start()
    house.announce("a", "b")
    await house.create(request=[SHARDED], qos=1)
    house.store.fates.extend([Fate.WRITTEN] * turn + [fate])
    await house.trigger()
    for _ in range(8):
        await house.advance(1_000)
    assert house.executions() == {1: S.SUCCEEDED}
    assert sorted(house.sender.urls()) == [A, B]


async def test_a_drain_waits_for_parts() -> None:
    """A node that stops lets what is in flight come home."""
    house = await House().start()
    house.announce("a")
    house.sender.hold(A)
    await house.create(request=[STEP])
    await house.trigger()
    await house.settle()
    stopping = asyncio.ensure_future(house.host.stop(5_000))
    await house.advance(1_000)
    assert not stopping.done()
    house.sender.release(A)
    await house.advance(100)
    await stopping
    assert house.executions() == {1: S.SUCCEEDED}
