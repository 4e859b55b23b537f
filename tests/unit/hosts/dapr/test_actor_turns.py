"""Turns on a job that two nodes may take."""

import asyncio
from typing import Any

import pytest

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.replies import Started
from scheduler_service.domain.turn_events import Destroyed, Triggered
from scheduler_service.ports.cluster import TurnClaim
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from tests.conformance.hosts.houses import DaprHouse, freeze, lose_next_claim

pytestmark = pytest.mark.anyio

URL, HOOK = "http://target.test/run", "http://caller.test/told"
MINUTELY = {"dueTime": "60s", "period": "60s"}
TOLD = {"url": HOOK, "stateEquals": ["finalSucceed"], "guarantee": "outbox"}


async def test_a_turn_that_was_overtaken_is_taken_anew(cluster: DaprHouse) -> None:
    """Its actor went and came back: what it had read is old, it reads again, and no number is used twice."""
    await cluster.create()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    cluster.world.kill("one")
    second = await cluster.add("two")
    await cluster.advance(1_000)
    reply = await second.host("job", Command(Triggered()))
    await cluster.settle()
    cluster.world.active["job"] = "one"
    gate.set_result(None)
    again = await frozen
    assert isinstance(reply, Started)
    assert isinstance(again, Started)
    assert (reply.execute_number, again.execute_number) == (1, 2)


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_claim_of_which_nobody_heard_is_looked_up(cluster: DaprHouse, is_written: bool) -> None:
    """Its answer was lost: what was written goes on, what was not is taken anew; no number is used twice."""
    await cluster.create(timer=MINUTELY, notification=[TOLD])
    lose_next_claim(cluster, is_written=is_written)
    await cluster.advance(65_000)
    assert cluster.executions() == {1: State.SUCCEEDED}
    assert cluster.sender.urls().count(URL) == 1
    await cluster.advance(60_000)
    assert cluster.executions() == dict.fromkeys((1, 2), State.SUCCEEDED)
    assert cluster.sender.urls().count(HOOK) == 2


@pytest.mark.parametrize("is_away", [False, True], ids=["at once", "after an error"])
async def test_deliveries_of_a_lost_claim_are_sent_though_another_node_went_on(
    cluster: DaprHouse, is_away: bool
) -> None:
    """They are this node's in the outbox, and nobody else adopts them while it lives."""
    shared, unsent = cluster.node.shared, cluster.node.shared.unsent

    async def refuse(*given: Any) -> list[Delivery]:
        shared.unsent = unsent  # type: ignore[method-assign]
        raise StoreUnavailable("the server is gone")

    if is_away:
        shared.unsent = refuse  # type: ignore[method-assign]
    cluster.sender.hold(URL)
    await cluster.create(notification=[TOLD])
    await cluster.trigger()
    await cluster.settle()
    lose_next_claim(cluster, is_written=True, others_go_on=True)
    cluster.sender.release(URL)
    await cluster.advance(10_000)
    assert cluster.sender.urls() == [URL, HOOK]
    assert await cluster.node.shared.deliveries("", 10) == []


async def test_a_claim_that_lands_late_brings_what_belongs_to_it(cluster: DaprHouse) -> None:
    """Whoever looked did not find it, and took the turn anew; its notification is sent once all the same."""
    cluster.sender.hold(URL)
    await cluster.create(notification=[TOLD])
    await cluster.trigger()
    await cluster.settle()
    shared, claim, late = cluster.node.shared, cluster.node.shared.claim, list[TurnClaim]()

    async def lose(one: TurnClaim) -> None:
        if not late:
            late.append(one)
            raise StoreUncertain("the server is gone")
        shared.claim = claim  # type: ignore[method-assign]
        await claim(late[0])  # the server had it all the time
        await claim(one)

    shared.claim = lose  # type: ignore[method-assign]
    cluster.sender.release(URL)
    await cluster.advance(15_000)
    assert cluster.sender.urls() == [URL, HOOK]
    assert cluster.executions() == {1: State.SUCCEEDED}
    assert await shared.deliveries("", 10) == []


@pytest.mark.parametrize("qos", [0, 1])
async def test_a_state_has_all_records_that_the_history_has_not(cluster: DaprHouse, qos: int) -> None:
    """Of earlier turns as well: the next node takes them over from the row."""
    cluster.history_of_now().fault = StoreUnavailable("the disk is full")
    await cluster.create(timer=MINUTELY, qos=qos)
    await cluster.advance(181_000)
    cluster.history_of_now().batches.clear()
    await cluster.add("two")
    await cluster.crash("one")
    await cluster.advance(60_000)
    assert {record.execute_number for record in cluster.finished("job")} >= {1, 2, 3}


async def test_a_destroyed_job_whose_row_is_removed_begins_anew(cluster: DaprHouse) -> None:
    """Nothing of it comes back (SPEC section 10)."""
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
