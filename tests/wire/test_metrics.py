"""What a service tells of itself: metrics and access lines (SPEC section 14)."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from scheduler_service.api.application import AccessLog
from scheduler_service.telemetry.metrics.metric_list import FAMILIES, Family, MetricKind
from tests.otlp_collector import collecting
from tests.wire.metrics_text import OPENMETRICS, Scraped, read_openmetrics, read_text
from tests.wire.service import SERVED, World, data_of, definition, pointers, running

BY_NAME = {family.name: family for family in FAMILIES}
NOT_HERE = {
    "punctual_api_connections",
    "punctual_api_connections_limit",
    "punctual_api_connections_closed_total",
    "punctual_spans_exported_total",
    "punctual_spans_dropped_total",
    "punctual_spans_waiting",
}
"""Without a socket there are no connections of callers; traces are off."""


@pytest.fixture
async def counted() -> AsyncIterator[World]:
    """A service in which the job `named` has figures of its own."""
    async with running(metrics={"jobs": ["named"]}) as world:
        yield world


async def scrape(world: World, accept: str | None = None, **headers: str) -> Scraped:
    """What a Prometheus reads."""
    wanted = {} if accept is None else {"accept": accept}
    answer = await world.client.get("/metrics", headers={**wanted, **headers})
    assert answer.status_code == 200, answer.text
    if accept == OPENMETRICS:
        assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        return read_openmetrics(answer.text)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return read_text(answer.text)


async def create(world: World, job_id: str, **members: Any) -> None:
    """A job."""
    data_of(await world.client.post(f"/jobs/{job_id}", json=definition(**members)), 201)


async def work(world: World) -> None:
    """Two successes, two failures after a retry each, their notifications, queued work, an instance."""
    await create(world, "named", timer={"period": "PT1M"})
    world.target.always("/bad", 500)
    await create(
        world,
        "other",
        timer={"period": "PT1M"},
        request=[{"url": "service://jobswork/bad"}],
        retry=[{"errorEquals": "500", "intervalSeconds": 1, "maxAttempts": 1}],
        notification=[{"url": "service://jobsclient/told"}],
    )
    await world.advance(70)
    await create(world, "queued", request=[{"url": "queue://work"}])
    data_of(await world.client.post("/jobs/queued/trigger", json={}))
    await world.client.put("/services/billing/instances/i1", json={"address": "http://127.0.0.1:9"})
    await world.settle()


def expected_labels(family: Family) -> set[str]:
    """Those of its samples."""
    return {"process", *family.labels} | ({"le"} if family.kind is MetricKind.HISTOGRAM else set())


@pytest.mark.parametrize("accept", [None, OPENMETRICS])
async def test_what_is_exported_is_what_is_documented(counted: World, accept: str | None) -> None:
    """Each metric with its type and its labels, and no other one."""
    await work(counted)
    for paused in ("/queues/work", "/services/billing"):
        data_of(await counted.client.post(f"{paused}/pause"))
    found = (await scrape(counted, accept)).own
    assert set(BY_NAME) - set(found) <= NOT_HERE
    assert set(found) <= set(BY_NAME)
    for name, metric in found.items():
        family = BY_NAME[name]
        assert (metric.type, metric.documentation) == (family.kind.value, family.help)
        for sample in metric.samples:
            assert set(sample.labels) <= expected_labels(family), sample
            assert {"process", *family.labels} <= set(sample.labels), sample


async def test_executions_are_counted_by_outcome_and_type_of_failure(counted: World) -> None:
    """With their attempts, their calls and their notifications."""
    await work(counted)
    found = await scrape(counted)
    assert found.value("punctual_executions_total", outcome="terminated", error="http") == 2
    assert found.value("punctual_attempt_failures_total", error="http") == 4
    assert found.value("punctual_calls_total", outcome="5xx") == 4
    assert (
        found.value("punctual_deliveries_total", outcome="delivered") == len(counted.target.at("/told")) > 0
    )
    assert found.value("punctual_executions_total", outcome="succeeded", error="none") > 1
    assert found.value("punctual_firing_lateness_seconds_count") == found.value(
        "punctual_firings_total", outcome="fired"
    )
    assert found.value("punctual_queue_depth", queue="work") == 1
    assert found.value("punctual_instances", service="billing", state="online") == 1
    assert found.value("punctual_jobs", state="active") == 3  # without those of the system
    assert found.value("punctual_store_up", store="state") == 1
    # With 0: the first increase of a series that is not there would not be seen
    assert found.value("punctual_executions_total", outcome="terminated", error="timeout") == 0
    assert found.value("punctual_deliveries_total", outcome="outbox") == 0
    assert found.value("punctual_calls_total", outcome="connect") == 0
    # No other id of a job, no URL and no text of a target is a label
    assert found.value("punctual_job_executions_total", job_id="named", outcome="succeeded") == 2
    assert {one["job_id"] for one in found.labels("punctual_job_executions_total")} == {"named"}
    values = {
        value
        for metric in found.own.values()
        for sample in metric.samples
        for value in sample.labels.values()
        if not value.startswith("node-")  # of random digits, as in node-aabade94
    }
    assert not {value for value in values if "other" in value or "127.0.0.1" in value or "bad" in value}


async def test_requests_are_counted_by_the_template_of_their_route(counted: World) -> None:
    """Unknown paths and methods are one row, whatever they are."""
    for path in ("/jobs/one", "/jobs/two", "/nothing/here", "/nothing/there"):
        await counted.client.get(path)
    await counted.client.request("BREW", "/jobs/one")
    found = await scrape(counted)
    count = "punctual_api_requests_total"
    assert found.value(count, method="GET", route="/jobs/{jobId}", status="404") == 2
    assert found.value(count, method="other", route="/jobs/{jobId}", status="405") == 1
    assert found.value(count, method="other", route="none", status="404") == 2
    times = "punctual_api_request_duration_seconds_count"
    assert found.value(times, method="GET", route="/jobs/{jobId}") == 2


async def test_metrics_that_are_off_are_not_there() -> None:
    """404 with the setting that turns them on."""
    async with running(metrics={"enabled": False}) as world:
        answer = await world.client.get("/metrics")
        assert answer.status_code == 404
        assert pointers(answer) == [("", "absent")]
        assert "metrics.enabled" in answer.json()["detail"]


async def test_spans_are_counted_while_the_collector_is_there_and_while_it_is_not() -> None:
    """What it took; and without it what waits, and what was dropped since no more may wait."""

    def has(name: str, least: float, **labels: str) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return ((await scrape(world)).value(name, process="0", **labels) or 0) >= least

        return look

    dropped = ("queue_full", "refused", "stopped")
    with collecting() as collector:
        traces = {"endpoint": f"{collector.url}/v1/traces", "delay_seconds": 0.01, "queue_size": 3}
        async with running(traces=traces) as world:
            await create(world, "job")
            await world.client.post("/jobs/job/trigger")
            await world.settle()
            await world.until(has("punctual_spans_exported_total", 3))
            found = await scrape(world)
            counts = [found.value("punctual_spans_dropped_total", process="0", reason=one) for one in dropped]
            assert (counts, found.value("punctual_spans_waiting", process="0")) == ([0, 0, 0], 0)
            collector.statuses = [503] * 1_000
            for _ in range(3):
                await world.client.post("/jobs/job/trigger")
                await world.settle()
            await world.until(has("punctual_spans_dropped_total", 1, reason="queue_full"))
            await world.until(has("punctual_spans_waiting", 3))
            assert "traces_not_exported" in str(world.log)
            collector.statuses = []


SECRET = "s3cret"
KEY = "0123456789abcdef"


@asynccontextmanager
async def watched(
    world: World, lines: list[dict[str, Any]], **headers: str
) -> AsyncIterator[httpx.AsyncClient]:
    """A caller of the service, whose requests are lines; the clock of the lines ticks once in 5 ms."""
    ticks = iter(range(0, 100_000, 5))

    def log(event: str, /, **keys: object) -> None:
        assert event == "request_answered"
        lines.append(dict(keys))

    app = AccessLog(app=world.service.api, log=log, clock=lambda: next(ticks) / 1_000)
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 4321))
    async with httpx.AsyncClient(transport=transport, base_url=SERVED, headers=headers) as client:
        yield client


async def test_a_request_is_a_line_with_its_route() -> None:
    """Ids and tokens stand in path and query, so neither is written; the bytes are those of the answer."""
    lines: list[dict[str, Any]] = []
    async with running() as world, watched(world, lines) as client:
        answer = await client.get(f"/jobs/{SECRET}", params={"token": SECRET})
        await client.post(f"/jobs/{SECRET}", content=SECRET, headers={"x-token": SECRET})
        await client.get(f"/{SECRET}/nothing")
        await client.request(SECRET * 10, f"/jobs/{SECRET}")
        await client.get("/health/live")
    first = lines[0]
    assert first == {
        "method": "GET",
        "route": "/jobs/{jobId}",
        "status": answer.status_code,
        "ms": 5.0,
        "bytes": len(answer.content),
        "role": "admin",
    }
    assert [(line["route"], line["role"]) for line in lines[1:]] == [
        ("/jobs/{jobId}", "admin"),
        (None, None),
        ("/jobs/{jobId}", None),
        ("/health/live", None),
    ]
    assert len(lines[3]["method"]) == 20
    assert SECRET not in json.dumps([{**line, "method": ""} for line in lines])
    # A refused caller has no role, and is a line all the same
    lines: list[dict[str, Any]] = []
    async with running(server={"key": KEY}) as world:
        async with watched(world, lines) as client:
            assert (await client.get("/jobs")).status_code == 401
        async with watched(world, lines, authorization=f"Bearer {KEY}") as client:
            assert (await client.get("/jobs")).status_code == 200
    assert [(line["status"], line["role"]) for line in lines] == [(401, None), (200, "admin")]


async def test_a_request_that_fails_is_a_line_too() -> None:
    """Its status is null: no answer was begun."""
    lines: list[dict[str, Any]] = []

    async def fail(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError

    app = AccessLog(app=fail, log=lambda event, /, **keys: lines.append(dict(keys)))
    with pytest.raises(RuntimeError):
        await app({"type": "http", "method": "GET"}, None, None)  # type: ignore[arg-type]
    assert [line["status"] for line in lines] == [None]


async def test_the_last_requests_that_the_store_failed_are_counted() -> None:
    """The first is told at once; those after it with the end of the service, if not before."""
    async with running() as world:
        faults = world.service.api_parts.shown.store_faults
        for number in range(3):
            faults.count("requests", error=f"full {number}")
        await world.stop()
        world.service.flush_log()
        told = [keys for event, keys in world.log if event == "store_failed"]
    assert told == [{"requests": 1, "error": "full 0"}, {"requests": 2, "error": "full 2"}]
