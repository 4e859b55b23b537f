"""The work that is under way in an instance: each attempt once (SPEC section 13)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from client_sdk.target import Execution
from tests.unit.client_sdk.lines import serving
from tests.unit.client_sdk.target.called_service import place


async def test_a_call_that_is_repeated_joins_the_first() -> None:
    """The scheduler sends a call again after a crash, with its key: the work is done once."""
    async with place() as at:
        go, both, times = asyncio.Event(), asyncio.Event(), []

        @at.service.job(job_id="slow")
        async def slow() -> int:
            times.append(1)
            if len(times) == 2:
                both.set()
            await go.wait()
            return len(times)

        calls = [asyncio.create_task(at.call("slow")) for _ in range(2)]
        other = asyncio.create_task(at.call("slow", Idempotency_Key="life-8-0"))
        await both.wait()
        go.set()
        assert [(await call).json() for call in [*calls, other]] == [2, 2, 2]
        assert len(times) == 2


async def test_what_takes_too_long_is_stopped() -> None:
    """After the grace; it had begun, so that counts as an attempt: no draining mark."""
    async with place(grace_seconds=0.01) as at:
        begun = asyncio.Event()

        @at.service.job(job_id="slow")
        async def slow() -> None:
            begun.set()
            await asyncio.Event().wait()

        await at.service.start()
        first = asyncio.create_task(at.call("slow"))
        await begun.wait()
        await at.service.stop()
        answer = await first
        assert (answer.status_code, answer.json()["error"]) == (503, "interrupted")
        assert "x-instance-state" not in answer.headers


async def test_a_job_is_cancelled_from_outside() -> None:
    """`cancelUrl` stops the attempt that its headers name, and no other."""
    async with place() as at:
        begun = asyncio.Event()

        @at.service.job(job_id="slow", asynchronous=True)
        async def slow() -> None:
            begun.set()
            await asyncio.Event().wait()

        url = "http://scheduler.test/jobs/slow/feedback/9?token=t"
        assert (await at.call("slow", Feedback_Url=url)).status_code == 202
        await begun.wait()
        other = await at.call("slow/cancel", X_Scheduling_Request_Counts="8")
        assert other.json() == {"stopped": 0}
        assert (await at.call("slow/cancel")).json() == {"stopped": 1}
        assert at.registry.reports == []


class Slow:
    """A function that says when it begins and how it ends, and what ran beside it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.go = asyncio.Event()

    async def run(self, execution: Execution) -> str:
        number = execution.execute_number
        self.events.append(f"begin {number}")
        self.begun.put_nowait(number)
        try:
            await self.go.wait()
        finally:
            await asyncio.sleep(0)  # what it cleans up may take its time
            self.events.append(f"end {number}, {execution.is_wanted}")
            self.ended.set()
        return "done"


@asynccontextmanager
async def slow_job(
    function: Callable[..., Any], **options: Any
) -> AsyncIterator[Callable[..., asyncio.Task[httpx.Response]]]:
    """Calls of it over real connections; a call that is cancelled closes its own."""
    async with place() as at, serving(at.service) as url, httpx.AsyncClient(base_url=url) as http:
        at.service.job(job_id="slow", **options)(function)

        def call(number: int, key: str | None = None) -> asyncio.Task[httpx.Response]:
            headers = {
                "Idempotency-Key": key or f"life-{number}-0",
                "X-Scheduling-Execute-Number": str(number),
                "X-Scheduling-Request-Counts": str(number),
            }
            return asyncio.create_task(http.post("/punctual/jobs/slow", json={}, headers=headers))

        yield call


async def test_a_caller_that_leaves_ends_the_work() -> None:
    """So the scheduler cancels a synchronous job: it closes the connection (SPEC section 13)."""
    slow = Slow()
    async with slow_job(slow.run) as call:
        first = call(7)
        await slow.begun.get()
        first.cancel()
        await slow.ended.wait()
        again = call(7)
        await slow.begun.get()
        slow.go.set()
        assert (await again).json() == "done"
    assert slow.events == ["begin 7", "end 7, False", "begin 7", "end 7, True"]


async def test_work_that_another_caller_waits_for_goes_on() -> None:
    """One of two has left."""
    slow = Slow()
    async with slow_job(slow.run) as call:
        first = call(7)
        await slow.begun.get()
        second, third = call(7), call(8)  # answered in this order
        assert await slow.begun.get() == 8
        first.cancel()
        await asyncio.wait([first])
        slow.go.set()
        assert [(await one).json() for one in (second, third)] == ["done", "done"]
    assert slow.events[-2:] == ["end 7, True", "end 8, True"]


async def test_executions_follow_one_another_without_running_side_by_side() -> None:
    """With `cancel_running` the next one may be called before this one is known to be cancelled."""
    slow = Slow()
    async with slow_job(slow.run, overlap_policy="cancel_running") as call:
        calls = [call(1)]
        await slow.begun.get()
        for number in (2, 3):
            calls.append(call(number))
            calls[-2].cancel()
            assert await slow.begun.get() == number
        slow.go.set()
        assert (await calls[-1]).json() == "done"
    ends = ["begin 1", "end 1, False", "begin 2", "end 2, False", "begin 3", "end 3, True"]
    assert slow.events == ends


async def test_what_is_cleaned_up_is_waited_for() -> None:
    """However often it is cancelled; the retry begins after its end."""
    cleaned, begun, events = asyncio.Event(), asyncio.Event(), []

    async def work(execution: Execution) -> None:
        events.append(f"begin {execution.request_counts}")
        begun.set()
        try:
            if execution.request_counts == 1:
                await asyncio.Event().wait()
        finally:
            await cleaned.wait()
            events.append(f"end {execution.request_counts}")

    async with place() as at:
        at.service.job(job_id="work")(work)
        first = asyncio.create_task(at.call("work", X_Scheduling_Request_Counts="1"))
        await begun.wait()
        assert (await at.call("work/cancel", X_Scheduling_Request_Counts="1")).json() == {"stopped": 1}
        retry = asyncio.create_task(at.call("work", X_Scheduling_Request_Counts="2"))
        await asyncio.sleep(0)
        assert (await at.call("work/cancel", X_Scheduling_Request_Counts="1")).json() == {"stopped": 1}
        cleaned.set()
        assert (await first).status_code == 503
        assert (await retry).status_code == 200
    assert events == ["begin 1", "end 1", "begin 2", "end 2"]


async def test_a_thread_learns_that_its_caller_has_left() -> None:
    """It cannot be stopped: it looks at `execution.is_wanted`, and the next execution waits for its end."""
    begun: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    events: list[str] = []

    def work(execution: Execution) -> None:
        number = execution.execute_number
        events.append(f"begin {number}")
        loop.call_soon_threadsafe(begun.put_nowait, number)
        while number < 3 and execution.is_wanted:
            threading.Event().wait(0.001)
        events.append(f"end {number}, {execution.is_wanted}")

    async with slow_job(work) as call:
        calls = []
        for number in (1, 2, 3):
            calls.append(call(number))
            if number > 1:
                calls[-2].cancel()
            assert await begun.get() == number
        assert (await calls[-1]).status_code == 200
    ends = ["begin 1", "end 1, False", "begin 2", "end 2, False", "begin 3", "end 3, True"]
    assert events == ends
