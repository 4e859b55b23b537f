"""The worker of a pull queue (SPEC sections 13, 16)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client_sdk import Client, JobFailed
from client_sdk.client import Patience
from client_sdk.client.connection import Connection
from client_sdk.client.queues import Queues
from client_sdk.errors import DeclarationError, Forbidden, NotWanted, Unauthorized, Unreachable
from client_sdk.models import Completion, answers
from client_sdk.target import Execution, job
from client_sdk.worker import Worker
from client_sdk.worker.lease import Lease
from client_sdk.worker.part import LocalRetry, do_part
from tests.unit.client_sdk.lines import LossyLine, Waits, problem
from tests.unit.client_sdk.queue import Queue

pytestmark = pytest.mark.anyio
AT_ONCE = LocalRetry(retries=2, delay_seconds=0)


def make(**options: Any) -> Worker:
    """A worker of the queue `work`."""
    given = {"instance_id": "one", "wait_seconds": 5, "local_retry": AT_ONCE, "heartbeat_seconds": 1_000}
    return Worker("work", **(given | options))


@asynccontextmanager
async def running(worker: Worker, queue: Queue) -> AsyncIterator[None]:
    """The worker at work; it is stopped in good order in the end."""
    patience = Patience(retries=0)
    async with Client("http://scheduler.test", transport=queue.transport, patience=patience) as client:
        task = asyncio.create_task(worker.run(client))
        try:
            yield
        finally:
            worker.stop()
            async with asyncio.timeout(20):
                await task


async def test_work_is_claimed_done_and_completed() -> None:
    """By the function of its job, with the step's body as its parameters."""
    queue, worker = Queue(), make()

    @worker.job(job_id="add")
    async def add(left: int, right: int, execution: Execution) -> dict[str, Any]:
        return {"sum": left + right, "key": execution.idempotency_key, "number": execution.execute_number}

    async with running(worker, queue):
        await queue.publish("add", {"left": 1, "right": 2})
        await queue.until_completed(1)
    [(lease, end)] = queue.completed
    assert (lease, end.status) == ("lease-1", "succeed")
    assert end.data == {"sum": 3, "key": "life-1-0", "number": 1}
    assert queue.claims[0].instance_id == "one"


async def test_jobs_of_a_worker_are_registered() -> None:
    """As declared timers of an instance without an address; their step goes to the queue."""
    queue = Queue()

    @job(job_id="nightly", queue="work", timer={"period": "@daily"})
    def nightly() -> None: ...

    worker = make(service="files", jobs=[nightly], concurrency=3)
    async with running(worker, queue):
        await queue.until(lambda: queue.instances)
        said = queue.instances["one"]
        assert (said.address, said.capacity) == (None, 3)
        assert said.timers == worker.definitions()
        assert worker.definitions()[0]["request"][0]["url"] == "queue://work"
    assert queue.told[-1] == "deregistered"
    with pytest.raises(DeclarationError, match="goes to queue None"):
        worker.add(job(job_id="other")(lambda: None))


async def test_no_more_at_once_than_concurrency() -> None:
    """And as many as that; a claim asks for what there is room for."""
    queue, worker = Queue(), make(concurrency=3)
    go, here = asyncio.Event(), asyncio.Semaphore(0)

    @worker.otherwise
    async def anything(**params: Any) -> Any:
        here.release()
        await go.wait()
        return params

    for number in range(7):
        await queue.publish("any", {"number": number})
    async with running(worker, queue):
        for _ in range(3):
            await here.acquire()
        assert (queue.most_held, len(queue.waiting)) == (3, 4)
        go.set()
        await queue.until_completed(7)
    assert queue.most_held == 3
    assert sorted(end.data["number"] for _, end in queue.completed) == list(range(7))
    assert not queue.instances


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


async def test_data_of_a_failure_that_is_no_json_is_told() -> None:
    """The part fails with `500` at once; its lease is not left to end."""
    queue, worker = Queue(), make(local_retry=LocalRetry(retries=0))

    @worker.job(job_id="fail")
    def fail() -> None:
        raise JobFailed("no", error="E1", data=object())

    async with running(worker, queue):
        await queue.publish("fail")
        await queue.until_completed(1)
    [(_, end)] = queue.completed
    assert (end.status, end.error) == ("failed", "500")
    assert "PydanticSerializationError" in (end.message or "")


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
    assert (bad.error, bad.message, len(times)) == ("500", "RuntimeError: try 3", 3)


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


async def test_work_stops_when_its_lease_is_lost() -> None:
    """Another one has it: nothing is completed."""
    queue, worker = Queue(renew_seconds=0.005), make()
    begun, stopped = asyncio.Event(), asyncio.Event()

    @worker.job(job_id="slow")
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with running(worker, queue):
        await queue.publish("slow")
        await begun.wait()
        queue.lose()
        await stopped.wait()
    assert queue.completed == []
    assert "refused" not in queue.told


async def test_work_stops_when_it_is_cancelled() -> None:
    """A renewal says so."""
    queue, worker = Queue(renew_seconds=0.005), make()
    begun, stopped = asyncio.Event(), asyncio.Event()

    @worker.job(job_id="slow")
    async def slow() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with running(worker, queue):
        await queue.publish("slow")
        await begun.wait()
        queue.cancelled.add("lease-1")
        await stopped.wait()
    assert queue.completed == []


