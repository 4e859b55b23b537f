"""What is read before an answer (SPEC section 10), and what one execution of a cluster writes, counted."""

import asyncio
from collections import Counter

import pytest

from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import ExecutionRecord
from scheduler_service.domain.replies import Started, Taken
from scheduler_service.domain.turn_events import CancelRequested, Created, FeedbackArrived, Triggered
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse, DaprNode, moved
from tests.unit.hosts.house import MemoryHistory, asynchronous, describe

pytestmark = pytest.mark.anyio
KEY = b"k" * 32


async def away(cluster: DaprHouse) -> tuple[str, DaprNode]:
    """A job of a second node, created and triggered by way of the first one."""
    job_id = moved(cluster)
    other = await cluster.add("two")
    await cluster.create(job_id, timer={"dueTime": "10s", "period": "10s"})
    return job_id, other


def shown(history: MemoryHistory) -> list[State]:
    """The states of executions in what the history has written, in order."""
    records = [record for batch, _ in history.batches[: history.flushed] for record in batch.records]
    return [record.state for record in records if isinstance(record, ExecutionRecord)]


async def test_a_command_is_answered_when_the_history_has_it(cluster: DaprHouse) -> None:
    """The node that takes the turn alone has its records: nobody else could ask for them."""
    job_id, other = await away(cluster)
    later = cluster.clock.now().wall + 5_000
    started = await cluster.host(job_id, Command(Triggered(planned_at=later)))
    assert isinstance(started, Started)
    assert shown(other.history) == [State.SCHEDULED]
    await cluster.host(job_id, Command(CancelRequested(started.execute_number)))
    assert shown(other.history) == [State.SCHEDULED, State.CANCELLED]
    assert cluster.history_of_now().batches == []


async def test_a_firing_waits_for_no_history(cluster: DaprHouse) -> None:
    """Nobody is answered: its records are written when the writer has a load."""
    _, other = await away(cluster)
    before = other.history.flushed
    await cluster.advance(10_000)
    assert len(other.history.batches) > before
    assert other.history.flushed == before


async def test_a_history_that_fails_holds_up_no_answer(cluster: DaprHouse) -> None:
    """The turn is durable, so it is answered; the log says that reads may be behind."""

    job_id, other = await away(cluster)
    other.history.fault = StoreUnavailable("the disk is full")
    assert isinstance(await cluster.host(job_id, Command(Triggered())), Started)
    assert ("history_not_awaited", {"jobId": job_id, "error": "the disk is full"}) in cluster.log
    other.history.fault = None


async def test_commands_wait_once_for_a_history_that_hangs(cluster: DaprHouse) -> None:
    """Four triggers of one job are a second in the actor's turn, not four; alarms and cancels come by."""
    job_id, other = await away(cluster)
    other.history.gate = asyncio.Event()
    triggers = [asyncio.create_task(cluster.host(job_id, Command(Triggered()))) for _ in range(4)]
    await cluster.settle()
    assert [one.done() for one in triggers] == [False] * 4
    await cluster.advance(1_000)
    assert [one.done() for one in triggers] == [True] * 4
    assert [event for event, _ in cluster.log].count("history_not_awaited") == 1
    other.history.gate.set()
    await cluster.settle()
    before = len(other.history.batches)
    await cluster.host(job_id, Command(Triggered()))
    assert other.history.flushed > before


async def test_feedback_waits_for_no_history(cluster: DaprHouse) -> None:
    """The reports of many parts are one queue at their job's actor, in front of its alarms."""
    await cluster.create(**asynchronous(timeoutSeconds=600))
    await cluster.trigger()
    await cluster.settle()
    gate = cluster.history_of_now().gate = asyncio.Event()
    event = FeedbackArrived(1, feedback_token(KEY, "uid1", 1), {"status": "succeed"})
    report = asyncio.create_task(cluster.deliver(event))
    await cluster.settle()
    assert report.done()
    assert await report == Taken()
    gate.set()


FIRINGS = 6
TICK = 500
# A reminder is at most 30 s ahead: for what fires each second it is one in 30, else one for each firing.
MOST_REMINDERS = {1: 0.5, 60: 1.5}


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("period", [1, 60])
async def test_an_execution_writes_two_claims(period: int, qos: int) -> None:
    """At the firing and at the end; nothing in the outbox, few reminders, no firing reads (decision 47).

    At qos 1 its context is put before the first, and removed after the second, with others.
    """
    house = await DaprHouse().start()
    try:
        timer = {"period": f"PT{period}S", "dueTime": "1s"}
        definition = describe(jobId="job", qos=qos, timer=timer, request=[{"url": "http://target.test/"}])
        await house.host("job", Command(Created("", b""), definition))
        await pass_time(house, 1)
        first = len(house.executions("job"))
        assert first == 1
        house.points.seen.clear()
        house.world.reads = 0
        await pass_time(house, FIRINGS * period)
        assert len(house.executions("job")) == first + FIRINGS
        assert house.world.reads <= 1  # the guard of the first firing rings in vain
        assert FIRINGS * qos <= house.points.seen["before save"] <= 2 * FIRINGS * qos
        assert_bounds(house.points.seen, MOST_REMINDERS[period])
    finally:
        await house.close()


def assert_bounds(seen: Counter[str], reminders: float) -> None:
    """For each execution."""
    assert seen["before send"] == FIRINGS
    assert seen["before claim"] == 2 * FIRINGS
    assert seen["before outbox"] == seen["before settlement"] == 0
    assert seen["before reminder"] <= reminders * FIRINGS


async def pass_time(house: DaprHouse, seconds: int) -> None:
    """In steps as small as those of the crash points."""
    for _ in range(seconds * 1_000 // TICK):
        await house.advance(TICK)
