"""Whatever a job's function does ends as one failed execution that names it (SPEC section 16)."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from client_sdk import JobFailed
from client_sdk.target import Service
from client_sdk.worker import LocalRetry
from tests.rows import each_row
from tests.unit.client_sdk.queue import Queue
from tests.unit.client_sdk.target.called_service import place
from tests.unit.client_sdk.worker.workers import make, running


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")


class Strange(JobFailed):
    def __init__(self) -> None:
        """Without what JobFailed has."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Tracebacks with half characters: no report of a test can carry them."""
    caplog.set_level("CRITICAL", "client_sdk")


def throw(error: BaseException) -> Any:
    raise error


def nest(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def cycle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def recurse() -> Any:
    return recurse()


MISDEEDS: dict[str, tuple[Callable[[], Any], str]] = {
    "exit": (lambda: sys.exit(3), "SystemExit: 3 (a job's function cannot end the process)"),
    "interrupt": (lambda: throw(KeyboardInterrupt()), "KeyboardInterrupt: (a job's function cannot end"),
    "stop": (lambda: throw(StopIteration("over")), "StopIteration: over"),
    "stop async": (lambda: throw(StopAsyncIteration("over")), "StopAsyncIteration: over"),
    "generator": (lambda: throw(GeneratorExit("gone")), "GeneratorExit: gone"),
    "cancelled": (
        lambda: throw(asyncio.CancelledError()),
        "CancelledError: the function was cancelled by itself",
    ),
    "own timeout": (lambda: throw(TimeoutError()), "TimeoutError"),
    "mute": (lambda: throw(Mute()), "Mute: (its text cannot be had: SystemExit)"),
    "strange": (lambda: throw(Strange()), "AttributeError"),
    "half letter": (lambda: throw(ValueError("a\ud800b")), "ValueError: a\\ud800b"),
    "half letter meant": (lambda: throw(JobFailed("a\ud800b", error="500")), "a\\ud800b"),
    "data": (lambda: throw(JobFailed("locked", data=object())), "it failed with JobFailed: locked"),
    "no time": (
        lambda: throw(JobFailed("no", retry_after=float("nan"))),
        "retry_after nan is no time to wait",
    ),
    "half result": (lambda: {"a": "\ud800"}, "surrogates not allowed"),
    "NaN": (lambda: [float("nan")], "this is no JSON"),
    "object": (object, "Unable to serialize unknown type"),
    "cycle": (cycle, "Circular reference"),
    "deep": (lambda: nest(100_000), "depth exceeded"),
    "group": (
        lambda: throw(BaseExceptionGroup("two", [KeyError("k"), SystemExit(1)])),
        "BaseExceptionGroup: two (2 sub-exceptions): KeyError: 'k'; SystemExit: 1",
    ),
    "recursion": (recurse, "RecursionError: maximum recursion depth exceeded"),
    "memory": (lambda: throw(MemoryError()), "MemoryError"),
}


@each_row("misdeed", MISDEEDS)
async def test_whatever_a_function_does_is_one_failure(misdeed: str) -> None:
    """At once, with its name; a coroutine and a thread, a class, and others of the same instance go on."""
    does, said = MISDEEDS[misdeed]
    async with place() as at:
        declare_all(at.service, does)
        for job_id in ("plain", "coroutine", "method"):
            answer = await at.call(job_id)
            assert answer.status_code == 500
            assert (answer.json()["status"], answer.json()["error"]) == ("failed", "500")
            assert said in answer.json()["message"], answer.text
        assert (await at.call("well")).json() == "well"
        url = "http://scheduler.test/jobs/late/feedback/9?token=t"
        assert (await at.call("late", Feedback_Url=url)).status_code == 202
        await at.registry.until(lambda: at.registry.reports)
        [(_, report)] = at.registry.reports
        assert (report["status"], report["error"]) == ("failed", "500")
        assert said in report["message"]


def declare_all(service: Service, does: Callable[[], Any]) -> None:
    """Jobs of every kind that do this, and one that does well."""

    @service.job(job_id="plain")
    def plain() -> Any:
        return does()

    @service.job(job_id="coroutine")
    async def coroutine() -> Any:
        return does()

    @service.job(job_id="late", asynchronous=True)
    async def late() -> Any:
        return does()

    @service.job(job_id="method")
    class Method:
        def run(self) -> Any:
            return does()

    @service.job(job_id="well")
    async def well() -> str:
        return "well"


@each_row("misdeed", MISDEEDS)
async def test_a_worker_completes_the_part_as_failed(misdeed: str) -> None:
    """Its lease is not left to end, and it goes on with the next part."""
    does, said = MISDEEDS[misdeed]
    queue, worker = Queue(), make(local_retry=LocalRetry(retries=0))
    worker.job(job_id="bad")(lambda: does())
    worker.job(job_id="well")(lambda: "well")
    async with running(worker, queue):
        await queue.publish("bad")
        await queue.publish("well")
        await queue.until_completed(2)
    bad, well = (end for _, end in queue.completed)
    assert (bad.status, bad.error) == ("failed", "500")
    assert said in (bad.message or "")
    assert well.data == "well"


async def test_a_task_of_a_function_cannot_end_the_process() -> None:
    """It would let SystemExit out of the event loop; those of the application stay as they are."""
    async with place() as at:

        @at.service.job(job_id="gather")
        async def gather() -> None:
            async def leave() -> None:
                await asyncio.sleep(0)
                sys.exit("enough")

            await asyncio.gather(leave(), asyncio.sleep(0))

        @at.service.job(job_id="returns")
        async def returns() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

        @at.service.job(job_id="itself")
        async def itself() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

        answer = await at.call("gather")
        assert answer.json()["message"].startswith("ExitContained: SystemExit: enough")
        for job_id in ("itself", "returns"):
            assert "CancelledError: the function was cancelled by itself" in (await at.call(job_id)).text


async def test_a_validator_that_fails_is_a_failure_too() -> None:
    """Of a service, and of a worker, whose part would be left to its lease else."""

    class Size(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def check(cls, _: int) -> int:
            sys.exit(1)

    def take(size: Size) -> None: ...

    queue, worker = Queue(), make()
    worker.job(job_id="take")(take)
    async with place() as at:
        at.service.job(job_id="take")(take)
        answer = await at.call("take", {"size": {"number": 1}})
        assert (answer.status_code, answer.json()["message"].startswith("SystemExit: 1")) == (500, True)
    async with running(worker, queue):
        await queue.publish("take", {"size": {"number": 1}})
        await queue.until_completed(1)
    assert queue.completed[0][1].error == "500"