async def test_a_completion_after_the_lease_does_not_count() -> None:
    """The queue refuses it, and the worker goes on with other work."""
    queue, worker, begun, go = Queue(), make(), asyncio.Event(), asyncio.Event()

    @worker.job(job_id="slow")
    async def slow() -> None:
        begun.set()
        await go.wait()

    async with running(worker, queue):
        await queue.publish("slow")
        await begun.wait()
        queue.lose()
        go.set()
        await queue.publish("slow")
        await queue.until_completed(1)
    assert "refused" in queue.told
    assert [lease for lease, _ in queue.completed] == ["lease-2"]


async def test_a_worker_stops_gracefully() -> None:
    """It claims nothing more and brings what runs to its end; what takes too long is left to its lease."""
    queue, worker, begun, go = Queue(), make(concurrency=2), asyncio.Event(), asyncio.Event()

    @worker.job(job_id="slow")
    async def slow() -> str:
        begun.set()
        await go.wait()
        return "done"

    async with running(worker, queue):
        await queue.publish("slow")
        await begun.wait()
        worker.stop()
        await queue.until(lambda: "draining" in queue.told)
        await queue.publish("slow")
        go.set()
    assert [end.data for _, end in queue.completed] == ["done"]
    assert len(queue.waiting) == 1
    hasty = make(grace_seconds=0)

    @hasty.otherwise
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    begun.clear()
    async with running(hasty, queue):
        await begun.wait()
    assert len(queue.completed) == 1
    assert list(queue.held) == ["lease-2"]


async def test_a_scheduler_that_is_away_is_asked_again() -> None:
    """The worker waits for it, however long that takes."""
    queue, worker = Queue(), make()
    queue.is_down = True

    @worker.otherwise
    async def anything() -> None: ...

    async with running(worker, queue):
        for _ in range(5):
            await asyncio.sleep(0)
        queue.is_down = False
        await queue.publish("any")
        await queue.until_completed(1)


async def test_a_worker_without_the_right_key_ends() -> None:
    """Asking again would not help; it says so and leaves."""
    queue, worker = Queue(), make()
    queue.key = "right"

    @worker.job(job_id="one")
    def one() -> None: ...

    async with Client("http://scheduler.test", transport=queue.transport, key="wrong") as client:
        with pytest.raises(Unauthorized, match="not known"):
            await worker.run(client)
    assert queue.told[-1] == "deregistered"


def lease(
    queue: Queue, waits: Waits, *, steady: Any, outage: float = 0, line: Any = None, **work: Any
) -> Lease:
    connection = Connection(
        url="http://scheduler.test", key=None, timeout=30, patience=Patience(retries=0),
        transport=line or queue.transport, pause=waits, chance=lambda: 0.0,
    )  # fmt: skip
    given = {"lease": "one", "executionId": "e", "requestCounts": 1, "request": {}}
    given["leaseUntil"] = datetime(2026, 1, 1, 0, 1, tzinfo=UTC).isoformat()
    wall = datetime(2026, 1, 1, tzinfo=UTC).timestamp
    read = answers.Work.model_validate(given | work)
    return Lease(queues=Queues(connection), work=read, outage=outage, wall=wall, steady=steady, pause=waits)


class Outage(Waits):
    """The queue is away for so many seconds of waiting; a minute later it wants no work any more."""

    def __init__(self, queue: Queue, seconds: float) -> None:
        super().__init__()
        self._queue, self._end = queue, seconds
        queue.is_down = True

    async def __call__(self, seconds: float) -> None:
        """Comes back when that has passed."""
        await super().__call__(seconds)
        self._queue.is_down = self.passed() < self._end
        if self.passed() > self._end + 60:
            self._queue.cancelled.add("one")

    def passed(self) -> float:
        """Seconds waited so far."""
        return sum(self.seconds)


@pytest.mark.parametrize(("outage", "least", "most"), [(0, 60, 62), (300, 360, 362)])
async def test_a_lease_that_cannot_be_renewed_ends(outage: float, least: float, most: float) -> None:
    """Whoever holds it stops so long after its end at the latest, though nobody could say so."""
    queue = Queue()
    waits = Outage(queue, 1_000_000)
    held = lease(queue, waits, steady=waits.passed, outage=outage, leaseSeconds=60, renewSeconds=20)
    with pytest.raises(NotWanted, match="before it could be renewed"):
        await held.keep()
    assert waits.seconds[:3] == [20, 20, 10]
    assert least <= waits.passed() <= most


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


@pytest.mark.parametrize("outage", [200, 340])
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


@pytest.mark.parametrize(
    ("said", "first"),
    [
        ({}, 20.0),
        ({"renewSeconds": 45}, 30.0),
        ({"leaseUntil": "2020-01-01T00:00:00Z"}, 10 / 3),
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


@pytest.mark.parametrize(("early", "held"), [(2.5, [2.5]), (-1, []), (1e9, [3600.0])])
async def test_early_work_is_held_an_hour_at_most(early: float, held: list[float]) -> None:
    """A clock that is wrong must not keep a part for ever."""
    queue, lasting, waits = Queue(), Waits(), Waits()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    moment = (now + timedelta(seconds=early)).isoformat()
    kept = lease(queue, lasting, steady=lambda: 0.0, renewSeconds=30)
    queue.held["one"] = {}
    anything = job(job_id="any")(lambda: None)
    given = {"lease": "one", "leaseUntil": moment, "executionId": "e", "requestCounts": 1, "request": {}}
    work = answers.Work.model_validate(given | {"scheduledAt": moment})
    doing = do_part(
        work, find=lambda _: anything, lease=kept, retry=AT_ONCE, clock=now.timestamp, pause=waits
    )
    await doing
    assert waits.seconds == held
    assert [name for name, _ in queue.completed] == ["one"]


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
