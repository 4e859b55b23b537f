"""Jobs that are created together: what is written for them, who decides else, what their first turn finds."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Recalled, Refusal, Reply, Taken, Unchanged
from scheduler_service.domain.turn_events import Activated, Created, Destroyed, Updated
from scheduler_service.hosts.dapr.dapr_host import DaprHost
from scheduler_service.hosts.dapr.direct_creation import SOON_MS
from scheduler_service.hosts.node_messages import write_kept
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, DaprNode, freeze, moved
from tests.present import present
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
    entry = present(await cluster.catalogue.get("job7"))
    assert (entry.state, entry.uid, entry.revision) == (JobState.ACTIVE, "uid8", 1)


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


async def test_a_job_that_is_listed_twice_is_created_as_its_first(cluster: DaprHouse) -> None:
    """Also where the first acts at once, and its actor creates it, and the second would not."""
    now = {"timer": {"period": "0s"}}
    replies = await create(cluster, [*array("a", **now), *array("a"), *array("b")])
    assert [type(one) for one in replies] == [Taken, Refusal, Taken]
    await cluster.settle()
    assert cluster.executions("a") == {1: State.SUCCEEDED}


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
        entry = present(await cluster.catalogue.get(name))
        assert (entry.state, entry.revision) == wanted.get(first, (JobState.ACTIVE, 1))
    await cluster.crash("one")
    await cluster.advance(20_000)
    for name in names:
        job = await cluster.host.read(name)
        assert (job is None) == (first == "destroy")


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


AT_ONCE = {"timer": {"period": "1h", "dueTime": "0s"}}
NOW: dict[str, object] = {"timer": {"period": "0s"}}


def due_in(pause: int) -> dict[str, object]:
    """A job that fires once, after so many ms."""
    return {"timer": {"period": "0s", "dueTime": f"{pause}ms"}}


"""A job that is due so soon is created by its actor."""


async def create_alone(host: DaprHost, job_id: str = "job", key: str = "", **members: Any) -> Reply:
    """Delivers Created to a node, under an Idempotency-Key if one is named; else as an hourly job."""
    definition = describe(jobId=job_id, **(HOURLY | members))
    digest = definition.program.fingerprint
    remembered = Remembered(f"jobs/{job_id}", key, digest, b"", 1_700_000_000_000) if key else None
    return await host(job_id, Command(Created("", b""), definition, remembered, write_kept))


def hold_claims(node: DaprNode) -> asyncio.Event:
    """The claims of creations at a node wait for the event."""
    gate, claim_all = asyncio.Event(), node.shared.claim_all

    async def hold(claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        await gate.wait()
        return await claim_all(claims)

    node.shared.claim_all = hold  # type: ignore[method-assign]
    return gate


@pytest.mark.parametrize("members", [NOW, AT_ONCE, due_in(SOON_MS - 1), {"timer": {"period": "* * * * * ?"}}])
async def test_what_is_due_soon_is_created_by_its_actor(
    cluster: DaprHouse, members: dict[str, object]
) -> None:
    """It would have to be loaded at once; so it fires at its moment, as it does where it was in memory."""
    assert await create_alone(cluster.host, **members) == Taken()
    assert cluster.points.seen["before claims"] == 0
    turns = cluster.world.turns
    await cluster.advance(SOON_MS - 1)
    assert cluster.world.turns == turns == 1
    assert cluster.executions()[1] is State.SUCCEEDED


async def test_a_key_is_kept_with_the_claim(cluster: DaprHouse) -> None:
    """Whoever dies after it: the next node knows the answer. It goes with the life that it guards."""
    assert await create_alone(cluster.host, key="once") == Taken()
    await cluster.crash()
    known = await create_alone(cluster.host, key="once")
    assert known == Recalled(write_kept(Taken()), same_digest=True)
    other = await create_alone(cluster.host, key="once", jobName="another")
    assert isinstance(other, Recalled)
    assert not other.same_digest
    assert await create_alone(cluster.host, key="again") == Unchanged()
    await cluster.deliver(Destroyed())
    assert await create_alone(cluster.host, key="once") == Taken()


async def test_two_requests_under_one_key_create_once(cluster: DaprHouse) -> None:
    """At one node and at two: the second one is told what the first one was."""
    second = await cluster.add("two")
    for job_id, host in (("a", cluster.host), ("b", second.host)):
        ends = await asyncio.gather(
            create_alone(cluster.host, job_id, key="once"), create_alone(host, job_id, key="once")
        )
        assert sorted(type(one).__name__ for one in ends) == ["Recalled", "Taken"]


async def test_two_nodes_create_the_same_job(cluster: DaprHouse) -> None:
    """At once: it has one life, and whoever lost says so, as for a job that was there."""
    second = await cluster.add("two")
    for number in range(10):
        job_id = f"job{number}"
        ends = await asyncio.gather(create_alone(cluster.host, job_id), create_alone(second.host, job_id))
        assert {type(one) for one in ends} == {Taken, Unchanged}
        ends = await asyncio.gather(
            create_alone(cluster.host, f"{job_id}x"),
            create_alone(second.host, f"{job_id}x", jobName="another"),
        )
        assert {type(one) for one in ends} == {Taken, Refusal}


@pytest.mark.parametrize("who", ["one", "two"])
async def test_a_creation_meets_that_of_an_actor(cluster: DaprHouse, who: str) -> None:
    """The actor had found no job, here or at another node, when the claim came before its own."""
    job_id = "job"
    if who == "two":
        job_id = moved(cluster)
        await cluster.add("two")
    cluster.node = cluster.nodes[who]
    gate = await freeze(cluster)
    by_actor = asyncio.create_task(create_alone(cluster.host, job_id, **AT_ONCE))
    await cluster.settle()
    directly = asyncio.create_task(create_alone(cluster.nodes["one"].host, job_id))
    await cluster.settle()
    gate.set_result(None)
    # At one node the actor's turn has the job's lock; at two the claim that came first is the creation.
    first, last = (by_actor, directly) if who == "one" else (directly, by_actor)
    assert (await first, type(await last)) == (Taken(), Refusal)


async def test_an_actor_s_creation_comes_before_a_claim(cluster: DaprHouse) -> None:
    """The claim finds the row that the actor of another node wrote meanwhile."""
    job_id = moved(cluster)
    second = await cluster.add("two")
    gate = hold_claims(cluster.node)
    directly = asyncio.create_task(create_alone(cluster.host, job_id))
    await cluster.settle()
    assert await create_alone(second.host, job_id, **AT_ONCE) == Taken()
    gate.set()
    assert isinstance(await directly, Refusal)


@pytest.mark.parametrize("nodes", [1, 2])
async def test_a_creation_meets_a_destruction(cluster: DaprHouse, nodes: int) -> None:
    """Whichever comes first: the job is there if and only if it was destroyed before, or not at all."""
    other = cluster.node if nodes == 1 else await cluster.add("two")
    for number in range(10):
        job_id = f"job{number}"
        create_it = create_alone(cluster.host, job_id)
        destroy_it = other.host(job_id, Command(Destroyed()))
        pair = (create_it, destroy_it) if number % 2 else (destroy_it, create_it)
        ends = await asyncio.gather(*pair)
        created, destroyed = ends if number % 2 else reversed(ends)
        assert created == Taken()
        entry = present(await cluster.catalogue.get(job_id))
        was_there = destroyed == Taken()
        assert was_there or isinstance(destroyed, Refusal)
        assert (entry.state is JobState.DESTROYED) == was_there


async def test_a_destruction_during_the_claim_finds_no_job(cluster: DaprHouse) -> None:
    """At another node; the creation that was under way is the later one. One after its answer finds it."""
    job_id = moved(cluster)
    second = await cluster.add("two")
    gate = hold_claims(cluster.node)
    creating = asyncio.create_task(create_alone(cluster.host, job_id))
    await cluster.settle()
    assert isinstance(await second.host(job_id, Command(Destroyed())), Refusal)
    gate.set()
    assert await creating == Taken()
    assert await second.host(job_id, Command(Destroyed())) == Taken()
