"""A node that stood still or lost its sidecar sends no call that is no longer its own (SPEC section 8)."""

import asyncio

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.turn_events import Triggered
from scheduler_service.hosts.dapr.heartbeat import CUT_OFF, RUNNING
from scheduler_service.ports.cluster import Node, TurnClaim
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse, moved

pytestmark = pytest.mark.anyio
URL = "http://target.test/run"
SOON = 2_000  # after which a call would be late
# A node gives itself up when its heartbeat is 9 s old, and the others do when it is 10 s old.
UNSEEN, DEAD = 9_600, 15_000
AFTERWARDS = 4_000


def job_on(cluster: DaprHouse, node: str) -> str:
    """The id of a job that lives on `node`, of the nodes that are up."""
    return next(name for name in map(str, range(100)) if cluster.world.place(name) == node)


async def trigger_and_freeze(cluster: DaprHouse, job: str, name: str = "one") -> "asyncio.Task[object]":
    """The turn of a trigger is committed, and its process stands still before it gets the answer."""

    node = cluster.nodes[name]
    claim = node.shared.claim

    async def claim_and_freeze(one: TurnClaim) -> None:
        await claim(one)
        node.shared.claim = claim  # type: ignore[method-assign]
        cluster.freeze(name)
        await node.process.stillness.over()

    node.shared.claim = claim_and_freeze  # type: ignore[method-assign]
    triggering = asyncio.create_task(cluster.nodes[name].host(job, Command(Triggered())))
    await cluster.settle()
    assert cluster.sender.urls() == []
    return triggering


async def wake(cluster: DaprHouse, *calls: "asyncio.Task[object]", name: str = "one") -> None:
    """The process goes on, and its callers get their answers."""
    await cluster.thaw(name)
    await cluster.settle()
    await asyncio.gather(*calls, return_exceptions=True)
    await cluster.settle()


def error_of(cluster: DaprHouse, job: str) -> str | None:
    """Why the job's first execution failed."""
    found = [record for batch in cluster.batches(job) for record in batch.records]
    return next((one.error for one in found if isinstance(one, ExecutionRecord) and one.error), None)


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_node_alone_makes_its_call_when_it_goes_on(cluster: DaprHouse, qos: int) -> None:
    """No other node can have sent it: it is sent once, and soon."""
    await cluster.create(qos=qos)
    triggering = await trigger_and_freeze(cluster, "job")
    await cluster.advance(DEAD)
    await wake(cluster, triggering)
    await cluster.advance(SOON)
    assert cluster.sender.urls() == [URL]
    assert cluster.executions() == {1: State.SUCCEEDED}


async def test_a_call_that_another_node_made_is_not_made_again(cluster: DaprHouse) -> None:
    """qos 1: the other node takes the job over, makes the call and records it, before the first goes on."""
    await cluster.add("two")
    job = job_on(cluster, "one")
    await cluster.create(job, qos=1)
    triggering = await trigger_and_freeze(cluster, job)
    await cluster.advance(DEAD)
    assert cluster.sender.urls() == [URL]
    assert cluster.executions(job) == {1: State.SUCCEEDED}
    await wake(cluster, triggering)
    await cluster.advance(AFTERWARDS)
    assert cluster.sender.urls() == [URL]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_a_call_of_a_lost_execution_is_not_made(cluster: DaprHouse) -> None:
    """qos 0: the other node has closed the execution as lost; nothing of it leaves any more."""
    await cluster.add("two")
    job = job_on(cluster, "one")
    await cluster.create(job)
    triggering = await trigger_and_freeze(cluster, job)
    await cluster.advance(DEAD)
    await wake(cluster, triggering)
    await cluster.advance(AFTERWARDS)
    assert cluster.sender.urls() == []
    assert cluster.executions(job) == {1: State.TERMINATED}
    assert error_of(cluster, job) == "lost"


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_standstill_that_nobody_saw_ends_with_one_call(cluster: DaprHouse, qos: int) -> None:
    """The job moves, is awaited, handed over without its call; the call is made where it lives now."""
    await cluster.add("two")
    job = job_on(cluster, "one")
    await cluster.create(job, qos=qos)
    triggering = await trigger_and_freeze(cluster, job)
    await cluster.advance(UNSEEN)
    assert cluster.sender.urls() == []
    await wake(cluster, triggering)
    await cluster.advance(SOON)
    assert cluster.sender.urls() == [URL]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def hand_over_a_call_without_connection(cluster: DaprHouse, qos: int) -> str:
    """The job moves to the second node while the first one waits for the connection of its call."""
    job = moved(cluster)
    await cluster.create(job, qos=qos)
    cluster.sender.wall_off(URL)
    await cluster.trigger(job)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(1_000)
    assert cluster.nodes["two"].host.running == 1
    return job


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_call_that_was_handed_over_and_stayed_is_made_by_its_new_node(
    cluster: DaprHouse, qos: int
) -> None:
    """It had been handed over as flying, its process stood still unseen: nobody waits for its limit."""
    job = await hand_over_a_call_without_connection(cluster, qos)
    cluster.freeze("one")
    await cluster.advance(UNSEEN - 1_000)  # a second has passed since its heartbeat
    assert cluster.sender.urls() == []
    await cluster.thaw("one")
    await cluster.settle()
    cluster.sender.open_up(URL)
    await cluster.advance(SOON)
    assert cluster.sender.urls() == [URL]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


