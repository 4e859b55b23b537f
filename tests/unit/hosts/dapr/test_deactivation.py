"""A job that leaves its node and comes back (SPEC section 8)."""

import asyncio

import pytest

from scheduler_service.domain.events import FeedbackArrived
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Taken
from scheduler_service.engine.scope import feedback_token
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.errors import StoreUncertain
from scheduler_service.services.instances import Instance
from tests.conformance.hosts.houses import DaprHouse, moved
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio


KEY = b"k" * 32
EXTERNAL = {"period": "external"}


async def test_jobs_that_move_are_one_line_with_their_reason(cluster: DaprHouse) -> None:
    """How many, how many of them ran, why and how long; the other node writes nothing."""
    here = moved(cluster)
    await cluster.create(here, **asynchronous(timeoutSeconds=600))
    await cluster.trigger(here)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(10_000)
    (line,) = [keys for event, keys in cluster.log if event == "jobs_moved"]
    took = line.pop("ms")
    assert isinstance(took, int)
    assert 0 <= took < 5_000
    assert line == {"jobs": 1, "running": 1, "reason": "node_joined"}


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


async def test_no_turn_has_the_number_of_one_that_was_in_memory_alone(cluster: DaprHouse) -> None:
    """The history takes each number once: a second record of it would be dropped."""
    first, second = "http://target.test/first", "http://target.test/second"
    cluster.sender.hold(second)
    await cluster.create(request=[{"url": first}, {"url": second}], timer=EXTERNAL)
    await cluster.trigger()
    await cluster.settle()
    await cluster.world.deactivate("job", cluster.world.nodes["one"])
    await cluster.advance(2_000)
    cluster.sender.release(second)
    await cluster.settle()
    assert cluster.executions() == {1: State.SUCCEEDED}
    numbers = [batch.sequence for batch in cluster.batches()]
    assert len(numbers) > 3
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("is_written", [False, True])
async def test_a_turn_that_the_move_put_in_doubt_is_settled_and_handed_over(
    cluster: DaprHouse, is_written: bool
) -> None:
    """Nobody said whether it was written: the other node need not wait for 15 s."""
    first, second = "http://target.test/first", "http://target.test/second"
    here = moved(cluster)
    cluster.sender.hold(first)
    await cluster.create(here, request=[{"url": first}, {"url": second}], qos=1, timer=EXTERNAL)
    await cluster.trigger(here)
    await cluster.settle()
    shared = cluster.node.shared
    claim = shared.claim

    async def lose(one: TurnClaim) -> None:
        shared.claim = claim  # type: ignore[method-assign]
        if is_written:
            await claim(one)
        raise StoreUncertain("the server is gone")

    shared.claim = lose  # type: ignore[method-assign]
    cluster.sender.release(first)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(5_000)
    assert cluster.sender.urls() == [first, second]
    assert cluster.executions(here) == {1: State.SUCCEEDED}
    assert "handover_missed" not in [event for event, _ in cluster.log]


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_job_that_leaves_takes_its_watches_along(cluster: DaprHouse, qos: int) -> None:
    """When the instance is lost, the node to which the job has moved alone was watching it."""
    job_id = moved(cluster)
    cluster.instances.register(
        Instance("shop", "default", "a", "http://a.test", seen=cluster.clock.now().steady)
    )
    step = {"url": "service://shop/run"}
    await cluster.create(job_id, **asynchronous(request=[step], timeoutSeconds=600, qos=qos))
    await cluster.trigger(job_id)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(2_000)
    await cluster.advance(60_000)
    lost = [keys["executions"] for event, keys in cluster.log if event == "instance_lost"]
    assert sorted(lost, key=str) == [0, 1]
    assert [one.error for one in cluster.finished(job_id)] == ["instance_lost"]
