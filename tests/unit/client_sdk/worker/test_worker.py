"""The worker of a pull queue (SPEC sections 13, 16)."""

import asyncio
import threading
from typing import Any

import pytest

from client_sdk import Client, Worker
from client_sdk.errors import DeclarationError, Unauthorized
from client_sdk.target import Execution, job
from tests.rows import each_row
from tests.unit.client_sdk.queue import Queue
from tests.unit.client_sdk.target.called_service import Held
from tests.unit.client_sdk.worker.workers import make, running


async def test_no_more_is_begun_than_was_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever an answer holds beyond that is left to the end of its lease."""
    queue, worker = Queue(), make(concurrency=2)
    queue.is_generous = True
    gate, are_two, begun = asyncio.Event(), asyncio.Event(), 0

    @worker.job(job_id="slow")
    async def slow() -> None:
        nonlocal begun
        begun += 1
        if begun == 2:
            are_two.set()
        await gate.wait()

    for _ in range(10):
        await queue.publish("slow")
    async with running(worker, queue):
        await are_two.wait()
        gate.set()
        await queue.until_completed(2)
    assert begun == 2
    # Its end could be reported to no address, or is wanted by nobody any more; the others are done
    queue, worker = Queue(), make()
    begun: list[int] = []

    @worker.job(job_id="add")
    async def add(number: int) -> None:
        begun.append(number)

    await queue.publish("add", {"number": 1}, lease="../jobs")
    await queue.publish("add", {"number": 3}, cancelled=True)
    await queue.publish("add", {"number": 2})
    async with running(worker, queue):
        await queue.until_completed(1)
    assert begun == [2]
    assert "lease '../jobs' is no id of a lease" in caplog.text


@each_row(
    ("arguments", "said"),
    [
        ({"queue": "a b"}, "queue 'a b' is no name of a queue; use 1 to 128 of letters, digits"),
        ({"queue": None}, "queue None is no name of a queue"),
        ({"queue": "queue://work"}, "queue 'queue://work' is no name of a queue"),
        ({"queue": "work", "service": "a b"}, "service 'a b' is no name of a service"),
    ],
)
def test_a_name_that_is_none_is_refused_at_once(arguments: dict[str, Any], said: str) -> None:
    """Not by the first claim."""
    with pytest.raises(ValueError, match="is no name of a") as caught:
        Worker(**arguments)
    assert str(caught.value).startswith(said)


async def test_a_class_does_the_work_of_a_queue() -> None:
    """Each part has an object of its own, with what the application injects."""
    made: list[object] = []

    def provide(declared: type[Any]) -> Any:
        made.append(declared)
        return declared(2)

    queue, worker = Queue(), make(provide=provide)

    class Scale:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        async def run(self, size: int) -> int:
            return size * self.factor

    worker.job(job_id="scale")(Scale)
    async with running(worker, queue):
        for size in (1, 2):
            await queue.publish("scale", {"size": size})
        await queue.until_completed(2)
    assert sorted(end.data for _, end in queue.completed) == [2, 4]
    assert made == [Scale, Scale]
    with pytest.raises(DeclarationError, match="its constructor takes factor"):
        make().job(job_id="scale")(Scale)


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


async def test_a_completion_after_the_lease_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    """The queue refuses it: the worker logs that with the reason, and goes on with other work."""
    queue, worker, slow = Queue(), make(), Held()
    worker.job(job_id="slow")(slow.run)
    async with running(worker, queue):
        await queue.publish("slow")
        await slow.begun.wait()
        queue.lose()
        slow.go.set()
        await queue.publish("slow")
        await queue.until_completed(1)
    assert "refused" in queue.told
    assert [lease for lease, _ in queue.completed] == ["lease-2"]
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [one for one in said if "had no effect" in one] == ["the end of life-1 had no effect: lease_lost"]


async def test_a_worker_stops_gracefully() -> None:
    """It claims nothing more and brings what runs to its end; what takes too long is left to its lease."""
    queue, worker, slow, endless = Queue(), make(concurrency=2), Held(), Held()
    worker.job(job_id="slow")(slow.run)
    async with running(worker, queue):
        await queue.publish("slow")
        await slow.begun.wait()
        worker.stop()
        await queue.until(lambda: "draining" in queue.told)
        await queue.publish("slow")
        slow.go.set()
    assert [end.data for _, end in queue.completed] == ["done"]
    assert len(queue.waiting) == 1
    hasty = make(grace_seconds=0)
    hasty.otherwise(endless.run)
    async with running(hasty, queue):
        await endless.begun.wait()
    assert len(queue.completed) == 1
    assert list(queue.held) == ["lease-2"]


async def test_a_scheduler_that_is_away_is_asked_again() -> None:
    """The worker waits for it, however long that takes."""
    queue, worker = Queue(), make()
    queue.is_down = True

    @worker.otherwise
    async def anything() -> None: ...

    async with running(worker, queue):
        await queue.until(lambda: "missed" in queue.told)
        queue.is_down = False
        await queue.publish("any")
        await queue.until_completed(1)
    # Asking again would not help; it says so and leaves
    queue, worker = Queue(), make()
    queue.key = "right"

    @worker.job(job_id="one")
    def one() -> None: ...

    async with Client("http://scheduler.test", transport=queue.transport, key="wrong") as client:
        with pytest.raises(Unauthorized, match="not known"):
            await worker.run(client)
    assert queue.told[-1] == "deregistered"


async def test_a_thread_that_sees_its_end_does_not_run_beside_the_next_part() -> None:
    """A cancelled part keeps its place until its thread has ended, for some seconds."""
    queue, worker = Queue(lease_seconds=60, renew_seconds=0.01), make()
    events: list[str] = []

    @worker.job(job_id="work")
    def work(number: int, execution: Execution) -> None:
        events.append(f"begin {number}")
        while number == 1 and execution.is_wanted:
            threading.Event().wait(0.001)
        events.append(f"end {number}")

    async with running(worker, queue):
        for number in (1, 2):
            await queue.publish("work", {"number": number})
        await queue.until(lambda: queue.renewals)
        queue.cancelled.add("lease-1")
        await queue.until_completed(1)
    assert [lease for lease, _ in queue.completed] == ["lease-2"]
    assert events == ["begin 1", "end 1", "begin 2", "end 2"]
