"""Asynchronous jobs report their progress and their end by feedback (SPEC sections 5, 16)."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from client_sdk.client.connection import Connection
from client_sdk.client.retrying import Patience
from client_sdk.target import Execution, job
from client_sdk.target.execution import AttemptReport, FeedbackReporter, read_feedback_url
from tests.rows import each_row
from tests.unit.client_sdk.lines import LossyLine, Waits, problem, serving
from tests.unit.client_sdk.registry import Registry, registered
from tests.unit.client_sdk.target.scheduled import scheduled


async def test_a_wrong_trigger_is_refused_by_the_scheduler() -> None:
    """The job carries the function's parameters as its paramsSchema."""

    async def fetch(count: int) -> None: ...

    async with scheduled(fetch=(fetch, {})) as (_, client):
        with pytest.raises(Exception, match="'many' is not of type 'integer'"):
            await client.jobs.trigger("fetch", {"count": "many"})


def feedback(registry: Registry, *fates: str | httpx.Response) -> tuple[FeedbackReporter, Waits, LossyLine]:
    waits, line = Waits(), LossyLine(registry.transport, fates)
    connection = Connection(
        url="http://scheduler.test/base",
        key=None,
        timeout=5,
        patience=Patience(),
        transport=line,
        pause=waits,
        chance=lambda: 0.0,
    )
    url = "http://elsewhere.test:1/x/jobs/a%3Ab/feedback/7?token=t&shard=2"
    return FeedbackReporter(connection=connection, url=url), waits, line


async def test_an_end_is_told_until_it_is_taken() -> None:
    """The scheduler may be starting anew; progress is not worth such a wait."""
    told, waits, _ = feedback(Registry(), *["before"] * 10)
    with pytest.raises(Exception, match="no service answers"):
        await told.report(AttemptReport(progress="1/2"))
    assert len(waits.seconds) == 1
    told, waits, line = feedback(Registry(), *["before"] * 10, *[problem(503, "unavailable")] * 10)
    line.inner = httpx.ASGITransport(_taking)
    await told.report(AttemptReport(status="succeed", data={"rows": 1}))
    assert len(waits.seconds) == 20
    assert str(line.sent[-1].url) == "http://scheduler.test/base/jobs/a:b/feedback/7?token=t&shard=2"


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


async def _taking(scope: Any, receive: Callable[[], Awaitable[Any]], send: Any) -> None:
    head = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b'{"resp_code": 200, "data": null}'})


@each_row(
    "url", ["", "http://h/", "http://h/jobs/a", "http://h/jobs/a/feedback/x", "http://h/jobs/a/other/1"]
)
def test_what_is_no_feedback_url_is_refused(url: str) -> None:
    """A caller cannot make the service ask for anything else, whatever it sends."""
    with pytest.raises(ValueError, match="not a feedback URL"):
        read_feedback_url(url)


async def test_progress_is_told_once_a_second() -> None:
    """What comes between is told with the next one; the last count is always told."""
    clock, told = [0.0], []

    class Book:
        async def report(self, report: AttemptReport) -> None:
            told.append((report.progress, report.message))

    execution = Execution(job_id="one", reporter=Book(), clock=lambda: clock[0])
    async with execution.progress(10) as progress:
        for _ in range(9):
            clock[0] += 0.4
            await progress.advance(message=f"at {clock[0]:.1f}")
        await progress.update(99)
    counts = [("0/10", None), ("3/10", "at 1.2"), ("6/10", "at 2.4"), ("9/10", "at 3.6")]
    assert told == [*counts, ("10/10", "at 3.6")]
    with pytest.raises(ValueError, match="total 0 is too small"):
        execution.progress(0)


async def test_progress_of_what_failed_is_not_rounded_up() -> None:
    """Leaving by an exception tells no further progress."""
    told: list[Any] = []

    class Book:
        async def report(self, report: AttemptReport) -> None:
            told.append(report.progress)

    async def work(execution: Execution) -> None:
        async with execution.progress(2) as progress:
            await progress.advance()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await work(Execution(job_id="one", reporter=Book(), clock=lambda: 0.0))
    assert told == ["0/2"]
