"""The Dapr host drains (SPEC section 14); the name of its actor type."""

import asyncio

import pytest
from dapr.actor import ActorRuntime

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.hosts.dapr.actor import JobActor
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


async def test_the_type_has_the_name_of_the_resiliency_policy(cluster: DaprHouse) -> None:
    """The source binds its policies to `job_scheduler` (DAPR)."""
    assert JobActor.__name__ == "job_scheduler"
    assert list(ActorRuntime.get_registered_actor_types()) == ["job_scheduler"]
