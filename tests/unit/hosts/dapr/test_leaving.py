"""Jobs that leave a node: one that stops gives them away, and daprd moves them (SPEC section 14)."""

import asyncio
from typing import Any

import msgspec
import pytest
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.domain.document import Document
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Started, Taken
from scheduler_service.domain.turn_events import FeedbackArrived, Paused, Triggered
from scheduler_service.domain.wire import CallKind, Holder, Token
from scheduler_service.engine.document_bytes import decode
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreStopping, StoreUnavailable, StoreUncertain
from scheduler_service.services.instances import Instance
from tests.conformance.hosts.houses import GONE, DaprHouse, freeze, lose_next_claim, moved
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
    await asyncio.wait_for(stopping, 30)
    cluster.gone.append(cluster.nodes.pop("one"))
    cluster.node = cluster.nodes["two"]


@pytest.fixture
def job(cluster: DaprHouse) -> str:
    """A job that lives on `one` where both are there."""
    return moved(cluster, ("two", "one"))


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


@pytest.mark.parametrize("is_alone", [False, True])
async def test_what_waits_begins_elsewhere_or_after_the_next_start(
    cluster: DaprHouse, job: str, is_alone: bool
) -> None:
    """Not where the node drains, though the execution before it ends there."""
    if not is_alone:
        await cluster.add("two")
    cluster.sender.hold(FIRST)
    await cluster.create(job, request=STEPS[:1], overlapPolicy="queue")
    for _ in range(2):
        await cluster.trigger(job)
    stopping = await stop(cluster)
    cluster.sender.release(FIRST)
    await cluster.settle()
    assert cluster.executions(job) == {1: State.SUCCEEDED, 2: State.ENQUEUED}
    await cluster.advance(1_000)
    if is_alone:
        await asyncio.wait_for(stopping, 30)
        assert cluster.sender.urls() == [FIRST]
        await cluster.crash()
    else:
        await cluster.advance(4_000)
        await end(cluster, stopping)
    await cluster.recover()
    assert cluster.executions(job) == dict.fromkeys((1, 2), State.SUCCEEDED)


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
    await asyncio.wait_for(stopping, 30)


async def test_a_node_that_has_stopped_takes_turns_again(cluster: DaprHouse, job: str) -> None:
    """Its daprd held it for ill while it stopped; its next start is another one."""
    cluster.sender.hold(FIRST)
    await start_two(cluster, job, request=STEPS)
    stopping = await stop(cluster)
    await cluster.advance(4_000)
    cluster.sender.release(FIRST)
    await cluster.advance(2_000)
    await end(cluster, stopping)
    cluster.world.kill("one")
    await cluster.add("one")
    assert isinstance(await cluster.host(job, Command(Triggered())), Started)
    await cluster.advance(4_000)
    assert cluster.world.active[job] == "one"


async def begin_to_move(cluster: DaprHouse, job_id: str) -> "asyncio.Task[None]":
    """daprd takes the job from the node `one`."""
    moving = asyncio.create_task(cluster.nodes["one"].host.deactivate(job_id))
    await cluster.settle()
    return moving


@pytest.mark.parametrize("waits_for", ["a turn", "the database"])
async def test_a_job_that_just_moves_is_given_away_by_a_node_that_stops(
    cluster: DaprHouse, job: str, waits_for: str
) -> None:
    """Its call of qos 0 ends here, as those of jobs that daprd has left here: it is not lost."""
    cluster.sender.hold(FIRST)
    await start_two(cluster, job, request=STEPS, timer=EXTERNAL)
    shared = cluster.node.shared
    claim = shared.claim

    async def refuse(one: TurnClaim) -> None:
        raise StoreUnavailable("away")

    if waits_for == "a turn":
        gate = await freeze(cluster)
        turn = asyncio.create_task(cluster.deliver(Paused(drain=True), job))
        await cluster.settle()
    else:
        shared.claim = refuse  # type: ignore[method-assign]
    moving = await begin_to_move(cluster, job)
    stopping = await stop(cluster)
    if waits_for == "a turn":
        gate.set_result(None)
        await turn
    else:
        shared.claim = claim  # type: ignore[method-assign]
    await cluster.advance(4_000)
    assert cluster.nodes["one"].host.running == 1
    cluster.sender.release(FIRST)
    await cluster.advance(2_000)
    await moving
    await end(cluster, stopping)
    assert cluster.sender.urls() == [FIRST, SECOND]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


