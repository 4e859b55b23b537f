"""Calls and executions go with their job to another node (SPEC sections 8, 14)."""

import asyncio

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Taken
from scheduler_service.domain.turn_events import FeedbackArrived
from scheduler_service.engine.scope import feedback_token
from scheduler_service.ports.delivery import Command
from tests.conformance.hosts.houses import DaprHouse, moved
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio


URL = "http://target.test/run"
KEY = b"k" * 32


async def test_an_execution_of_qos_0_moves_with_its_job(cluster: DaprHouse) -> None:
    """Placement changes while it runs: its context follows, nothing is lost or sent twice."""
    job = moved(cluster)
    cluster.sender.hold(URL)
    await cluster.create(job, request=[{"url": URL}, {"url": "http://target.test/second"}])
    await cluster.trigger(job)
    await cluster.settle()
    other = await cluster.add("two")
    await cluster.advance(1_000)
    assert other.host.running == 1
    cluster.sender.release(URL)
    await cluster.advance(1_000)
    assert cluster.sender.urls() == [URL, "http://target.test/second"]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_a_node_that_leaves_hands_over_what_it_runs(cluster: DaprHouse) -> None:
    """A rolling restart loses and doubles nothing, at qos 0 too (SPEC section 14)."""
    two = await cluster.add("two")
    jobs = [f"job{number}" for number in range(6)]
    for job in jobs:
        await cluster.create(job, **asynchronous(timeoutSeconds=600))
        await cluster.trigger(job)
    await cluster.settle()
    stopping = asyncio.create_task(cluster.nodes["one"].host.stop(10_000))
    await cluster.advance(7_000)
    await stopping
    cluster.gone.append(cluster.nodes.pop("one"))
    assert two.host.running == 6
    for number, job in enumerate(jobs):
        report = FeedbackArrived(1, feedback_token(KEY, f"uid{number + 1}", 1), {"status": "succeed"})
        assert await two.host(job, Command(report)) == Taken()
    await cluster.settle()
    assert all(cluster.executions(job) == {1: State.SUCCEEDED} for job in jobs)
