"""A node that stops while another one lives gives its jobs away (SPEC section 14)."""

import asyncio

import pytest

from scheduler_service.domain.events import FeedbackArrived, Triggered
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Started, Taken
from scheduler_service.engine.scope import feedback_token
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreStopping, StoreUncertain
from tests.conformance.hosts.houses import DaprHouse, moved
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio

FIRST, SECOND = "http://target.test/first", "http://target.test/second"
STEPS = [{"url": FIRST}, {"url": SECOND}]
KEY = b"k" * 32


async def start_two(cluster: DaprHouse, job_id: str, **members: object) -> None:
    """The job lives on the node `one`, and its execution is open there; `two` is alive."""
    await cluster.add("two")
    await cluster.create(job_id, **members)
    await cluster.trigger(job_id)
    await cluster.settle()
    assert cluster.world.active[job_id] == "one"


async def stop(cluster: DaprHouse, grace: int = 10_000) -> "asyncio.Task[None]":
    """The node `one` drains from now on."""
    stopping = asyncio.create_task(cluster.nodes["one"].host.stop(grace))
    await cluster.settle()
    return stopping


async def end(cluster: DaprHouse, stopping: "asyncio.Task[None]") -> None:
    """The node `one` is gone, and the test speaks to `two`."""
    await asyncio.wait_for(stopping, 1)
    cluster.gone.append(cluster.nodes.pop("one"))
    cluster.node = cluster.nodes["two"]


@pytest.fixture
def job(cluster: DaprHouse) -> str:
    """A job that lives on `one` where both are there."""
    return moved(cluster, ("two", "one"))


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_report_is_taken_by_the_other_node(cluster: DaprHouse, job: str, qos: int) -> None:
    """The draining node tells nobody: the next one finds all of it in the claim."""
    await start_two(cluster, job, **asynchronous(timeoutSeconds=600, qos=qos))
    stopping = await stop(cluster)
    await cluster.advance(4_000)
    await end(cluster, stopping)
    report = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    assert await cluster.deliver(report, job) == Taken()
    await cluster.settle()
    assert cluster.executions(job) == {1: State.SUCCEEDED}


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_retry_comes_at_its_moment(cluster: DaprHouse, job: str, qos: int) -> None:
    """Nobody asks for the job: the sweep rings what the node gives away."""
    cluster.sender.answers(FIRST, 500)
    retry = [{"errorEquals": "500", "intervalSeconds": 9}]
    await start_two(cluster, job, request=STEPS, retry=retry, qos=qos)
    began = cluster.clock.now().steady
    stopping = await stop(cluster)
    await cluster.advance(8_900)
    await end(cluster, stopping)
    assert cluster.sender.urls() == [FIRST]
    await cluster.advance(began + 9_100 - cluster.clock.now().steady)
    assert cluster.sender.urls() == [FIRST, FIRST, SECOND]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_call_ends_here_and_the_next_step_is_sent_there(
    cluster: DaprHouse, job: str, qos: int
) -> None:
    """Each step once, whatever daprd says to the draining node: its actor has moved long ago."""
    cluster.sender.hold(FIRST)
    await start_two(cluster, job, request=STEPS, qos=qos)
    stopping = await stop(cluster, 20_000)
    await cluster.advance(8_000)
    assert "one" in cluster.world.ill
    cluster.sender.release(FIRST)
    await cluster.settle()
    assert cluster.sender.urls() == [FIRST]
    await cluster.advance(3_000)
    await end(cluster, stopping)
    assert cluster.sender.urls() == [FIRST, SECOND]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


@pytest.mark.parametrize(("qos", "sent", "state"), [(0, 1, State.TERMINATED), (1, 2, State.SUCCEEDED)])
async def test_a_longer_call_is_given_up_in_the_middle_of_the_drain(
    cluster: DaprHouse, job: str, qos: int, sent: int, state: State
) -> None:
    """At qos 0 it is not sent again, at qos 1 under the same key."""
    cluster.sender.hold(FIRST)
    await start_two(cluster, job, request=STEPS[:1], qos=qos)
    stopping = await stop(cluster, 40_000)
    await cluster.advance(19_900)
    assert cluster.executions(job) == {1: State.PROCESSING}
    await cluster.advance(2_000)
    await end(cluster, stopping)
    cluster.sender.release(FIRST)
    await cluster.advance(1_000)
    assert cluster.sender.urls() == [FIRST] * sent
    assert cluster.executions(job) == {1: state}


async def test_what_comes_before_daprd_has_moved_the_job_is_taken(cluster: DaprHouse, job: str) -> None:
    """Each turn here ends with the handover; what starts something is refused."""
    await start_two(cluster, job, **asynchronous(timeoutSeconds=600))
    other = cluster.nodes["two"].host
    busy = another(cluster)
    cluster.sender.hold(FIRST)
    await cluster.create(busy, request=STEPS)
    await cluster.trigger(busy)
    stopping = await stop(cluster)
    with pytest.raises(StoreStopping):
        await other(job, Command(Triggered()))
    report = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    assert await other(job, Command(report)) == Taken()
    assert cluster.nodes["one"].host.running == 1
    cluster.sender.release(FIRST)
    await cluster.advance(5_000)
    await end(cluster, stopping)
    assert cluster.executions(job) == cluster.executions(busy) == {1: State.SUCCEEDED}


def another(cluster: DaprHouse) -> str:
    """The id of another job that lives on `one`."""
    return next(name for name in map(str, range(100, 200)) if cluster.world.place(name) == "one")


async def test_the_job_can_be_triggered_when_daprd_has_moved_it(cluster: DaprHouse, job: str) -> None:
    """Three seconds, whatever other jobs of the node still do; the node itself refuses it then, at once."""
    cluster.sender.hold(FIRST)
    await start_two(cluster, job, request=STEPS)
    quiet = another(cluster)
    await cluster.create(quiet, timer={"period": "external"})
    stopping = await stop(cluster)
    await cluster.advance(3_000)
    one = cluster.nodes["one"].host
    await one.report_missing(["placement", "actors"])
    with pytest.raises(StoreStopping):
        await one(quiet, Command(Triggered()))
    assert isinstance(await cluster.nodes["two"].host(quiet, Command(Triggered())), Started)
    cluster.sender.release(FIRST)
    await cluster.advance(4_000)
    await end(cluster, stopping)


async def test_a_node_alone_lets_its_executions_wait(cluster: DaprHouse, job: str) -> None:
    """Until another one is there: then it gives them away."""
    await cluster.create(job, **asynchronous(timeoutSeconds=600))
    await cluster.trigger(job)
    stopping = await stop(cluster, 20_000)
    await cluster.advance(5_000)
    assert cluster.host.is_healthy
    await cluster.add("two")
    await cluster.advance(5_000)
    await end(cluster, stopping)
    assert cluster.host.running == 1


async def test_a_call_that_daprd_holds_is_given_up_when_a_node_has_left(cluster: DaprHouse, job: str) -> None:
    """daprd 1.18.3 answers no call that comes in the moment in which its node leaves."""
    await start_two(cluster, job, **asynchronous(timeoutSeconds=600))
    stopping = await stop(cluster)
    two = cluster.nodes["two"]
    cluster.world.ill["two"] = cluster.world.nodes.pop("two")
    asking = asyncio.create_task(two.host(job, Command(Triggered())))
    await cluster.advance(4_400)
    assert not asking.done()
    await cluster.advance(200)
    with pytest.raises(StoreUncertain):
        await asking
    await asyncio.wait_for(stopping, 1)
