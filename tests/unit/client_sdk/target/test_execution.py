"""What a function knows of its execution; how progress and ends are reported (SPEC sections 5, 16)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from client_sdk import Client, JobFailed, NotWanted
from client_sdk.client.call_retries import Patience
from client_sdk.target import Execution, Service, job
from client_sdk.target.execution import AttemptReport, FeedbackReporter, read_feedback_url
from tests.rows import each_row
from tests.unit.client_sdk.lines import LossyLine, Waits, connect, serving
from tests.unit.client_sdk.registry import Registry, registered
from tests.unit.client_sdk.target.called_service import Held
from tests.wire.service import SERVED, World, running


@asynccontextmanager
async def scheduled(**jobs: tuple[Callable[..., Any], dict[str, Any]]) -> AsyncIterator[tuple[World, Client]]:
    """The whole scheduler, and a service of it on loopback that has these jobs: function, options."""
    box: dict[str, Any] = {}

    async def forward(scope: Any, receive: Any, send: Any) -> None:
        await box["service"](scope, receive, send)

    async with (
        serving(forward) as url,
        running(services={"static": {"files": (url,)}}) as world,
        Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client,
    ):
        box["service"] = service = Service(
            "files", client=client, address=url, signals=(), clock=world.seconds
        )
        for name, (function, options) in jobs.items():
            service.job(**({"job_id": name, "asynchronous": True} | options))(function)
        results = await client.jobs.create_many(service.definitions())
        assert [result.status for result in results] == ["created"] * len(jobs), results
        yield world, client


async def test_an_asynchronous_job_from_trigger_to_end() -> None:
    """Parameters in, progress and verdict out, through the whole scheduler."""

    async def fetch(count: int, execution: Execution) -> dict[str, int]:
        async with execution.progress(count, message="fetching") as progress:
            for _ in range(count):
                await progress.advance()
        return {"fetched": count, "attempt": execution.request_counts}

    async with scheduled(fetch=(fetch, {})) as (_, client):
        ended = await client.wait_for(await client.jobs.trigger("fetch", {"count": 60}), timeout=20)
        assert (ended.state, ended.progress) == ("succeeded", "60/60")
        [attempt] = ended.attempts
        reports = [one["body"] for one in attempt.feedback]
        told = [(one["status"], one.get("progress")) for one in reports]
        assert (told[0], told[-2:]) == (("", "0/60"), [("", "60/60"), ("succeed", None)])


async def test_a_failure_has_the_code_of_the_business() -> None:
    """Retry policies see it; an exception that nobody meant is 500."""

    async def fetch(error: str | None = None) -> None:
        if error:
            raise JobFailed("no such folder", error=error)
        raise RuntimeError("oops")

    retry = [{"errorEquals": "E1", "intervalSeconds": 0, "maxAttempts": 1}]
    async with scheduled(fetch=(fetch, {"retry": retry})) as (world, client):
        fired = await client.jobs.trigger("fetch", {"error": "E1"})

        async def has_retried() -> bool:
            await world.advance(0.01)
            return (await client.executions.get(fired)).state == "terminated"

        await world.until(has_retried)
        ended = await client.executions.get(fired)
        assert (ended.error, ended.failure_type, ended.attempt_count) == ("E1", "business", 2)
        other = await client.wait_for(await client.jobs.trigger("fetch"), timeout=20)
        assert (other.state, other.error) == ("terminated", "500")
    # The scheduler calls `cancelUrl`; and whoever reports afterwards is told
    held = Held()
    async with scheduled(fetch=(held.run, {})) as (_, client):
        fired = await client.jobs.trigger("fetch")
        await held.begun.wait()
        await client.executions.cancel(fired)
        await held.ended.wait()
        assert (await client.executions.wait_for(fired)).state == "cancelled"


async def test_a_stale_report_says_stop() -> None:
    """Where cancelUrl reached another instance: the next progress raises NotWanted in the function."""
    raised: list[Exception] = []
    begun, go, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fetch(execution: Execution) -> None:
        begun.set()
        await go.wait()
        try:
            await execution.report(progress="1/2")
        except NotWanted as why:
            raised.append(why)
            raise
        finally:
            done.set()

    async with scheduled(fetch=(fetch, {})) as (_, client):
        definition = dict((await client.jobs.get("fetch")).definition)
        del definition["cancelUrl"]
        await client.jobs.update("fetch", definition)
        fired = await client.jobs.trigger("fetch")
        await begun.wait()
        await client.executions.cancel(fired)
        go.set()
        await done.wait()
        assert "no longer awaited" in str(raised[0])


async def test_a_function_in_a_thread_reports_too() -> None:
    """In `with`, blocking."""

    def fetch(execution: Execution) -> None:
        with execution.progress(3) as progress:
            progress.update(3, message="all")
            assert progress.done == 3

    async with scheduled(fetch=(fetch, {})) as (_, client):
        ended = await client.wait_for(await client.jobs.trigger("fetch"), timeout=20)
        assert (ended.state, ended.progress) == ("succeeded", "3/3")
    # Its loop is closed, and no report is left that nobody awaits
    loop = asyncio.new_event_loop()
    loop.close()
    with (
        pytest.raises(NotWanted, match="application has ended"),
        Execution(job_id="a", loop=loop).progress(2),
    ):
        raise AssertionError("it does not begin")


async def test_a_wrong_trigger_is_refused_by_the_scheduler() -> None:
    """The job carries the function's parameters as its paramsSchema."""

    async def fetch(count: int) -> None: ...

    async with scheduled(fetch=(fetch, {})) as (_, client):
        with pytest.raises(Exception, match="'many' is not of type 'integer'"):
            await client.jobs.trigger("fetch", {"count": "many"})