def passed_on(cluster: DaprHouse, last: str) -> str:
    """An id whose actor lives on `two` as soon as that is there, and on `last` when that has left."""
    there = cluster.world.nodes

    def place(job_id: str, *names: str) -> str:
        cluster.world.nodes = dict.fromkeys(names)  # type: ignore[arg-type]
        return cluster.world.place(job_id)

    ids = (one for one in map(str, range(1_000)) if place(one, "one", "two", "four") == "two")
    found = next(one for one in ids if place(one, "one", "four") == last)
    cluster.world.nodes = there
    return found


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("last", ["one", "four"])
async def test_a_call_from_a_third_node_goes_on_when_the_node_of_its_job_stops(
    cluster: DaprHouse, last: str, qos: int
) -> None:
    """It is not lost, nor sent again: the row names it, and its job does not wait for it."""
    job = passed_on(cluster, last)
    cluster.sender.hold(FIRST)
    await cluster.create(job, request=STEPS, qos=qos, timeoutSeconds=600)
    await cluster.trigger(job)
    await cluster.add("two")
    await cluster.add("four")
    await cluster.advance(4_000)
    two = cluster.nodes["two"].host
    assert two.running == 1
    stopping = asyncio.create_task(two.stop(10_000))
    await cluster.settle()
    assert two.running == 0
    await cluster.advance(12_000)
    await asyncio.wait_for(stopping, 30)
    cluster.gone.append(cluster.nodes.pop("two"))
    cluster.sender.release(FIRST)
    await cluster.advance(5_000)
    assert cluster.world.active[job] == last
    assert cluster.sender.urls() == [FIRST, SECOND]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


async def test_the_row_names_such_a_call_though_its_job_was_not_taken_up_before(cluster: DaprHouse) -> None:
    """The node that stops takes it up and gives it away at once, in two turns."""
    job = passed_on(cluster, "four")
    cluster.sender.hold(FIRST)
    await cluster.create(job, request=STEPS, timeoutSeconds=600)
    await cluster.trigger(job)
    gate = await freeze(cluster)
    await cluster.add("two")
    await cluster.add("four")
    two = cluster.nodes["two"]
    claim = two.shared.claim

    async def refuse(one: TurnClaim) -> None:
        raise StoreUnavailable("away")

    two.shared.claim = refuse  # type: ignore[method-assign]
    gate.set_result(None)
    await cluster.advance(500)
    assert two.host.running == 1
    stopping = asyncio.create_task(two.host.stop(10_000))
    await cluster.settle()
    two.shared.claim = claim  # type: ignore[method-assign]
    await cluster.advance(12_000)
    await asyncio.wait_for(stopping, 30)
    cluster.gone.append(cluster.nodes.pop("two"))
    cluster.sender.release(FIRST)
    await cluster.advance(5_000)
    assert cluster.sender.urls() == [FIRST, SECOND]
    assert cluster.executions(job) == {1: State.SUCCEEDED}


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
    assert 0 <= took < 60_000
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
    lose_next_claim(cluster, is_written=is_written)
    cluster.sender.release(first)
    await cluster.settle()
    await cluster.add("two")
    await cluster.advance(5_000)
    assert cluster.sender.urls() == [first, second]
    assert cluster.executions(here) == {1: State.SUCCEEDED}
    assert "handover_missed" not in [event for event, _ in cluster.log]


@pytest.mark.parametrize("fate", ["refused", "lost", "written"])
async def test_a_handover_that_fails_is_repeated(cluster: DaprHouse, fate: str) -> None:
    """The context of qos 0 is nowhere else; the other node waits, and its call goes on where it is."""
    here = moved(cluster)
    cluster.sender.hold(FIRST)
    await cluster.create(here, request=STEPS, timer=EXTERNAL)
    await cluster.trigger(here)
    await cluster.settle()
    error = StoreUnavailable("full") if fate == "refused" else GONE
    lose_next_claim(cluster, is_written=fate == "written", error=error)
    await cluster.add("two")
    await cluster.advance(5_000)
    cluster.sender.release(FIRST)
    await cluster.advance(2_000)
    assert cluster.sender.urls() == [FIRST, SECOND]
    assert cluster.executions(here) == {1: State.SUCCEEDED}
    assert "handover_missed" not in [event for event, _ in cluster.log]


@pytest.mark.parametrize(("qos", "sent", "state"), [(0, 1, State.TERMINATED), (1, 2, State.SUCCEEDED)])
async def test_a_node_dies_over_a_call_of_a_job_that_it_gave_away(
    cluster: DaprHouse, qos: int, sent: int, state: State
) -> None:
    """The call went on there, and the job at another node, with all that was in memory (SPEC section 8)."""
    here = moved(cluster)
    cluster.sender.hold(FIRST)
    await cluster.create(here, request=STEPS[:1], timer=EXTERNAL, qos=qos)
    await cluster.trigger(here)
    await cluster.add("two")
    await cluster.advance(5_000)
    assert cluster.world.active[here] == "two"
    await cluster.crash("one")
    cluster.sender.release(FIRST)
    await cluster.advance(15_000)
    assert cluster.sender.urls() == [FIRST] * sent
    assert cluster.executions(here) == {1: state}


