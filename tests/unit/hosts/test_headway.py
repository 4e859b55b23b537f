"""A firing may be made durable just ahead of its moment; what it does waits (docs/decisions/0017)."""

import asyncio
from typing import Any

import pytest

from scheduler_service.domain.events import Destroyed, Paused
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.hosts.limits import HostLimits
from scheduler_service.hosts.moments import Moments
from tests.unit.hosts.house import START, House

pytestmark = pytest.mark.anyio

HEADWAY = 20
URL = "http://target.test/run"
ONCE: dict[str, Any] = {"dueTime": "1s", "period": "0s"}


async def nearly(**members: Any) -> House:
    """A house whose one job is due in 10 ms."""
    house = await House(limits=HostLimits(headway=HEADWAY)).start()
    await house.create(timer=ONCE, **members)
    await house.advance(990)
    return house


@pytest.mark.parametrize("qos", [0, 1])
async def test_the_commit_comes_ahead_and_the_call_in_time(qos: int) -> None:
    """At its moment nothing is left but to send; what is recorded says the moment (SPEC section 3)."""
    house = await nearly(qos=qos)
    assert house.disk.jobs["job"].entry.execute_number == 1
    assert house.sender.requests == []
    await house.advance(9)
    assert house.sender.requests == []
    await house.advance(1)
    assert len(house.sender.requests) == 1
    assert house.executions() == {1: State.SUCCEEDED}
    record = next(one for one in house.records() if isinstance(one, ExecutionRecord))
    assert (record.planned_at, record.created_at, record.started_at) == (START + 1_000,) * 3


async def test_nobody_sees_the_turn_ahead_of_its_moment() -> None:
    """Who asks or changes the job meanwhile comes after the firing, which is on its way."""
    house = await nearly()
    asked = asyncio.create_task(house.host.read("job"))
    paused = asyncio.create_task(house.deliver(Paused()))
    await house.settle()
    assert not asked.done()
    assert not paused.done()
    await house.advance(10)
    job = await asked
    assert job is not None
    assert job.document is not None
    assert job.document.head.execute_number == 1
    await paused
    assert len(house.sender.requests) == 1


async def test_work_for_a_queue_is_durable_at_its_moment() -> None:
    """Whoever claims sees parts as soon as they are in the store: they come no earlier (SPEC section 13)."""
    house = await nearly(request=[{"url": "queue://work"}], leadSeconds=0)
    assert house.disk.jobs["job"].entry.execute_number == 0
    assert not any(commit.queued for commit in house.disk.commits)
    await house.advance(10)
    assert any(commit.queued for commit in house.disk.commits)


async def test_what_ends_before_the_moment_does_not_overlap() -> None:
    """A job with executions is looked at in its moment: what they do until then decides (SPEC section 3)."""
    house = await House(limits=HostLimits(headway=HEADWAY)).start()
    await house.create(timer={"dueTime": "1s", "period": "1s"})
    house.sender.hold(URL)
    await house.advance(1_990)
    house.sender.release(URL)
    await house.advance(10)
    assert house.executions() == {1: State.SUCCEEDED, 2: State.SUCCEEDED}


async def test_an_earlier_change_comes_first() -> None:
    """What the job heard before its headway began holds the firing back."""
    house = await House(limits=HostLimits(headway=HEADWAY)).start()
    await house.create(timer=ONCE)
    await house.advance(1_000 - HEADWAY - 1)
    await house.deliver(Paused())
    await house.advance(1_000)
    assert house.sender.requests == []
    assert house.disk.jobs["job"].entry.state is JobState.PAUSED


async def test_killed_ahead_of_the_moment_with_qos_1() -> None:
    """The next process sends what was durable and not sent."""
    house = await nearly(qos=1)
    await house.crash()
    house.clock.advance(2_000)
    await house.start()
    await house.advance(10)
    assert len(house.sender.requests) == 1
    assert house.executions() == {1: State.SUCCEEDED}


async def test_killed_ahead_of_the_moment_with_qos_0() -> None:
    """The execution had begun: it is closed as lost, and never sent twice (SPEC section 8)."""
    house = await nearly(qos=0)
    await house.crash()
    house.clock.advance(2_000)
    await house.start()
    await house.advance(10)
    assert house.sender.requests == []
    last = [one for one in house.records() if isinstance(one, ExecutionRecord)][-1]
    assert (last.state, last.error) == (State.TERMINATED, "lost")


async def test_a_stop_lets_the_moment_come() -> None:
    """A drain waits for a turn that waits for its moment, and for its call (SPEC section 14)."""
    house = await nearly(qos=1)
    stopped = asyncio.create_task(house.host.stop(60_000))
    await house.advance(1_000)
    await stopped
    assert house.executions() == {1: State.SUCCEEDED}


async def test_a_clock_set_back_does_not_hold_the_job() -> None:
    """The wait is measured on the line that no step of the wall clock moves (DESIGN section 4)."""
    house = await nearly()
    house.clock.step_wall(-3_600_000)
    await house.advance(10)
    assert len(house.sender.requests) == 1


@pytest.mark.parametrize("is_live", [True, False])
async def test_a_clock_set_back_before_the_turn_holds_nobody(is_live: bool) -> None:
    """A ring that still waited its turn finds its moment an hour away: it looks, and waits for nothing."""
    house = await House(limits=HostLimits(headway=HEADWAY)).start()
    await house.create(timer={"dueTime": "1s", "period": "1h"})
    if is_live:
        house.sender.hold(URL)
        await house.trigger()
        await house.settle()
    sent = len(house.sender.requests)
    ring = asyncio.create_task(house.host._turns.ring("job", START + 3_600_000))
    await house.settle()
    assert ring.done()
    assert len(house.sender.requests) == sent


async def test_destroyed_while_it_waits() -> None:
    """The firing leaves first, then the job goes."""
    house = await nearly()
    gone = asyncio.create_task(house.deliver(Destroyed()))
    await house.advance(10)
    await gone
    assert len(house.sender.requests) == 1


async def test_moments_are_never_reached_early() -> None:
    """A timer may come a little before its time: the rest is waited for too."""
    house = House()
    moments = Moments(clock=house.clock)
    now = house.clock.now().steady
    both = [asyncio.create_task(moments.wait_until(now + 10)) for _ in range(2)]
    await house.settle()
    assert house.clock.next_call() == 10
    house.clock.advance(9)
    await house.settle()
    assert not any(one.done() for one in both)
    house.clock.advance(1)
    await asyncio.gather(*both)
    await moments.wait_until(now)