def moved_twice(cluster: DaprHouse) -> str:
    """An id whose actor moves to the second node when that comes, and to the third when that does."""
    known = dict(cluster.world.nodes)
    found = set(map(str, range(200)))
    for up, home in ((("one", "two"), "two"), (("one", "two", "three"), "three")):
        cluster.world.nodes = dict.fromkeys(up)  # type: ignore[arg-type]
        found = {name for name in found if cluster.world.place(name) == home}
    cluster.world.nodes = known
    return min(found)


@pytest.mark.parametrize("end", ["answered", "turned back", "dead"])
async def test_a_call_is_known_to_fly_though_its_job_moved_twice(cluster: DaprHouse, end: str) -> None:
    """From the first node to the second and on to the third, which hears of its answer, or looks after it."""
    job = moved_twice(cluster)
    await cluster.create(job, qos=1)
    cluster.sender.wall_off(URL)
    await cluster.trigger(job)
    await cluster.settle()
    for name in ("two", "three"):
        await cluster.add(name)
        await cluster.advance(1_000)
    assert cluster.nodes["three"].host.running == 1
    if end == "answered":
        cluster.sender.open_up(URL)
    elif end == "turned back":
        cluster.nodes["one"].host.heartbeat.liveness.end()
        cluster.sender.open_up(URL)
        await cluster.advance(3_000)  # until its next heartbeat
    else:
        cluster.sender.take_down(URL)
        await cluster.crash("one")
        await cluster.advance(DEAD)
    await cluster.advance(SOON)
    assert cluster.sender.urls() == [URL]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_a_node_without_its_sidecar_makes_no_call(cluster: DaprHouse) -> None:
    """It has reported that, and the others go on with what it ran; its own pending call is not sent."""
    await cluster.add("two")
    job = job_on(cluster, "one")
    await cluster.create(job, qos=1)
    cluster.sender.wall_off(URL)
    await cluster.trigger(job)
    await cluster.settle()
    first = cluster.nodes["one"]
    cluster.world.kill("one")
    first.client.is_cut = True
    await first.host.heartbeat.report(CUT_OFF)
    wall = cluster.sender.take_down(URL)
    await cluster.advance(DEAD)
    assert cluster.sender.urls() == [URL]
    wall.set()
    await cluster.advance(SOON)
    first.client.is_cut = False
    await first.host.heartbeat.report(RUNNING)
    await cluster.advance(AFTERWARDS)
    assert cluster.sender.urls() == [URL]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_a_node_that_stops_tells_nobody_of_calls_that_stayed(cluster: DaprHouse) -> None:
    """Without its database it has no heartbeat: its jobs' next node looks after them."""

    async def away(node: Node) -> bool:
        raise StoreUnavailable("the database is away")

    await cluster.create(qos=1)
    cluster.sender.wall_off(URL)
    await cluster.trigger()
    await cluster.settle()
    cluster.node.nodes.beat = away  # type: ignore[method-assign]
    cluster.clock.advance(DEAD)
    cluster.sender.open_up(URL)
    await cluster.settle()
    stopping = asyncio.create_task(cluster.host.stop(1_000))
    await cluster.advance(SOON)
    await asyncio.wait_for(stopping, 5)
    assert cluster.sender.urls() == []
