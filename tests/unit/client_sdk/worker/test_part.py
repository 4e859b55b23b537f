"""One claimed part: held until its moment, worked at, completed (SPEC section 13)."""

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client_sdk import JobFailed
from client_sdk.errors import Forbidden, NotWanted, Unreachable
from client_sdk.models import Completion, answers
from client_sdk.target import Execution, job
from client_sdk.worker.lease import Lease
from client_sdk.worker.part import do_part
from tests.rows import each_row
from tests.unit.client_sdk.lines import LossyLine, Waits, problem
from tests.unit.client_sdk.queue import Queue
from tests.unit.client_sdk.worker.workers import AT_ONCE, Outage, lease, make, running


def part(**given: Any) -> answers.Work:
    """One part under the lease `one`."""
    said = {"lease": "one", "leaseUntil": "2026-01-01T00:01:00Z", "executionId": "e", "requestCounts": 1}
    return answers.Work.model_validate(said | {"request": {}} | given)


def taken(queue: Queue) -> Lease:
    """That lease, which the queue knows."""
    queue.held["one"] = {}
    return lease(queue, Waits(), steady=lambda: 0.0, renewSeconds=30)


async def test_ends_have_their_codes() -> None:
    """What the function meant; what nobody has a function for; what does not fit."""
    queue, worker = Queue(), make()

    @worker.job(job_id="fail")
    def fail(code: str) -> None:
        raise JobFailed("no", error=code, data={"at": 1})

    async with running(worker, queue):
        for job_id, body in (
            ("fail", {"code": "E1"}),
            ("other", {}),
            ("fail", {"size": 1}),
            ("fail", "text"),
        ):
            await queue.publish(job_id, body)
        await queue.until_completed(4)
    ends = [end for _, end in queue.completed]
    assert [end.error for end in ends] == ["E1", "no_function", "422", "422"]
    assert (ends[0].message, ends[0].data) == ("no", {"at": 1})


@each_row(
    ("body", "headers", "error"),
    [
        ("[" * 100_000, {}, "422"),
        ("9" * 10_000, {}, "422"),
        ({}, {"X-Scheduling-Execute-Number": "\u00b2"}, None),
        ({}, {"X-Scheduling-Execute-Number": "9" * 10_000}, None),
    ],
)
async def test_what_a_definition_or_a_queue_makes_up_ends_no_worker(
    body: object, headers: dict[str, str], error: str | None
) -> None:
    """A body that is text and nested too deep, a number that is none: the part has an end."""
    queue, worker = Queue(), make()

    @worker.job(job_id="one")
    def one() -> None: ...

    request = {"method": "POST", "url": "queue://work", "headers": {"X-Scheduling-Job-Id": "one", **headers}}
    async with running(worker, queue):
        await queue.publish("one", request={**request, "body": body})
        await queue.until_completed(1)
    assert [end.error for _, end in queue.completed] == [error]


async def test_work_knows_until_when_it_is_awaited() -> None:
    """As a call does; a queue of an earlier version does not say it."""
    queue, worker = Queue(), make()

    @worker.job(job_id="look")
    def look(execution: Execution) -> list[Any]:
        return [execution.deadline, execution.is_wanted]

    async with running(worker, queue):
        headers = {"X-Scheduling-Job-Id": "look", "X-Scheduling-Deadline": "2030-01-01T00:00:00.000Z"}
        await queue.publish("look", request={"headers": headers})
        await queue.until_completed(1)
        await queue.publish("look")
        await queue.until_completed(2)
    assert [end.data for _, end in queue.completed] == [["2030-01-01T00:00:00Z", True], [None, True]]


async def test_what_nobody_meant_is_tried_again_here() -> None:
    """Under the same lease; when it is enough the part has failed (004: retries happen locally)."""
    queue, worker, times = Queue(), make(), []

    @worker.job(job_id="shaky")
    async def shaky(good_after: int) -> int:
        times.append(good_after)
        if len(times) <= good_after:
            raise RuntimeError(f"try {len(times)}")
        return len(times)

    async with running(worker, queue):
        await queue.publish("shaky", {"good_after": 2})
        await queue.until_completed(1)
        times.clear()
        await queue.publish("shaky", {"good_after": 9})
        await queue.until_completed(2)
    good, bad = (end for _, end in queue.completed)
    assert (good.status, good.data) == ("succeed", 3)
    assert (bad.error, len(times)) == ("500", 3)
    assert bad.message == "RuntimeError: try 3 (tried 3 times)"


@each_row(
    ("given", "tries", "waited"),
    [({"maxUnexpectedRetries": 2, "unexpectedRetryDelaySeconds": 7}, 3, [7, 7]),
     ({"maxUnexpectedRetries": 0, "unexpectedRetryDelaySeconds": 7}, 1, []),
     ({}, 4, [10, 10, 10])],
)  # fmt: skip
async def test_the_part_says_how_often_it_is_tried(given: Any, tries: int, waited: list[float]) -> None:
    """A queue of an earlier version does not say it: then three retries, 10 s apart."""
    queue, waits, times = Queue(), Waits(), []

    @job(job_id="broken")
    def broken() -> None:
        times.append(1)
        raise RuntimeError("no")

    await do_part(part(**given), find=lambda _: broken, lease=taken(queue), retry=None, pause=waits)
    assert (len(times), waits.seconds) == (tries, waited)