async def test_a_call_that_is_gone_is_known_once_while_its_execution_lives(cluster: DaprHouse) -> None:
    """The job is noted each second while a handover is awaited, and its row may name the call no more."""
    await cluster.create(**asynchronous(timeoutSeconds=600, qos=1))
    await cluster.trigger()
    stored = await cluster.host.store.load("job")
    assert stored is not None
    assert stored.document is not None
    runs = decode(stored.document)
    ended = Document(msgspec.structs.replace(runs.head, opens=()))
    call = Token(runs.head.uid, 1, 1, CallKind.STEP, 0)
    flights = ((Holder("dead", "1"), (call,)),)
    handovers = Handovers(own=Holder("one", "1"), others=frozenset, stopping=frozenset)
    for named in (flights, flights, ()):
        handovers.note("job", runs, named)
        assert handovers.calls_gone(call.uid) == (call,)
    handovers.note("job", ended, flights)
    assert handovers.calls_gone(call.uid) == ()


@pytest.mark.parametrize(("is_told", "pause"), [(True, 9_000), (False, 11_000)])
async def test_waits_of_long_ago_take_no_job_from_its_node(
    cluster: DaprHouse, job: str, is_told: bool, pause: int
) -> None:
    """Reminders came to the other node by mistake; daprd took the actor away, or let it go without a word."""
    await start_two(cluster, job, **asynchronous(timeoutSeconds=600))
    other = cluster.nodes["two"].host
    for _ in range(3):
        await other.remind(job)
        if is_told:
            await other.deactivate(job)
        await cluster.advance(pause)
    assert "handover_missed" not in [event for event, _ in cluster.log]
    assert cluster.nodes["one"].host.running == 1


async def test_who_was_given_up_once_is_waited_for_again(cluster: DaprHouse, job: str) -> None:
    """A node that took a job over does not do so at once when it is asked again, a long time later."""
    await start_two(cluster, job, qos=1, **asynchronous(timeoutSeconds=600))
    one, two = (cluster.nodes[name].host for name in ("one", "two"))
    for taker in (two, one):
        for _ in range(18):
            await taker.remind(job)
            await cluster.advance(1_000)
    await two.remind(job)
    missed = [event for event, _ in cluster.log if event == "handover_missed"]
    assert (len(missed), one.running, two.running) == (2, 1, 0)


@pytest.mark.parametrize("dies", ["one", "two"])
async def test_a_job_that_was_given_away_goes_on_whoever_dies(cluster: DaprHouse, dies: str) -> None:
    """Its row has all that was in memory; where its next node is killed before its first turn, still."""
    here = moved(cluster)
    await cluster.create(here, **asynchronous(timeoutSeconds=600))
    await cluster.trigger(here)
    await cluster.settle()
    invoke = cluster.world.invoke

    async def refuse(actor_id: str, method: str, data: bytes) -> bytes:
        raise DaprInternalError("nobody takes a turn there")

    if dies == "two":
        cluster.world.invoke = refuse  # type: ignore[method-assign]
    await cluster.add("two")
    await cluster.advance(1_000)
    cluster.world.invoke = invoke  # type: ignore[method-assign]
    await cluster.crash(dies)
    await cluster.advance(15_000)
    report = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    assert await cluster.deliver(report, here) == Taken()
    await cluster.settle()
    assert cluster.executions(here) == {1: State.SUCCEEDED}


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


@pytest.mark.parametrize("is_away", [False, True])
async def test_a_turn_in_doubt_is_settled_though_its_job_moves_before_it_was_taken_up(
    cluster: DaprHouse, is_away: bool
) -> None:
    """The node that found it lost has its notification in the outbox, and no other node would send it.

    Also where its store is away for so long that it lets go of the job.
    """
    hook = "http://hook.test/told"
    told = {"url": hook, "stateEquals": ["finalFailed"], "guarantee": "outbox"}
    cluster.sender.hold(FIRST)
    await cluster.create(request=STEPS[:1], notification=[told])
    await cluster.trigger()
    two = cluster.node = await cluster.add("two")
    lose_next_claim(cluster, is_written=True)
    await cluster.crash("one")
    for _ in range(400):  # until its answer was lost, and not until the turn is repeated
        if "alarm_not_taken" in [event for event, _ in cluster.log]:
            break
        await cluster.advance(50)
    load = two.shared.load

    async def refuse(job_id: str) -> Any:
        raise StoreUnavailable("away")

    if is_away:
        two.shared.load = refuse  # type: ignore[method-assign]
    await cluster.add("three")
    cluster.world.active["job"] = "three"
    await two.host.deactivate("job")
    if is_away:
        await cluster.advance(70_000)
        assert "handover_failed" in [event for event, _ in cluster.log]
        two.shared.load = load  # type: ignore[method-assign]
    await cluster.advance(5_000)
    assert cluster.sender.urls() == [FIRST, hook]
    assert await two.shared.deliveries("", 10) == []
