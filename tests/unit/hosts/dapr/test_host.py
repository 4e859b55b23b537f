"""The Dapr host drains (SPEC section 14)."""

import asyncio

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.hosts.tasks import LEAST_PATIENCE_MS
from tests.conformance.hosts.houses import DaprHouse, freeze

pytestmark = pytest.mark.anyio


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