async def leave_in_a_task() -> None:
    await asyncio.create_task(leave_in_a_coroutine())


async def leave_in_a_coroutine() -> None:
    sys.exit("no stock")


def leave() -> None:
    raise SystemExit("no stock")


def interrupt() -> None:
    raise KeyboardInterrupt("no stock")


@each_row("function", [leave, leave_in_a_coroutine, leave_in_a_task, interrupt])
async def test_a_function_that_wants_to_end_the_process_is_not_tried_again(function: Any) -> None:
    """Its part fails at once, with what it said; three retries, 10 s apart, are for unexpected exceptions."""
    queue, waits = Queue(), Waits()
    declared = job(job_id="leaving")(function)
    await do_part(part(), find=lambda _: declared, lease=taken(queue), retry=None, pause=waits)
    [(_, end)] = queue.completed
    assert (end.status, end.error, waits.seconds) == ("failed", "500", [])
    assert "no stock" in (end.message or "")


async def test_work_that_ran_over_its_time_is_logged_so(caplog: pytest.LogCaptureFixture) -> None:
    """With its job and the last error of its function; the queue says "cancelled" of that too."""
    caplog.set_level("INFO", "client_sdk")
    queue = Queue()

    @job(job_id="slow")
    async def slow() -> None:
        raise RuntimeError("oops")

    async def paused(_: float) -> None:
        failed.set()
        await asyncio.Event().wait()

    async def renewed(_: float) -> None:
        await failed.wait()

    deadline, failed = datetime(2026, 1, 1, tzinfo=UTC), asyncio.Event()
    headers = {"X-Scheduling-Job-Id": "slow", "X-Scheduling-Deadline": deadline.isoformat()}
    queue.held["one"] = {}
    queue.cancelled.add("one")
    for late, why in ((1, "it ran over timeoutSeconds"), (-1, "the execution was cancelled")):
        held = lease(queue, renewed, steady=lambda: 0.0)  # type: ignore[arg-type]
        moment = deadline + timedelta(seconds=late)
        await do_part(
            part(request={"headers": headers}),
            find=lambda _: slow,
            lease=held,
            retry=AT_ONCE,
            clock=moment.timestamp,
            pause=paused,
        )
        said = f"job slow stops, execution e: {why}; its last error: RuntimeError: oops"
        assert caplog.records[-1].getMessage() == said


async def test_work_outlives_an_outage_that_is_longer_than_its_lease() -> None:
    """The scheduler gives leases their whole length again after a start: the work goes on under it."""
    queue = Queue(lease_seconds=60, renew_seconds=20)
    waits = Outage(queue, 200)
    held = lease(queue, waits, steady=waits.passed, outage=300, leaseSeconds=60, renewSeconds=20)
    queue.held["one"] = {}
    with pytest.raises(NotWanted, match="the execution was cancelled"):
        await held.keep()
    assert waits.passed() > 260
    assert len(queue.renewals) > 3


@each_row("outage", [200, 340])
async def test_finished_work_is_told_after_an_outage(outage: float) -> None:
    """As long as nobody has said that the lease is lost."""
    queue = Queue()
    waits = Outage(queue, outage)
    held = lease(queue, waits, steady=waits.passed, outage=300, leaseSeconds=60, renewSeconds=20)
    queue.held["one"] = {}
    await held.complete(Completion(status="succeed", data=1))
    assert [(name, end.data) for name, end in queue.completed] == [("one", 1)]


async def test_finished_work_is_not_told_for_ever() -> None:
    """A scheduler that stays away, one that refuses, and one that says that the lease is lost."""
    queue = Queue()
    waits = Outage(queue, 1_000_000)
    held = lease(queue, waits, steady=waits.passed, outage=300, leaseSeconds=60)
    with pytest.raises(Unreachable):
        await held.complete(Completion(status="succeed"))
    assert 360 <= waits.passed() < 500
    waits = Outage(queue, 200)
    held = lease(queue, waits, steady=waits.passed, outage=300, leaseSeconds=60)
    with pytest.raises(NotWanted, match="lost"):
        await held.complete(Completion(status="succeed"))
    refusing = LossyLine(queue.transport, [problem(403)])
    held = lease(queue, waits, steady=waits.passed, outage=300, line=refusing, leaseSeconds=60)
    with pytest.raises(Forbidden):
        await held.complete(Completion(status="succeed"))


async def test_early_work_waits_for_its_moment() -> None:
    """The lease is renewed meanwhile."""
    queue, worker = Queue(renew_seconds=0.005), make()

    @worker.otherwise
    async def anything(execution: Execution) -> float:
        assert execution.scheduled_at is not None
        return datetime.now(UTC).timestamp() - execution.scheduled_at.timestamp()

    async with running(worker, queue):
        moment = datetime.now(UTC) + timedelta(seconds=0.2)
        await queue.publish("any", scheduledAt=moment.isoformat())
        await queue.until_completed(1)
    assert queue.completed[0][1].data >= -0.002
    assert queue.renewals