def feedback(registry: Registry, *fates: str | httpx.Response) -> tuple[FeedbackReporter, Waits, LossyLine]:
    waits, line = Waits(), LossyLine(registry.transport, fates)
    connection = connect(line, Patience(), waits, url="http://scheduler.test/base")
    url = "http://elsewhere.test:1/x/jobs/a%3Ab/feedback/7?token=t&shard=2"
    return FeedbackReporter(connection=connection, url=url), waits, line


async def test_tokens_and_heartbeats_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """At no level, nor by the HTTP client: what a log has is read by many."""
    caplog.set_level("DEBUG")
    token = "secret-of-this-attempt"
    async with registered(jobs=[noted]) as (service, registry), serving(service) as url:
        await service.start()
        feedback_url = f"http://scheduler.test/jobs/noted/feedback/1?token={token}"
        async with httpx.AsyncClient(base_url=url) as http:
            for wrong in (feedback_url, feedback_url.replace("/feedback/1", "/elsewhere")):
                await http.post("/punctual/jobs/noted", headers={"Feedback-Url": wrong}, json={})
        await registry.until(lambda: registry.reports and registry.told.count("heartbeat") >= 3)
    said = [record.getMessage() for record in caplog.records]
    assert token not in "".join(said)
    assert not [line for line in said if "scheduler.test" in line or "heartbeat" in line]


@job(job_id="noted", asynchronous=True)
async def noted() -> None: ...


@each_row(
    "url", ["", "http://h/", "http://h/jobs/a", "http://h/jobs/a/feedback/x", "http://h/jobs/a/other/1"]
)
def test_what_is_no_feedback_url_is_refused(url: str) -> None:
    """A caller cannot make the service ask for anything else, whatever it sends."""
    with pytest.raises(ValueError, match="not a feedback URL"):
        read_feedback_url(url)


class Book:
    """What is reported: progress and message."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, str | None]] = []

    async def report(self, report: AttemptReport) -> None:
        self.told.append((report.progress, report.message))


async def test_progress_is_told_once_a_second() -> None:
    """What comes between is told with the next one; the last count is always told."""
    clock, book = [0.0], Book()
    execution = Execution(job_id="one", reporter=book, clock=lambda: clock[0])
    async with execution.progress(10) as progress:
        for _ in range(9):
            clock[0] += 0.4
            await progress.advance(message=f"at {clock[0]:.1f}")
        await progress.update(99)
    counts = [("0/10", None), ("3/10", "at 1.2"), ("6/10", "at 2.4"), ("9/10", "at 3.6")]
    assert book.told == [*counts, ("10/10", "at 3.6")]
    with pytest.raises(ValueError, match="total 0 is too small"):
        execution.progress(0)
    # Leaving by an exception tells no further progress
    book = Book()

    async def work(execution: Execution) -> None:
        async with execution.progress(2) as progress:
            await progress.advance()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await work(Execution(job_id="one", reporter=book, clock=lambda: 0.0))
    assert book.told == [("0/2", None)]
