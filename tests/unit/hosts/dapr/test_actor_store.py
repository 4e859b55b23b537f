"""What the actor store keeps of a job."""

import asyncio
import json

import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Started
from scheduler_service.hosts.dapr.cached_state import FRESH_FOR_MS
from scheduler_service.hosts.dapr.turn_commits import LONGEST_TURN_MS
from scheduler_service.persistence.sql_cluster.claim_rows import CLAIM_MS
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command
from tests.conformance.hosts.houses import DaprHouse
from tests.unit.hosts.house import asynchronous

pytestmark = pytest.mark.anyio


async def test_what_a_job_is_lies_in_one_document(cluster: DaprHouse) -> None:
    """One value per job, as the SDK's clients write it: JSON (DAPR, "State")."""
    await cluster.create_by_actor()
    assert isinstance(json.loads(cluster.world.state["job"]), str)
    entry = await cluster.catalogue.get("job")
    assert entry is not None
    assert entry.state is JobState.ACTIVE


def test_what_is_not_compared_is_guarded_by_a_claim() -> None:
    """Another node's claim still holds when the last turn over an older state ends.

    The state may have been read before the turn of another node was written, which claimed a whole turn ago.
    """
    assert LONGEST_TURN_MS + FRESH_FOR_MS + LONGEST_TURN_MS <= CLAIM_MS


@pytest.mark.parametrize("pause", [0, FRESH_FOR_MS - 1, FRESH_FOR_MS + 1])
async def test_a_turn_over_an_older_state_is_taken_anew(cluster: DaprHouse, pause: int) -> None:
    """The job was at another node and came back without a word: it is read again, and goes on from there."""
    await cluster.create()
    one = cluster.world.nodes.pop("one")
    second = await cluster.add("two")
    reply = await second.host("job", Command(Triggered()))
    await cluster.settle()
    cluster.world.nodes = {"one": one}
    cluster.clock.advance(pause)
    again = await cluster.nodes["one"].host("job", Command(Triggered()))
    assert isinstance(reply, Started)
    assert isinstance(again, Started)
    assert (reply.execute_number, again.execute_number) == (1, 2)


async def test_of_two_turns_of_another_node_the_later_one_is_known(cluster: DaprHouse) -> None:
    """A node of a later start has read the first one, and goes on from the second: from its document, too."""
    await cluster.create()
    first = cluster.nodes["one"]
    second = await cluster.add("two")
    both = dict(cluster.world.nodes)
    cluster.world.nodes = {"two": both["two"]}
    assert await second.host.read("job") is not None
    cluster.world.nodes = {"one": both["one"]}
    reply = await first.host("job", Command(Triggered()))
    await cluster.settle()
    cluster.world.nodes = {"two": both["two"]}
    again = await second.host("job", Command(Triggered()))
    await cluster.settle()
    assert isinstance(reply, Started)
    assert isinstance(again, Started)
    assert (reply.execute_number, again.execute_number) == (1, 2)


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_firing_over_an_older_state_is_taken_anew(cluster: DaprHouse, qos: int) -> None:
    """The same for what is compared with its claim alone, whose row nobody has written for a minute."""
    await cluster.create(timer={"dueTime": "60s", "period": "60s"}, qos=qos)
    await cluster.advance(61_000)
    one = cluster.world.nodes.pop("one")
    await cluster.add("two")
    await cluster.advance(60_000)
    assert cluster.world.active == {"job": "two"}
    assert [record.execute_number for record in cluster.finished("job")] == [1, 2]
    cluster.world.nodes = {"one": one}
    await cluster.advance(60_000)
    records = cluster.finished("job")
    assert [record.execute_number for record in records] == [1, 2, 3]
    assert len({record.planned_at for record in records}) == 3


async def test_what_the_store_lost_is_written_by_the_firing(cluster: DaprHouse) -> None:
    """It is not looked at before: the claim says that nobody went on, and the state is written anew."""
    await cluster.create(timer={"dueTime": "60s", "period": "60s"}, qos=1)
    await cluster.advance(61_000)
    cluster.world.state.clear()
    await cluster.advance(60_000)
    assert [record.execute_number for record in cluster.finished("job")] == [1, 2]
    assert "job" in cluster.world.state


async def test_what_is_handed_over_may_be_younger_than_what_is_here(cluster: DaprHouse) -> None:
    """The turn of the node that lets the job go was claimed after the other node had read the job."""
    await cluster.create(**asynchronous(timeoutSeconds=600))
    one = cluster.nodes["one"]
    second = await cluster.add("two")
    both = dict(cluster.world.nodes)
    cluster.world.nodes = {"one": both["one"]}
    shared, gate = one.shared, asyncio.Event()
    claim = shared.claim

    async def wait(claimed: TurnClaim) -> None:
        shared.claim = claim  # type: ignore[method-assign]
        await gate.wait()
        await claim(claimed)

    shared.claim = wait  # type: ignore[method-assign]
    turn = asyncio.create_task(one.host("job", Command(Triggered())))
    await cluster.settle()
    cluster.world.nodes = {"two": both["two"]}
    cluster.world.release_locks()
    reading = asyncio.create_task(second.host.read("job"))
    await cluster.settle()
    leaving = asyncio.create_task(one.host.deactivate("job"))
    await cluster.settle()
    gate.set()
    await asyncio.gather(turn, reading, leaving, return_exceptions=True)
    await cluster.advance(20_000)
    assert second.host.running == 1
    assert State.TERMINATED not in cluster.executions().values()
