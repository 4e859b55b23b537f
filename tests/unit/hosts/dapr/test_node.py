"""Replies wait for the history, and not for one that does not write (SPEC section 10)."""

import asyncio

import pytest
from dapr.actor import ActorRuntime

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.hosts.dapr.actor import JobActor
from scheduler_service.hosts.dapr.node import HistoryWait
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse, freeze
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


class Scene:
    """A history whose writes the test ends."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.errors: list[object] = []
        self.asked: list[asyncio.Future[None]] = []
        self.wait = HistoryWait(
            flush=self._flush,
            clock=self.clock,
            log=lambda event, /, **keys: self.errors.append(keys["error"]),
        )

    async def _flush(self) -> None:
        self.asked.append(asyncio.get_running_loop().create_future())
        await self.asked[-1]

    async def begin(self) -> "asyncio.Task[None]":
        waiting = asyncio.create_task(self.wait("j"))
        await self.go_on()
        return waiting

    async def go_on(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_history_that_failed_is_asked_without_a_wait() -> None:
    """Once at a time, until it writes."""
    scene = Scene()
    first = await scene.begin()
    scene.asked[0].set_exception(StoreUnavailable("the disk is full"))
    await scene.go_on()
    assert first.done()
    assert [(await scene.begin()).done() for _ in range(3)] == [True] * 3
    assert (len(scene.asked), scene.errors) == (2, ["the disk is full"])
    scene.asked[1].set_result(None)
    await scene.go_on()
    assert not (await scene.begin()).done()


async def test_a_reply_that_is_cancelled_leaves_no_alarm() -> None:
    """The write goes on for those that come later."""
    scene = Scene()
    waiting = await scene.begin()
    waiting.cancel()
    await scene.go_on()
    assert waiting.cancelled()
    assert scene.clock.next_call() is None
    assert not scene.asked[0].done()


URL = "http://target.test/run"


async def test_a_firing_whose_turn_is_being_claimed_may_end_too(cluster: DaprHouse) -> None:
    """It is sent once, within the drain, and not cut off to be sent again (SPEC section 14)."""
    await cluster.create(timer={"dueTime": "1s", "period": "1h"}, qos=1)
    gate = await freeze(cluster)
    cluster.sender.hold(URL)
    await cluster.advance(1_000)
    stopping = asyncio.create_task(cluster.host.stop(10_000))
    await cluster.settle()
    gate.set_result(None)
    await cluster.advance(1_000)
    cluster.sender.release(URL)
    await cluster.advance(1_000)
    await asyncio.wait_for(stopping, 30)
    assert cluster.executions() == {1: State.SUCCEEDED}
    assert cluster.sender.urls() == [URL]


async def test_the_type_has_the_name_of_the_resiliency_policy(cluster: DaprHouse) -> None:
    """The source binds its policies to `job_scheduler` (DAPR)."""
    assert JobActor.__name__ == "job_scheduler"
    assert list(ActorRuntime.get_registered_actor_types()) == ["job_scheduler"]
