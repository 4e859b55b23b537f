"""Calls and executions go with their job to another node (SPEC sections 8, 14)."""

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from tests.conformance.hosts.houses import DaprHouse, moved

pytestmark = pytest.mark.anyio


URL = "http://target.test/run"


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
