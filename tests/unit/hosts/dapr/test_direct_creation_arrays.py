"""Jobs that are created together: what is written for them, who decides else, what their first turn finds."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.events import Activated, Created, Destroyed, Updated
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Refusal, RefusalCode, Taken, Unchanged
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio

HOURLY = {"timer": {"period": "1h", "dueTime": "1h"}}
SOON = {"timer": {"period": "0s", "dueTime": "5s"}}


def array(*names: str, **members: Any) -> list[Definition]:
    """A definition for each name."""
    return [describe(jobId=name, **(HOURLY | members)) for name in names]


async def create(cluster: DaprHouse, definitions: Sequence[Definition], owner: str = "") -> list[object]:
    """The replies."""
    return list(await cluster.host.create_all(definitions, owner))


async def test_no_sidecar_is_asked_before_the_answer(cluster: DaprHouse) -> None:
    """One group of claims; neither a turn nor a state nor a reminder is waited for."""
    cluster.world.is_down = True
    names = [f"job{number}" for number in range(300)]
    assert await create(cluster, array(*names)) == [Taken()] * 300
    assert cluster.points.seen["before claims"] == 2
    assert cluster.points.seen["before claim"] == 0
    entry = await cluster.catalogue.get("job7")
    assert entry is not None
    assert (entry.state, entry.uid, entry.revision) == (JobState.ACTIVE, "uid8", 1)


async def test_a_job_is_read_as_it_was_created(cluster: DaprHouse) -> None:
    """Its identity and its owner; nothing of it is written by the reading."""
    await create(cluster, array("a", request=[{"url": "service:/run"}]), owner="shop")
    job = await cluster.host.read("a")
    assert job is not None
    assert job.document is not None
    head = job.document.head
    assert (head.uid, head.key, head.owner) == ("uid1", b"k" * 32, "shop")
    assert cluster.world.saves == 0
    assert cluster.world.reads == 0


@pytest.mark.parametrize("qos", [0, 1])
async def test_the_claims_have_all_of_the_job(cluster: DaprHouse, qos: int) -> None:
    """No reminder guards it before its first turn, which says so."""
    claims: list[TurnClaim] = []
    record(cluster, claims)
    await create(cluster, array("a", **SOON, qos=qos))
    await cluster.advance(6_000)
    assert cluster.executions("a") == {1: State.SUCCEEDED}
    assert [one.is_first for one in claims] == [False, False]
    assert cluster.world.reads == 0


@pytest.mark.parametrize("nodes", [1, 2])
async def test_jobs_fire_at_their_moment_wherever_they_live(cluster: DaprHouse, nodes: int) -> None:
    """Near ones are loaded by the node that created them, far ones by the one that sweeps; no reminder rings.

    daprd is asked to load each, and for nothing else.
    """
    if nodes == 2:
        await cluster.add("two")
    names = [f"job{number}" for number in range(20)]
    # 40 s are nearer than the creator hands over, and farther than the sweep looks.
    moments = [5, 40, 46, 90]
    turns = cluster.world.turns
    for start, pause in enumerate(moments):
        await create(cluster, array(*names[start::4], timer={"period": "0s", "dueTime": f"{pause}s"}))
    await cluster.advance(95_000)
    assert cluster.world.turns - turns == len(names)
    for number, name in enumerate(names):
        (ended,) = cluster.finished(name)
        assert ended.started_at is not None
        assert ended.started_at - ended.planned_at < 100, number
    assert cluster.world.registrations == 0


async def test_what_acts_at_once_is_created_by_its_actor(cluster: DaprHouse) -> None:
    """It fires before the answer, as a single creation does."""
    now = {"timer": {"period": "0s"}}
    assert await create(cluster, [*array("now", **now), *array("later")]) == [Taken(), Taken()]
    assert cluster.world.turns == 1
    await cluster.settle()
    assert cluster.executions("now") == {1: State.SUCCEEDED}


async def test_an_existing_job_is_answered_as_a_single_creation_is(cluster: DaprHouse) -> None:
    """Equal, another definition, and one that is listed twice."""
    await create(cluster, array("a", "b"))
    changed = array("b", jobName="another")
    replies = await create(cluster, [*array("a"), *changed, *array("c", "d", "d")])
    assert [type(one) for one in replies] == [Unchanged, Refusal, Taken, Taken, Unchanged]
    assert isinstance(replies[1], Refusal)
    assert replies[1].code is RefusalCode.CONFLICT


async def test_a_job_that_is_listed_twice_is_created_as_its_first(cluster: DaprHouse) -> None:
    """Also where the first acts at once, and its actor creates it, and the second would not."""
    now = {"timer": {"period": "0s"}}
    replies = await create(cluster, [*array("a", **now), *array("a"), *array("b")])
    assert [type(one) for one in replies] == [Taken, Refusal, Taken]
    await cluster.settle()
    assert cluster.executions("a") == {1: State.SUCCEEDED}


async def test_counters_go_on_after_a_destruction(cluster: DaprHouse) -> None:
    """The row of the buried job is there, so its actor creates the next life."""
    await create(cluster, array("a"))
    await cluster.trigger("a")
    await cluster.settle()
    await cluster.deliver(Destroyed(), "a")
    assert await create(cluster, array("a")) == [Taken()]
    await cluster.trigger("a")
    await cluster.settle()
    assert cluster.executions("a") == {1: State.SUCCEEDED, 2: State.SUCCEEDED}


async def test_a_refusal_is_the_actors(cluster: DaprHouse) -> None:
    """A job that calls its owner and has none."""
    (reply,) = await create(cluster, array("a", request=[{"url": "service:/run"}]))
    assert isinstance(reply, Refusal)
    assert await cluster.catalogue.get("a") is None


@pytest.mark.parametrize("first", ["update", "destroy", "activate", "trigger"])
async def test_any_event_may_be_the_first(cluster: DaprHouse, first: str) -> None:
    """Before any alarm, at the other node or this one."""
    await cluster.add("two")
    names = [f"job{number}" for number in range(6)]
    await create(cluster, array(*names, active=0 if first == "activate" else 1))
    for name in names:
        if first == "update":
            changed = Command(Updated(0), array(name, jobName="another")[0])
            assert await cluster.host(name, changed) == Taken()
        elif first == "destroy":
            assert await cluster.deliver(Destroyed(), name) == Taken()
        elif first == "activate":
            await cluster.deliver(Activated(), name)
        else:
            await cluster.trigger(name)
    await cluster.settle()
    wanted = {"destroy": (JobState.DESTROYED, 1), "update": (JobState.ACTIVE, 2)}
    for name in names:
        entry = await cluster.catalogue.get(name)
        assert entry is not None
        assert (entry.state, entry.revision) == wanted.get(first, (JobState.ACTIVE, 1))
    await cluster.crash("one")
    await cluster.advance(20_000)
    for name in names:
        job = await cluster.host.read(name)
        assert (job is None) == (first == "destroy")


async def test_two_nodes_create_the_same_jobs(cluster: DaprHouse) -> None:
    """At once, in opposite orders: each job has one life, and whoever lost says so."""
    second = await cluster.add("two")
    names = [f"job{number}" for number in range(40)]
    ends = await asyncio.gather(
        cluster.host.create_all(array(*names), ""), second.host.create_all(array(*reversed(names)), "")
    )
    for one, other in zip(ends[0], reversed(ends[1]), strict=True):
        assert {type(one), type(other)} == {Taken, Unchanged}


async def test_a_single_creation_meets_an_array(cluster: DaprHouse) -> None:
    """The job's own lock orders them at one node: the array's row is not taken for the actor's own."""
    definition = array("a")[0]
    single, (grouped,) = await asyncio.gather(
        cluster.host("a", Command(Created("", b""), definition)), create(cluster, [definition])
    )
    assert {type(single), type(grouped)} == {Taken, Unchanged}
    claiming, gate = asyncio.Event(), asyncio.Event()
    shared = cluster.node.shared
    claim_all = shared.claim_all

    async def hold(claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        claiming.set()
        await gate.wait()
        return await claim_all(claims)

    shared.claim_all = hold  # type: ignore[method-assign]
    other = array("b")[0]
    first = asyncio.create_task(create(cluster, [other]))
    await claiming.wait()
    second = asyncio.create_task(cluster.host("b", Command(Created("", b""), other)))
    await cluster.settle()
    gate.set()
    assert (await first, await second) == ([Taken()], Unchanged())


async def test_a_caller_that_leaves_leaves_no_job_without_an_alarm(cluster: DaprHouse) -> None:
    """The creation goes on to its end."""
    asking = asyncio.ensure_future(cluster.host.create_all(array("a", **SOON), ""))
    await asyncio.sleep(0)
    asking.cancel()
    await cluster.advance(6_000)
    assert cluster.executions("a") == {1: State.SUCCEEDED}


async def test_a_node_past_its_heartbeat_creates_nothing_itself(cluster: DaprHouse) -> None:
    """Nor does one that stops: the actors' nodes decide."""
    cluster.node.cluster.heartbeat.liveness.end()
    (reply,) = await create(cluster, array("a"))
    assert isinstance(reply, StoreError)
    assert cluster.points.seen["before claims"] == 0


async def test_what_breaks_takes_no_other_job_with_it(cluster: DaprHouse) -> None:
    """Its own turn says that it broke."""
    broken = array("broken")[0]
    program = msgspec.structs.replace(broken.program, timer=None)
    replies = await create(cluster, [Definition(broken.text, program), *array("a")])
    assert [type(one) for one in replies] == [Taken, Taken]  # the actor compiles the text anew


async def test_what_another_node_left_is_recorded_from_its_claim(cluster: DaprHouse) -> None:
    """The node dies before its history has the records of the creation: the first turn brings them."""
    past = {"timer": {"period": "1h", "startAt": "2023-11-14 17:13:25", "misfire": {"policy": "skip"}}}
    await create(cluster, array("a", **past))
    assert cluster.batches("a")
    cluster.node.history.batches.clear()
    await cluster.crash()
    await cluster.recover()
    assert [batch.uid for batch in cluster.batches("a")]


def record(cluster: DaprHouse, claims: list[TurnClaim]) -> None:
    """Keeps the claims of single turns in `claims`."""
    shared = cluster.node.shared
    claim = shared.claim

    async def keep(one: TurnClaim) -> None:
        claims.append(one)
        await claim(one)

    shared.claim = keep  # type: ignore[method-assign]
