"""How a job's function is run, until when, and how it ended (SPEC sections 13, 16)."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client_sdk import Client, JobFailed, NotWanted
from client_sdk.target import Declaration, Execution, job
from client_sdk.target.inbound import Admission, InboundCalls
from client_sdk.target.messages import InboundCall, OutboundAnswer
from tests.unit.client_sdk.registry import Registry
from tests.unit.client_sdk.target.called_service import Held, place


async def test_begin_end_and_failure_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At DEBUG, and what failed as its function meant at WARNING, with job and execution (section 16)."""
    caplog.set_level("DEBUG", "client_sdk")
    async with place() as at:

        @at.service.job(job_id="work")
        async def work(fails: bool) -> None:
            if fails:
                raise JobFailed("locked", error="E1")

        await at.call("work", {"fails": False})
        await at.call("work", {"fails": True})
    said = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "client_sdk"]
    assert said == [
        ("DEBUG", "job work begins, execution 7, attempt 9"),
        ("DEBUG", "job work succeeded, execution 7, attempt 9"),
        ("DEBUG", "job work begins, execution 7, attempt 9"),
        ("WARNING", "job work failed, execution 7, attempt 9, with E1: locked"),
    ]


async def test_a_function_that_blocks_runs_in_a_thread() -> None:
    """The event loop goes on meanwhile."""
    async with place() as at:
        here = threading.current_thread()

        @at.service.job(job_id="block")
        def block(execution: Execution) -> dict[str, Any]:
            with execution.progress(2) as progress:
                progress.advance()
            return {"elsewhere": threading.current_thread() is not here, "counts": execution.request_counts}

        @at.service.job(job_id="generate")
        def generate() -> Iterator[bool]:
            yield threading.current_thread() is not here

        assert (await at.call("block")).json() == {"elsewhere": True, "counts": 9}
        assert (await at.call("generate")).json() == [True]


NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "http://scheduler.test/jobs/slow/feedback/9?token=t"


class Time:
    """A clock that a test moves; who pauses waits for it."""

    def __init__(self) -> None:
        self.now = NOW.timestamp()
        self._moved = asyncio.Event()

    def __call__(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        """Returns when the clock has been moved by `seconds`."""
        end = self.now + seconds
        while self.now < end:
            await self._moved.wait()

    def move(self, seconds: float) -> None:
        """Moves the clock."""
        self.now += seconds
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


class Called:
    """One job, and somebody who calls it."""

    def __init__(self, declaration: Declaration[..., Any], client: Client, registry: Registry) -> None:
        self.time = Time()
        self.registry = registry
        self.calls = InboundCalls(
            declarations=lambda: {"slow": declaration},
            connection=client.connection,
            admission=Admission(verifier=None, allow_unsigned=True),
            clock=self.time,
            pause=self.time.pause,
        )

    async def call(self, seconds: float | None, **headers: str) -> OutboundAnswer:
        """A call that is awaited for `seconds`; None: it says nothing of it."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if seconds is not None:
            named["x-scheduling-deadline"] = (NOW + timedelta(seconds=seconds)).isoformat()
        return await self.calls.take("slow", InboundCall("POST", named, b""))


@asynccontextmanager
async def called(declaration: Declaration[..., Any]) -> AsyncIterator[Called]:
    registry = Registry()
    async with Client("http://scheduler.test", transport=registry.transport) as client:
        yield Called(declaration, client, registry)


async def test_a_coroutine_is_cancelled_at_its_deadline() -> None:
    """The answer has the code that the scheduler itself gives: 500, and `timeout` as its reason."""
    slow = Held()
    async with called(job()(slow.run)) as at:
        answer = asyncio.create_task(at.call(5))
        await slow.begun.wait()
        at.time.move(4.9)
        await asyncio.sleep(0)
        assert not answer.done()
        at.time.move(0.1)
        said = await answer
        assert slow.ended.is_set()
        assert (said.status, b'"error": "timeout"' in said.body) == (500, True)
        assert b"raise timeoutSeconds" in said.body


async def test_a_thread_learns_that_its_time_is_over() -> None:
    """It cannot be stopped: its call is answered, `is_wanted` says so, and progress raises NotWanted."""
    begun, over, seen = asyncio.Event(), threading.Event(), list[object]()
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    @job()
    def slow(execution: Execution) -> None:
        with execution.progress(2) as progress:
            seen.append(execution.deadline)
            loop.call_soon_threadsafe(begun.set)
            over.wait()
            seen.append(execution.is_wanted)
            try:
                progress.advance()
                progress.update(2)
                progress.run(execution.report(message="more"))
            except NotWanted:
                seen.append("not wanted")
            loop.call_soon_threadsafe(done.set)

    async with called(slow) as at:
        answer = asyncio.create_task(at.call(5))
        await begun.wait()
        at.time.move(5)
        assert (await answer).status == 500
        over.set()
        await done.wait()
        assert seen == [NOW + timedelta(seconds=5), False, "not wanted"]


async def test_asynchronous_work_ends_too_and_says_so() -> None:
    """By feedback, with the code that the scheduler gives to such an attempt."""
    slow = Held()
    async with called(job(asynchronous=True)(slow.run)) as at:
        assert (await at.call(5, feedback_url=URL)).status == 202
        await slow.begun.wait()
        at.time.move(5)
        await at.registry.until(lambda: at.registry.reports)
        [(_, report)] = at.registry.reports
        assert (report["status"], report["error"]) == ("failed", "timeout")


async def test_a_repeated_call_is_awaited_longer() -> None:
    """After a crash of the scheduler the call is sent again with a later deadline, which then counts."""
    slow = Held()
    async with called(job()(slow.run)) as at:
        first = asyncio.create_task(at.call(5, idempotency_key="one"))
        await slow.begun.wait()
        again = asyncio.create_task(at.call(9, idempotency_key="one"))
        await asyncio.sleep(0)
        at.time.move(8)
        await asyncio.sleep(0)
        assert not first.done()
        slow.go.set()
        assert [(await one).body for one in (first, again)] == [b'"done"', b'"done"']


async def test_a_call_after_its_deadline_is_not_started() -> None:
    """Nobody awaits it; that may also mean that the clocks differ, so the answer says how far."""

    @job()
    async def slow() -> None:
        raise AssertionError("not called")

    async with called(slow) as at:
        said = await at.call(-2.5)
        assert (said.status, b"arrived 2.5 s after its X-Scheduling-Deadline" in said.body) == (500, True)
        assert b"compare the clocks" in said.body
    # As from an older scheduler; what is no moment is refused

    @job()
    async def slow(execution: Execution) -> bool:
        return execution.deadline is None and execution.is_wanted

    async with called(slow) as at:
        assert (await at.call(None)).body == b"true"
        refused = await at.call(None, x_scheduling_deadline="soon")
        assert (refused.status, b"X-Scheduling-Deadline 'soon' is not a moment" in refused.body) == (
            422,
            True,
        )
