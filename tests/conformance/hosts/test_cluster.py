"""What holds between the nodes of a cluster, over the stand-in (DESIGN section 4, SPEC section 8)."""

import asyncio
import json

import pytest
from dapr.actor import ActorRuntime
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.domain.events import FeedbackArrived, Triggered
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Recalled, Started, Taken
from scheduler_service.engine.scope import feedback_token
from scheduler_service.hosts.dapr.actor import JobActor
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, freeze, moved
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio

URL = "http://target.test/run"
KEY = b"k" * 32


async def test_the_type_has_the_name_of_the_resiliency_policy(cluster: DaprHouse) -> None:
    """The source binds its policies to `job_scheduler` (DAPR)."""
    assert JobActor.__name__ == "job_scheduler"
    assert list(ActorRuntime.get_registered_actor_types()) == ["job_scheduler"]


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


async def test_a_job_that_comes_back_at_once_has_lost_nothing(cluster: DaprHouse) -> None:
    """Placement lets go of a job and gives it to the same node, before that has handed anything over."""
    await cluster.create(**asynchronous(timeoutSeconds=600))
    await cluster.trigger()
    await cluster.settle()
    await cluster.world._deactivate("job", cluster.world.nodes["one"])
    ringing = asyncio.create_task(cluster.host.alarms.ring("job"))
    await cluster.advance(2_000)
    await ringing
    report = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    assert await cluster.deliver(report) == Taken()
    await cluster.settle()
    assert cluster.executions() == {1: State.SUCCEEDED}


async def test_feedback_finds_the_node_to_which_its_job_moved(cluster: DaprHouse) -> None:
    """An asynchronous execution of qos 0 waits on, on the other node."""
    job = moved(cluster)
    await cluster.create(job, **asynchronous(timeoutSeconds=600))
    await cluster.trigger(job)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(1_000)
    report = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    assert await cluster.deliver(report, job) == Taken()
    await cluster.settle()
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_a_call_that_flies_on_a_node_that_dies_is_sent_again(cluster: DaprHouse) -> None:
    """The job had moved, its call had not: qos 1 sends it again, byte for byte (SPEC section 8)."""
    job = moved(cluster)
    cluster.sender.hold(URL)
    await cluster.create(job, qos=1)
    await cluster.trigger(job)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(1_000)
    assert len(cluster.sender.requests) == 1
    await cluster.crash("one")
    await cluster.recover()
    first, again = cluster.sender.requests
    assert (first.url, first.headers, first.body) == (again.url, again.headers, again.body)
    cluster.sender.release(URL)
    await cluster.settle()
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_the_jobs_of_a_dead_node_go_on_elsewhere(cluster: DaprHouse) -> None:
    """Firings are at most a few seconds late, and none is doubled (DAPR)."""
    await cluster.add("two")
    jobs = [f"job{number}" for number in range(8)]
    for job in jobs:
        await cluster.create(job, timer={"dueTime": "1s", "period": "1s"})
    await cluster.advance(3_000)
    await cluster.crash("one")
    await cluster.advance(20_000)
    for job in jobs:
        planned = [record.planned_at for record in cluster.finished(job)]
        assert len(planned) == len(set(planned))
        assert cluster.clock.now().wall - max(planned) <= 2_000, job


async def test_a_turn_that_was_overtaken_is_taken_anew(cluster: DaprHouse) -> None:
    """Its actor went and came back: what it had read is old, it reads again, and no number is used twice."""
    await cluster.create()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    cluster.world.kill("one")
    second = await cluster.add("two")
    await cluster.advance(1_000)
    reply = await second.host("job", Triggered())
    await cluster.settle()
    cluster.world.active["job"] = "one"
    gate.set_result(None)
    again = await frozen
    assert isinstance(reply, Started)
    assert isinstance(again, Started)
    assert (reply.execute_number, again.execute_number) == (1, 2)


async def test_a_node_past_its_heartbeat_commits_nothing(cluster: DaprHouse) -> None:
    """The others take it for dead: whatever it had in hand is left as they made it (DESIGN section 4)."""
    await cluster.create()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    first = cluster.node
    task = first.host._presence._task
    assert task is not None
    task.cancel()
    cluster.world.kill("one")
    second = await cluster.add("two")
    await cluster.advance(12_000)
    assert isinstance(await second.host("job", Triggered()), Started)
    await cluster.settle()
    before = cluster.world.state["job"]
    gate.set_result(None)
    with pytest.raises(StoreError):
        await frozen
    assert cluster.world.state["job"] == before
    cluster.nodes["one"] = first


async def test_two_nodes_never_take_a_turn_together(cluster: DaprHouse) -> None:
    """While one node's claim stands, another one's turn on the same job is refused, and does nothing."""
    await cluster.create()
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    cluster.world.before_save = lambda node, actor_id: gate if node == "one" else None
    slow = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    first = cluster.nodes["one"]
    cluster.world.nodes.pop("one")
    cluster.world._locks.clear()
    second = await cluster.add("two")
    with pytest.raises(StoreError):
        await second.host("job", Triggered())
    assert cluster.sender.requests == []
    gate.set_result(None)
    await slow
    await cluster.settle()
    assert len(cluster.sender.requests) == 1
    assert first.host.jobs_held == 1


