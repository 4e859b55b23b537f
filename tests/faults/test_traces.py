"""Real services export the trace of each execution, whole over `kill -9` of all their processes."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.faults.stories import TERMINAL, describe
from tests.faults.target import Target, open_target
from tests.otlp_collector import Collector, SeenSpan, check_tree, collecting
from tests.wire.processes.process import Process, serve

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]

PATIENCE = 60.0
CALLER = "b7ad6b7169203331"


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def trace_of(number: int) -> str:
    """The trace of the caller of a job."""
    return f"{number + 1:032x}"


@asynccontextmanager
async def running(
    data: Path, workers: int, collector: Collector
) -> AsyncIterator[tuple[Process, httpx.AsyncClient]]:
    """A service that exports to the collector, and a client of it."""
    exporting = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_SERVICE_NAME": "jobs",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "PUNCTUAL_NOTIFICATION__INTERVAL_SECONDS": "0.5",
    }
    with serve(data, "--workers", str(workers), **exporting) as process:
        url = await asyncio.to_thread(process.wait_for_url)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30) as client:
            yield process, client


async def trigger(client: httpx.AsyncClient, target: Target, jobs: int) -> None:
    """Creates jobs and triggers each within a trace of its own."""
    for number in range(jobs):
        job = describe(target, jobId=f"job-{number}", qos=1, timer={"period": "external"})
        job["request"][2]["body"] = {"report": "${schedulingFeedbackUrlExternal}"}
        answer = await client.post(f"/jobs/job-{number}", json=job)
        assert answer.status_code == 201, answer.text
        headers = {"traceparent": f"00-{trace_of(number)}-{CALLER}-01"}
        answer = await client.post(f"/jobs/job-{number}/trigger", json={}, headers=headers)
        assert answer.status_code == 200, answer.text


async def report(target: Target, jobs: int) -> None:
    """Every target whose last step is open reports, within its own trace."""
    async with asyncio.timeout(PATIENCE):
        while len(target.to("/three")) < jobs:
            await target.until(len(target.seen) + 1)
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        for seen in target.to("/three"):
            headers, url = {"traceparent": seen.headers["traceparent"]}, json.loads(seen.body)["report"]
            answer = await client.post(url, json={"progress": "1"}, headers=headers)
            assert answer.status_code == 200, answer.text


async def wait_for_ends(client: httpx.AsyncClient, jobs: int) -> None:
    """Returns when all executions have ended and all that they notify of is delivered."""
    async with asyncio.timeout(PATIENCE):
        while True:
            ends = (await client.get("/executions")).json()["data"]["items"]
            pending = (await client.get("/deliveries", params={"state": "pending"})).json()["data"]["items"]
            if not pending and len([one for one in ends if one["state"] in TERMINAL]) == jobs:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("workers", [1, 3])
async def test_traces_are_whole_over_a_kill(workers: int, tmp_path: Path, collector: Collector) -> None:
    """Chains with a retry, checks, feedback and notifications, in one process and in several.

    A target's own spans would have a parent each: what the requests name was exported.
    """
    jobs = 2 * workers
    async with open_target() as target:
        gate = target.hold("/three")
        async with running(tmp_path / "data", workers, collector) as (process, client):
            await trigger(client, target, jobs)
            await report(target, jobs)
            await asyncio.to_thread(
                collector.wait_for, lambda found: len(found.named("feedback")) == jobs, "the feedback"
            )
            process.send(signal.SIGKILL)
            await asyncio.to_thread(process.wait_for_exit)
        gate.set()
        async with running(tmp_path / "data", workers, collector) as (process, client):
            await wait_for_ends(client, jobs)
            assert await asyncio.to_thread(process.stop) == 0
        for number in range(jobs):
            spans = [span for span in collector.spans.values() if span.trace == trace_of(number)]
            check_execution(spans)
            ids = {span.span for span in spans}
            sent = [seen.headers["traceparent"].split("-") for seen in target.seen]
            named = {span for _, trace, span, _ in sent if trace == trace_of(number)}
            assert named <= ids, (named, spans)
        assert {span.resource["service.name"] for span in collector.came} == {"jobs"}
        assert len({span.resource["process.pid"] for span in collector.came}) >= 2 * min(workers, 2)


def check_execution(spans: list[SeenSpan]) -> None:
    """One execution of the swept job: its second step fails once."""
    check_tree(((span.trace, span.span, span.parent) for span in spans), outside=CALLER)
    names = Counter(span.name for span in spans)
    assert (names.pop("check") >= 1, names.pop("notification") >= 3) == (True, True)
    assert names == {"execution": 1, "attempt": 2, "step 0": 2, "step 1": 2, "step 2": 1, "feedback": 1}
    first, second = sorted((span for span in spans if span.name == "attempt"), key=lambda span: span.start)
    assert (first.failed, second.failed) == (True, False)
    assert second.links == ((first.trace, first.span),)
    (root,) = (span for span in spans if span.name == "execution")
    assert root.attributes["punctual.state"] == "succeeded"
    (feedback,) = (span for span in spans if span.name == "feedback")
    (last,) = (span for span in spans if span.name == "step 2")
    assert feedback.links == ((last.trace, last.span),)
    for span in (first, second):
        assert root.start <= span.start <= span.end <= root.end
