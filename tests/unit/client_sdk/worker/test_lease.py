"""One lease: renewed while its work goes on, and watched for its loss (SPEC section 13)."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from client_sdk.errors import NotWanted
from client_sdk.target import Execution
from tests.rows import each_row
from tests.unit.client_sdk.lines import LossyLine, Waits, problem
from tests.unit.client_sdk.queue import Queue
from tests.unit.client_sdk.target.called_service import Held
from tests.unit.client_sdk.worker.workers import Outage, lease, make, running


async def test_a_lease_is_renewed_while_work_goes_on() -> None:
    """With the progress, as often as the queue asks for."""
    queue, worker, go = Queue(lease_seconds=60, renew_seconds=0.005), make(), asyncio.Event()

    @worker.job(job_id="slow")
    async def slow(execution: Execution) -> None:
        async with execution.progress(4, message="copying") as progress:
            await progress.advance(2)
            await go.wait()

    async with running(worker, queue):
        await queue.publish("slow")
        await queue.until(lambda: len(queue.renewals) >= 5)
        go.set()
        await queue.until_completed(1)
    assert {one.progress for one in queue.renewals[:5]} >= {"0/4"}
    assert queue.renewals[0].message == "copying"


@each_row("end", [Queue.lose, lambda queue: queue.cancelled.add("lease-1")])
async def test_work_stops_when_its_lease_is_lost_or_cancelled(end: Callable[[Queue], None]) -> None:
    """A renewal says so: nothing is completed."""
    queue, worker, slow = Queue(renew_seconds=0.005), make(), Held()
    worker.job(job_id="slow")(slow.run)
    async with running(worker, queue):
        await queue.publish("slow")
        await slow.begun.wait()
        end(queue)
        await slow.ended.wait()
    assert queue.completed == []
    assert "refused" not in queue.told


async def test_at_its_deadline_the_queue_is_asked() -> None:
    """The answer says that the work is not awaited any more, or, after a downtime, that it still is."""
    queue, waits = Queue(renew_seconds=30), Waits()
    deadline = datetime(2026, 1, 1, 0, 0, 50, tzinfo=UTC)
    held = lease(
        queue, waits, steady=lambda: sum(waits.seconds), deadline=deadline, leaseSeconds=60, renewSeconds=30
    )
    queue.held["one"] = {}
    keeping = asyncio.create_task(held.keep())
    await queue.until(lambda: len(queue.renewals) >= 4)
    keeping.cancel()
    assert waits.seconds[:4] == [30, 20.25, 30, 30]


@pytest.mark.parametrize(("outage", "least", "most"), [(0, 60, 62), (300, 360, 362)])
async def test_a_lease_that_cannot_be_renewed_ends(
    outage: float, least: float, most: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever holds it stops so long after its end at the latest, though nobody could say so."""
    queue = Queue()
    waits = Outage(queue, 1_000_000)
    held = lease(queue, waits, steady=waits.passed, outage=outage, leaseSeconds=60, renewSeconds=20)
    with pytest.raises(NotWanted, match="before it could be renewed"):
        await held.keep()
    assert waits.seconds[:3] == [20, 20, 10]
    assert least <= waits.passed() <= most
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) <= 1 + most / 60
    assert lines[0].startswith("the lease of e could not be renewed yet: no service answers")


async def test_a_scheduler_that_refuses_a_renewal_is_not_away() -> None:
    """It answers, so the lease ends when it ends: no outage is waited for."""
    queue, waits = Queue(), Waits()
    refusals = LossyLine(queue.transport, [problem(401)] * 1_000)
    held = lease(
        queue, waits, steady=lambda: sum(waits.seconds), outage=300, line=refusals, leaseSeconds=60,
        renewSeconds=20,
    )  # fmt: skip
    with pytest.raises(NotWanted, match="before it could be renewed"):
        await held.keep()
    assert 60 <= sum(waits.seconds) <= 62


@each_row(
    ("said", "first"),
    [
        ({}, 30.0),
        ({"renewSeconds": 45}, 30.0),
        ({"renewSeconds": -5}, 30.0),
        ({"renewSeconds": 1e-9}, 0.005),
        ({"renewSeconds": 1e300, "leaseSeconds": 1e300}, 5e299),
        ({"leaseUntil": "2020-01-01T00:00:00Z"}, 5.0),
        ({"leaseUntil": "2020-01-01T00:00:00Z", "leaseSeconds": 6, "renewSeconds": 2}, 2.0),
    ],
)
async def test_when_a_lease_is_renewed(said: dict[str, Any], first: float) -> None:
    """As asked for, in time in any case, and whatever the clocks of the two say."""
    queue, waits = Queue(), Waits()
    held = lease(queue, waits, steady=lambda: 0.0, **said)
    with pytest.raises(NotWanted, match="lease is lost"):
        await held.keep()
    assert waits.seconds == [pytest.approx(first)]
