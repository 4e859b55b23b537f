"""The Dapr host drains (SPEC section 14)."""

import asyncio

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.hosts.tasks import LEAST_PATIENCE_MS
from tests.conformance.hosts.houses import DaprHouse, moved

pytestmark = pytest.mark.anyio


URL = "http://target.test/run"


async def test_a_firing_whose_turn_is_being_saved_may_end_too(cluster: DaprHouse) -> None:
    """It is sent once, within the drain, and not cut off to be sent again (SPEC section 14)."""
    await cluster.create(timer={"dueTime": "1s", "period": "1h"}, qos=1)
    gate = asyncio.get_running_loop().create_future()
    cluster.world.before_save = lambda _, __: gate
    cluster.sender.hold(URL)
    await cluster.advance(1_000)
    stopping = asyncio.create_task(cluster.host.stop(10_000))
    await cluster.settle()
    gate.set_result(None)
    await cluster.advance(1_000)
    cluster.sender.release(URL)
    await cluster.advance(1_000)
    await asyncio.wait_for(stopping, 1)
    assert cluster.executions() == {1: State.SUCCEEDED}
    assert cluster.sender.urls() == [URL]


async def test_a_history_that_hangs_holds_up_no_stop(cluster: DaprHouse) -> None:
    """It is left when the drain is over, after five seconds at least; the log says so (SPEC section 14)."""
    history = cluster.node.history
    hanging = history.gate = asyncio.Event()
    stopping = asyncio.create_task(cluster.host.stop(0))
    await cluster.settle()
    await cluster.advance(LEAST_PATIENCE_MS - 1)
    assert not stopping.done()
    await cluster.advance(1)
    await stopping
    hanging.set()
    assert not history.is_closed
    assert "history_not_flushed" in [event for event, _ in cluster.log]


async def start_drain(cluster: DaprHouse) -> "tuple[str, asyncio.Task[None]]":
    """The node `one` drains while a call of its job is under way and another node is alive; the job."""
    job = moved(cluster, ("two", "one"))
    cluster.sender.hold(URL)
    await cluster.create(job, timer={"period": "external"})
    await cluster.add("two")
    await cluster.trigger(job)
    await cluster.advance(3_000)
    stopping = asyncio.create_task(cluster.nodes["one"].host.stop(10_000))
    await cluster.settle()
    return job, stopping


async def test_calls_end_before_daprd_gives_the_jobs_away(cluster: DaprHouse) -> None:
    """daprd 1.18.3 reaches no actor for a process that it holds for ill (SPEC section 14)."""
    job, stopping = await start_drain(cluster)
    host = cluster.nodes["one"].host
    assert host.is_healthy
    await cluster.advance(4_000)
    assert host.is_healthy
    cluster.sender.release(URL)
    await cluster.settle()
    assert not host.is_healthy
    await cluster.advance(1_000)
    await asyncio.wait_for(stopping, 1)
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_a_long_call_holds_the_jobs_for_half_of_the_drain(cluster: DaprHouse) -> None:
    """The others get them while there is time to hand over what runs."""
    _, stopping = await start_drain(cluster)
    host = cluster.nodes["one"].host
    await cluster.advance(4_990)
    assert host.is_healthy
    await cluster.advance(10)
    assert not host.is_healthy
    cluster.sender.release(URL)
    await cluster.advance(1_000)
    await asyncio.wait_for(stopping, 1)
