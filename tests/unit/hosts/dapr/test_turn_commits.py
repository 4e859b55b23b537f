"""A turn is claimed, and its state lies with its claim or in the actor store."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.events import Destroyed, Triggered, Updated
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Started
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.turn_commits import LARGEST_CLAIM_BYTES
from scheduler_service.persistence.common.actor_document import read_actor_document, write_actor_document
from scheduler_service.ports.cluster import LatestClaim, Node, TurnClaim
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import asynchronous, describe

pytestmark = pytest.mark.anyio

HOOK = "http://caller.test/told"
MINUTELY = {"dueTime": "60s", "period": "60s"}


async def latest(cluster: DaprHouse) -> LatestClaim:
    """The latest claim of the job."""
    found = await cluster.node.shared.latest("job")
    assert found is not None
    return found


async def update(cluster: DaprHouse, **members: Any) -> None:
    """The job gets another definition."""
    entry = await cluster.catalogue.get("job")
    assert entry is not None
    updated = Updated(entry.revision + 1)
    await cluster.host("job", Command(updated, describe(jobId="job", **members)))


def count_saves(cluster: DaprHouse) -> int:
    """How many states were written to the actor store since the last count."""
    return cluster.points.seen.pop("after save", 0)


async def test_at_qos_0_the_claim_is_all_that_is_written(cluster: DaprHouse) -> None:
    """From the second turn on; another node goes on from there, whatever the actor store has lost."""
    await cluster.create_by_actor(timer=MINUTELY)
    assert count_saves(cluster) == 1
    await cluster.advance(61_000)
    assert count_saves(cluster) == 0
    assert (await latest(cluster)).is_commit
    cluster.world.state.clear()
    await cluster.add("two")
    await cluster.crash("one")
    await cluster.advance(60_000)
    assert [record.execute_number for record in cluster.finished("job")] == [1, 2]
    assert count_saves(cluster) == 0


async def test_the_first_claim_of_a_job_is_its_commit(cluster: DaprHouse) -> None:
    """At qos 1 as well: the turn after it writes the actor store, and its claim has a copy until then."""
    await cluster.create(timer={"dueTime": "1s", "period": "60s"}, qos=1)
    first = await latest(cluster)
    assert (first.is_commit, count_saves(cluster)) == (True, 0)
    assert read_actor_document(first.copy or b"").messages
    await update(cluster, timer=MINUTELY, qos=1)
    second = await latest(cluster)
    assert (second.is_commit, second.copy is None, count_saves(cluster)) == (False, False, 1)
    await update(cluster, timer=MINUTELY, qos=1, jobName="third")
    assert ((await latest(cluster)).copy, count_saves(cluster)) == (None, 1)


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_state_has_all_records_that_the_history_has_not(cluster: DaprHouse, qos: int) -> None:
    """Of earlier turns as well, wherever the state lies: the next node takes them over from it."""
    cluster.history_of_now().fault = StoreUnavailable("the disk is full")
    await cluster.create(timer=MINUTELY, qos=qos)
    await cluster.advance(181_000)
    cluster.history_of_now().batches.clear()
    await cluster.add("two")
    await cluster.crash("one")
    await cluster.advance(60_000)
    assert {record.execute_number for record in cluster.finished("job")} >= {1, 2, 3}


async def test_what_is_to_be_in_the_actor_store_comes_there_again(cluster: DaprHouse) -> None:
    """A job that becomes one of qos 1: the turn that says so lies in both, the next one there alone."""
    await cluster.create()
    await cluster.trigger()
    await cluster.settle()
    count_saves(cluster)
    await update(cluster, qos=1)
    claim = await latest(cluster)
    assert (claim.is_commit, claim.copy is None, count_saves(cluster)) == (False, False, 1)
    await cluster.trigger()
    await cluster.settle()
    assert (await latest(cluster)).copy is None
    assert count_saves(cluster) == 2
    await update(cluster, qos=0)
    assert count_saves(cluster) == 1
    await cluster.trigger()
    await cluster.settle()
    assert count_saves(cluster) == 0
    assert cluster.executions() == dict.fromkeys((1, 2, 3), State.SUCCEEDED)


async def test_an_open_execution_of_qos_1_keeps_its_job_in_the_actor_store(cluster: DaprHouse) -> None:
    """Its context is to lie there (SPEC section 8), though the definition has become one of qos 0."""
    await cluster.create(**asynchronous(qos=1, timeoutSeconds=600, overlapPolicy="allow"))
    await cluster.trigger()
    await cluster.settle()
    await update(cluster, **asynchronous(qos=0, timeoutSeconds=600, overlapPolicy="allow"))
    count_saves(cluster)
    await cluster.trigger()
    await cluster.settle()
    assert count_saves(cluster) == 1


async def test_a_job_that_is_destroyed_is_so_in_the_actor_store(cluster: DaprHouse) -> None:
    """Where its row is removed, nothing of it comes back; a later life begins anew (SPEC section 10)."""
    await cluster.create()
    await cluster.trigger()
    await cluster.settle()
    await cluster.deliver(Destroyed())
    await cluster.settle()
    assert await cluster.node.shared.forget("job")
    await cluster.crash()
    await cluster.create()
    assert isinstance(await cluster.trigger(), Started)
    await cluster.settle()
    entry = await cluster.catalogue.get("job")
    assert entry is not None
    assert (entry.uid, entry.execute_number) == ("uid2", 1)


async def test_a_large_state_goes_to_the_actor_store(cluster: DaprHouse) -> None:
    """A row that each claim writes anew stays small; the next small state lies with its claim again."""
    await cluster.create(paramsSchema={})
    await cluster.trigger()
    await cluster.settle()
    count_saves(cluster)
    large = "x" * LARGEST_CLAIM_BYTES
    await cluster.deliver(Triggered(params=msgspec.json.encode({"a": large})))
    await cluster.settle()
    assert count_saves(cluster) >= 1
    assert len((await latest(cluster)).copy or b"") < LARGEST_CLAIM_BYTES
    assert cluster.executions() == dict.fromkeys((1, 2), State.SUCCEEDED)


OLD = Node("old", "0", "http://old", "0", "running", 0, 0, 0, 0, reads_claims=0)


async def test_beside_an_older_program_all_is_written(cluster: DaprHouse) -> None:
    """It looks into the actor store; what lies in a claim alone when it appears is brought where it looks."""
    await cluster.create()
    await cluster.trigger()
    await cluster.settle()
    count_saves(cluster)
    old = msgspec.structs.replace(OLD, seen_at=cluster.clock.now().steady)
    assert await cluster.node.nodes.enter(old, alive_since=0)
    await cluster.advance(3_000)
    await cluster.trigger()
    await cluster.settle()
    assert count_saves(cluster) == 2
    assert not (await latest(cluster)).is_commit
    await cluster.advance(60_000)
    await cluster.trigger()
    await cluster.settle()
    assert count_saves(cluster) == 2, "an older program that is silent may come back"
    stopped = msgspec.structs.replace(old, state="offline")
    assert await cluster.node.nodes.beat(stopped)
    await cluster.advance(3_000)
    await cluster.trigger()
    await cluster.settle()
    assert count_saves(cluster) == 0
    assert cluster.executions() == dict.fromkeys(range(1, 5), State.SUCCEEDED)


async def test_where_the_database_may_lose_claims_all_is_written(cluster: DaprHouse) -> None:
    """A power loss would take a firing back whose step was sent."""
    cluster.node.shared.is_synced = False
    await cluster.create()
    count_saves(cluster)
    await cluster.trigger()
    await cluster.settle()
    assert count_saves(cluster) == 2


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_claim_of_which_nobody_heard_is_looked_up(cluster: DaprHouse, is_written: bool) -> None:
    """Its answer was lost: what was written goes on, what was not is taken anew; no number is used twice."""
    await cluster.create(timer=MINUTELY)
    shared = cluster.node.shared
    claim = shared.claim

    async def lose(one: TurnClaim) -> None:
        shared.claim = claim  # type: ignore[method-assign]
        if is_written:
            await claim(one)
        raise StoreUncertain("the server is gone")

    shared.claim = lose  # type: ignore[method-assign]
    await cluster.advance(65_000)
    assert cluster.executions() == {1: State.SUCCEEDED}
    assert len(cluster.sender.requests) == 1
    await cluster.advance(60_000)
    assert cluster.executions() == dict.fromkeys((1, 2), State.SUCCEEDED)


async def test_what_another_node_claimed_is_read_anew(cluster: DaprHouse) -> None:
    """The turn over the older state is refused; it is taken again over what the other node wrote."""
    await cluster.create(overlapPolicy="allow")
    shared = cluster.node.shared
    claim = shared.claim

    async def be_overtaken(one: TurnClaim) -> None:
        shared.claim = claim  # type: ignore[method-assign]
        assert one.copy is not None
        other = msgspec.structs.replace(read_actor_document(one.copy), messages=())  # of a message of its own
        copy = write_actor_document(other)
        await claim(msgspec.structs.replace(one, holder=Holder("gone", "0"), copy=copy))
        await claim(one)

    shared.claim = be_overtaken  # type: ignore[method-assign]
    reply = await cluster.trigger()
    assert isinstance(reply, Started)
    assert reply.execute_number == 2
    await cluster.settle()
    assert cluster.executions()[2] is State.SUCCEEDED


async def test_deliveries_that_did_not_come_to_the_database_come_with_the_next_turn(
    cluster: DaprHouse,
) -> None:
    """The state has them until then."""
    await cluster.create(notification=[{"url": HOOK, "stateEquals": ["finalSucceed"], "guarantee": "outbox"}])
    shared = cluster.node.shared
    keep = shared.keep
    refused: list[Delivery] = []
    kept: list[Delivery] = []

    async def refuse(deliveries: Sequence[Delivery], *rest: Any) -> list[Delivery]:
        if deliveries and not refused:
            refused.extend(deliveries)
            raise StoreUnavailable("the server is gone")
        kept.extend(deliveries)
        return await keep(deliveries, *rest)

    shared.keep = refuse  # type: ignore[method-assign]
    await cluster.trigger()
    await cluster.advance(5_000)
    await cluster.trigger()
    await cluster.advance(5_000)
    assert cluster.delivery_states() == {"finalSucceed": "delivered"}
    assert {delivery.execute_number for delivery in refused} == {1}
    assert {delivery.execute_number for delivery in kept} == {1, 2}
