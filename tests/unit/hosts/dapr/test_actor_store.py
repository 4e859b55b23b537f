"""What the actor store keeps of a job."""

import json

import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Started
from scheduler_service.hosts.dapr.actor_store import (
    FRESH_FOR_MS,
    LONGEST_TURN_MS,
)
from scheduler_service.persistence.sql_cluster.claim_rows import CLAIM_MS
from scheduler_service.ports.delivery import Command
from tests.conformance.hosts.houses import DaprHouse

pytestmark = pytest.mark.anyio


async def test_what_a_job_is_lies_in_one_document(cluster: DaprHouse) -> None:
    """One value per job, as the SDK's clients write it: JSON (DAPR, "State")."""
    await cluster.create()
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
