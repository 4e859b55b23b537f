"""Jobs that are created one by one: what is written for them, who decides else, who is first."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_service.domain.events import Created, Destroyed
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Recalled, Refusal, RefusalCode, Reply, Taken, Unchanged
from scheduler_service.hosts.dapr.direct_creation import SOON_MS
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.messages import write_kept
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import Remembered
from tests.conformance.hosts.houses import DaprHouse, DaprNode, freeze, moved
from tests.unit.hosts.house import describe

pytestmark = pytest.mark.anyio

HOURLY = {"timer": {"period": "1h", "dueTime": "1h"}}
AT_ONCE = {"timer": {"period": "1h", "dueTime": "0s"}}
NOW: dict[str, object] = {"timer": {"period": "0s"}}


def due_in(pause: int) -> dict[str, object]:
    """A job that fires once, after so many ms."""
    return {"timer": {"period": "0s", "dueTime": f"{pause}ms"}}


AT_ONCE = {"timer": {"period": "1h", "dueTime": "1s"}}
"""A job that is due so soon is created by its actor."""


async def create(host: DaprHost, job_id: str = "job", key: str = "", **members: Any) -> Reply:
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


async def test_a_claim_is_all_that_is_done(cluster: DaprHouse) -> None:
    """No sidecar is asked: neither a turn nor a state nor a reminder is waited for."""
    cluster.world.is_down = True
    assert await create(cluster.host) == Taken()
    assert cluster.points.seen["before claims"] == 1
    assert cluster.points.seen["before claim"] == 0
    assert cluster.world.registrations == cluster.world.saves == cluster.world.reads == 0
    entry = await cluster.catalogue.get("job")
    assert entry is not None
    assert (entry.state, entry.uid, entry.revision) == (JobState.ACTIVE, "uid1", 1)


async def test_an_existing_job_is_answered_by_its_actor(cluster: DaprHouse) -> None:
    """Equal, another definition, and after a destruction, when its counters go on."""
    assert await create(cluster.host) == Taken()
    assert await create(cluster.host) == Unchanged()
    refused = await create(cluster.host, jobName="another")
    assert isinstance(refused, Refusal)
    assert refused.code is RefusalCode.CONFLICT
    await cluster.trigger()
    await cluster.settle()
    assert await cluster.deliver(Destroyed()) == Taken()
    assert await create(cluster.host) == Taken()
    await cluster.trigger()
    await cluster.settle()
    assert cluster.executions() == {1: State.SUCCEEDED, 2: State.SUCCEEDED}


@pytest.mark.parametrize("members", [NOW, AT_ONCE, due_in(SOON_MS - 1), {"timer": {"period": "* * * * * ?"}}])
async def test_what_is_due_soon_is_created_by_its_actor(
    cluster: DaprHouse, members: dict[str, object]
) -> None:
    """It would have to be loaded at once; so it fires at its moment, as it does where it was in memory."""
    assert await create(cluster.host, **members) == Taken()
    assert cluster.points.seen["before claims"] == 0
    turns = cluster.world.turns
    await cluster.advance(SOON_MS - 1)
    assert cluster.world.turns == turns == 1
    assert cluster.executions()[1] is State.SUCCEEDED


@pytest.mark.parametrize("pause", [SOON_MS, 5_000, 40_000, 46_000, 90_000])
async def test_jobs_fire_at_their_moment_wherever_they_live(cluster: DaprHouse, pause: int) -> None:
    """Each is loaded before by one call of daprd, and has no reminder."""
    await cluster.add("two")
    await cluster.advance(5_000)  # the actors have moved
    names = [f"job{number}" for number in range(8)]
    for name in names:
        assert await create(cluster.host, name, **due_in(pause)) == Taken()
    await cluster.advance(pause + 100)
    assert cluster.world.turns == len(names)
    assert cluster.world.registrations == 0
    for name in names:
        (ended,) = cluster.finished(name)
        assert ended.started_at is not None
        assert ended.started_at - ended.planned_at < 100


async def test_a_key_is_kept_with_the_claim(cluster: DaprHouse) -> None:
    """Whoever dies after it: the next node knows the answer. It goes with the life that it guards."""
    assert await create(cluster.host, key="once") == Taken()
    await cluster.crash()
    known = await create(cluster.host, key="once")
    assert known == Recalled(write_kept(Taken()), same_digest=True)
    other = await create(cluster.host, key="once", jobName="another")
    assert isinstance(other, Recalled)
    assert not other.same_digest
    assert await create(cluster.host, key="again") == Unchanged()
    await cluster.deliver(Destroyed())
    assert await create(cluster.host, key="once") == Taken()


async def test_two_requests_under_one_key_create_once(cluster: DaprHouse) -> None:
    """At one node and at two: the second one is told what the first one was."""
    second = await cluster.add("two")
    for job_id, host in (("a", cluster.host), ("b", second.host)):
        ends = await asyncio.gather(
            create(cluster.host, job_id, key="once"), create(host, job_id, key="once")
        )
        assert sorted(type(one).__name__ for one in ends) == ["Recalled", "Taken"]


async def test_two_nodes_create_the_same_job(cluster: DaprHouse) -> None:
    """At once: it has one life, and whoever lost says so, as for a job that was there."""
    second = await cluster.add("two")
    for number in range(10):
        job_id = f"job{number}"
        ends = await asyncio.gather(create(cluster.host, job_id), create(second.host, job_id))
        assert {type(one) for one in ends} == {Taken, Unchanged}
        ends = await asyncio.gather(
            create(cluster.host, f"{job_id}x"), create(second.host, f"{job_id}x", jobName="another")
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
    by_actor = asyncio.create_task(create(cluster.host, job_id, **AT_ONCE))
    await cluster.settle()
    directly = asyncio.create_task(create(cluster.nodes["one"].host, job_id))
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
    directly = asyncio.create_task(create(cluster.host, job_id))
    await cluster.settle()
    assert await create(second.host, job_id, **AT_ONCE) == Taken()
    gate.set()
    assert isinstance(await directly, Refusal)


@pytest.mark.parametrize("nodes", [1, 2])
async def test_a_creation_meets_a_destruction(cluster: DaprHouse, nodes: int) -> None:
    """Whichever comes first: the job is there if and only if it was destroyed before, or not at all."""
    other = cluster.node if nodes == 1 else await cluster.add("two")
    for number in range(10):
        job_id = f"job{number}"
        create_it = create(cluster.host, job_id)
        destroy_it = other.host(job_id, Command(Destroyed()))
        pair = (create_it, destroy_it) if number % 2 else (destroy_it, create_it)
        ends = await asyncio.gather(*pair)
        created, destroyed = ends if number % 2 else reversed(ends)
        assert created == Taken()
        entry = await cluster.catalogue.get(job_id)
        assert entry is not None
        was_there = destroyed == Taken()
        assert was_there or isinstance(destroyed, Refusal)
        assert (entry.state is JobState.DESTROYED) == was_there


async def test_a_destruction_during_the_claim_finds_no_job(cluster: DaprHouse) -> None:
    """At another node; the creation that was under way is the later one. One after its answer finds it."""
    job_id = moved(cluster)
    second = await cluster.add("two")
    gate = hold_claims(cluster.node)
    creating = asyncio.create_task(create(cluster.host, job_id))
    await cluster.settle()
    assert isinstance(await second.host(job_id, Command(Destroyed())), Refusal)
    gate.set()
    assert await creating == Taken()
    assert await second.host(job_id, Command(Destroyed())) == Taken()


async def test_a_caller_that_leaves_leaves_no_job_without_an_alarm(cluster: DaprHouse) -> None:
    """The creation goes on to its end."""
    asking = asyncio.ensure_future(create(cluster.host, **due_in(5_000)))
    await asyncio.sleep(0)
    asking.cancel()
    await cluster.advance(6_000)
    assert cluster.executions() == {1: State.SUCCEEDED}


async def test_a_node_past_its_heartbeat_creates_nothing_itself(cluster: DaprHouse) -> None:
    """The others may have taken its jobs over."""
    cluster.node.cluster.heartbeat.liveness.end()
    with pytest.raises(StoreError):
        await create(cluster.host, "other")
    assert cluster.points.seen["before claims"] == 0
