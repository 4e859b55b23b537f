"""A job that leaves its node and comes back (SPEC section 8)."""

import asyncio

import pytest

from scheduler_service.domain.events import FeedbackArrived
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Taken
from scheduler_service.engine.scope import feedback_token
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio


KEY = b"k" * 32


async def test_a_job_that_comes_back_at_once_has_lost_nothing(cluster: DaprHouse) -> None:
    """Placement lets go of a job and gives it to the same node, before that has handed anything over."""
    await cluster.create(**asynchronous(timeoutSeconds=600))
    await cluster.trigger()
    await cluster.settle()
    await cluster.world.deactivate("job", cluster.world.nodes["one"])
    ringing = asyncio.create_task(cluster.host.alarms.ring("job"))
    await cluster.advance(2_000)
    await ringing
    report = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    assert await cluster.deliver(report) == Taken()
    await cluster.settle()
    assert cluster.executions() == {1: State.SUCCEEDED}