async def test_a_lost_state_is_restored_from_the_catalogue(cluster: DaprHouse) -> None:
    """What the catalogue has as living lives again, its counters go on (DESIGN section 3)."""
    await cluster.create(timer={"dueTime": "5s", "period": "5s"})
    await cluster.trigger()
    await cluster.settle()
    await cluster.crash()
    cluster.world.state.clear()
    await cluster.advance(20_000)
    job = await cluster.host.read("job")
    assert job is not None
    assert job.document is not None
    assert job.document.head.uid == "uid1"
    assert job.document.head.execute_number > 1


async def test_a_restored_job_belongs_to_the_service_that_declares_it() -> None:
    """What only the lost state knew is asked of the table of declared jobs (SPEC sections 9 and 11)."""
    asked: list[tuple[str, str]] = []

    async def owner_of(job_id: str, uid: str) -> str:
        asked.append((job_id, uid))
        return "billing"

    cluster = await DaprHouse(owner_of=owner_of).start()
    try:
        await cluster.create(request=[{"url": "service:/run"}])
        await cluster.crash()
        cluster.world.state.clear()
        await cluster.advance(20_000)
        job = await cluster.host.read("job")
        assert job is not None
        assert job.document is not None
        assert job.document.head.owner == "billing"
        assert set(asked) == {("job", "uid1")}
    finally:
        await cluster.close()


async def test_an_older_state_that_a_sidecar_wrote_late_is_put_right(cluster: DaprHouse) -> None:
    """A sidecar that stood still may write what was overtaken long ago: the newer state wins."""
    await cluster.create()
    older = cluster.world.state["job"]
    await cluster.trigger()
    await cluster.settle()
    newer = cluster.world.state["job"]
    cluster.world.state["job"] = older
    await cluster.advance(2_000)
    reply = await cluster.trigger()
    assert isinstance(reply, Started)
    assert reply.execute_number == 2
    assert newer != older


async def test_a_sidecar_that_is_away_costs_no_firing(cluster: DaprHouse) -> None:
    """Nothing is taken while it is away, and everything afterwards (DESIGN section 3)."""
    await cluster.create(timer={"dueTime": "1s", "period": "1s"})
    cluster.world.is_down = True
    with pytest.raises(StoreError):
        await cluster.trigger()
    await cluster.advance(5_000)
    assert cluster.sender.requests == []
    cluster.world.is_down = False
    await cluster.advance(5_000)
    planned = [record.planned_at for record in cluster.finished("job")]
    assert len(planned) == len(set(planned)) >= 9


async def test_a_regular_schedule_costs_at_most_one_registration(cluster: DaprHouse) -> None:
    """Every second: one in thirty firings; every minute: one each (DAPR)."""
    await cluster.create("often", timer={"dueTime": "1s", "period": "1s"})
    await cluster.create("seldom", timer={"dueTime": "60s", "period": "60s"})
    start = cluster.world.registrations
    await cluster.advance(60_500)
    assert len(cluster.executions("often")) == 60
    assert cluster.world.registrations - start <= 4
    await cluster.advance(60_000)
    assert len(cluster.executions("seldom")) == 2
    assert cluster.world.registrations - start <= 8


async def test_a_second_node_of_a_name_refuses_to_start(cluster: DaprHouse) -> None:
    """`node.id` is unique among the living (SPEC section 14)."""
    adding = asyncio.create_task(cluster.add("one"))
    await cluster.advance(5_000)
    with pytest.raises(StoreUnavailable, match=r"node\.id"):
        await adding


async def test_a_node_that_leaves_hands_over_what_it_runs(cluster: DaprHouse) -> None:
    """A rolling restart loses and doubles nothing, at qos 0 too (SPEC section 14)."""
    two = await cluster.add("two")
    jobs = [f"job{number}" for number in range(6)]
    for job in jobs:
        await cluster.create(job, **asynchronous(timeoutSeconds=600))
        await cluster.trigger(job)
    await cluster.settle()
    stopping = asyncio.create_task(cluster.nodes["one"].host.stop(10_000))
    await cluster.settle()
    await cluster.world.leave("one")
    await cluster.advance(3_000)
    await stopping
    cluster.gone.append(cluster.nodes.pop("one"))
    assert two.host.running == 6
    for number, job in enumerate(jobs):
        report = FeedbackArrived(1, feedback_token(KEY, f"uid{number + 1}", 1), {"status": "succeed"})
        assert await two.host(job, report) == Taken()
    await cluster.settle()
    assert all(cluster.executions(job) == {1: State.SUCCEEDED} for job in jobs)


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


async def test_what_a_job_is_lies_in_one_document(cluster: DaprHouse) -> None:
    """One value per job, as the SDK's clients write it: JSON (DAPR, "State")."""
    await cluster.create()
    assert isinstance(json.loads(cluster.world.state["job"]), str)
    entry = await cluster.catalogue.get("job")
    assert entry is not None
    assert entry.state is JobState.ACTIVE


async def test_a_save_of_which_nobody_heard_keeps_its_answer(cluster: DaprHouse) -> None:
    """The state was written and the sidecar's answer lost: asked again, nothing is done twice (SPEC 10)."""
    await cluster.create()
    remembered = Remembered("trigger/job", "key", b"digest", b"", cluster.clock.now().wall)

    def lose(node: str, actor_id: str) -> None:
        cluster.world.after_save = None
        raise DaprInternalError("the connection was closed")

    cluster.world.after_save = lose
    with pytest.raises(StoreError):
        await cluster.host("job", Triggered(), remembered=remembered)
    await cluster.advance(3_000)
    assert isinstance(await cluster.host("job", Triggered(), remembered=remembered), Recalled)
    assert cluster.executions() == {1: State.SUCCEEDED}
