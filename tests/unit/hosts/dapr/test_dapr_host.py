"""The Dapr host drains (SPEC section 14)."""

import asyncio

import pytest

from scheduler_service.domain.execution import ExecutionState as State
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
