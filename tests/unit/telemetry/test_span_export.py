"""Spans reach a collector in the background; one that is slow, gone or refuses costs a line of the log."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from scheduler_service.telemetry.otlp import SpanWriter
from scheduler_service.telemetry.span_export import Collector as Address
from scheduler_service.telemetry.span_export import SpanExport
from scheduler_service.telemetry.spans import Span
from tests.otlp_collector import Collector, collecting

Lines = list[tuple[str, dict[str, object]]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def span(number: int, **members: Any) -> Span:
    """A span with an id of its own."""
    given: dict[str, Any] = {
        "trace": "ab" * 16, "span": f"{number:016x}", "parent": "", "name": "step 0", "kind": 3,
        "start": 1_700_000_000_000, "end": 1_700_000_000_005, "attributes": (("a", "b"), ("n", 3)),
    }  # fmt: skip
    return Span(**given | members)


def export_to(url: str, lines: Lines, **members: Any) -> SpanExport:
    """An export that sends at once."""
    given: dict[str, Any] = {
        "queue_size": 1_000, "batch_size": 10, "delay": 0.01,
        "make_writer": lambda: SpanWriter(resource={"service.name": "test"}, scope=("punctual", "1")).write,
    }  # fmt: skip
    address = {name: members.pop(name) for name in ("headers", "gzipped", "timeout") if name in members}
    return SpanExport(
        collector=Address(endpoint=f"{url}/v1/traces", **address),
        log=lambda event, /, **keys: lines.append((event, keys)),
        **given | members,
    )


def counted(export: SpanExport) -> dict[str, float]:
    """Its figures: those of dropped spans by their reason, the others by what they count."""
    found = {}
    for sample in export.samples():
        name = sample.family.removeprefix("punctual_spans_").removesuffix("_total")
        found[sample.labels[0] if sample.labels else name] = sample.value
    return found


async def wait(collector: Collector, condition: Callable[[Collector], bool]) -> None:
    """Waits beside the loop, which has to run for the lines of the log."""
    await asyncio.to_thread(collector.wait_for, condition, "spans")


async def test_spans_arrive_as_they_are(collector: Collector) -> None:
    """With their times in nanoseconds, links, status and resource."""
    lines: Lines = []
    export = export_to(collector.url, lines, headers={"x-key": "k"}, gzipped=True)
    failed = span(2, parent=f"{1:016x}", error="500", links=(("cd" * 16, f"{9:016x}"),))
    export.put([span(1), failed])
    await wait(collector, lambda one: len(one.spans) == 2)
    export.close()
    first, second = collector.came
    assert (first.trace, first.parent, first.failed, first.attributes) == (
        "ab" * 16,
        "",
        False,
        {"a": "b", "n": 3},
    )
    assert second.end - second.start == 5_000_000
    assert (second.parent, second.failed, second.links) == (f"{1:016x}", True, (("cd" * 16, f"{9:016x}"),))
    assert second.resource == {"service.name": "test"}
    sent = collector.headers[0]
    assert (sent["path"], sent["x-key"], sent["content-type"]) == (
        "/v1/traces",
        "k",
        "application/x-protobuf",
    )
    assert (export.exported, export.dropped, lines) == (2, 0, [])


async def test_what_a_collector_does_not_take_now_is_sent_again(collector: Collector) -> None:
    """One line when it begins, one when it ends; nothing is lost."""
    lines: Lines = []
    collector.statuses = [503, 429, 503]
    export = export_to(collector.url, lines)
    export.put(span(number) for number in range(1, 26))
    await wait(collector, lambda one: len(one.spans) == 25)
    export.close()
    await asyncio.sleep(0)
    assert [event for event, _ in lines] == ["traces_not_exported", "traces_exported_again"]
    assert lines[0][1] == {"error": "the collector answered 503"}
    assert (export.exported, export.dropped) == (25, 0)


async def test_what_a_collector_refuses_is_dropped_and_counted(collector: Collector) -> None:
    """A 400 will not become better."""
    lines: Lines = []
    collector.statuses = [400]
    export = export_to(collector.url, lines)
    export.put(span(number) for number in range(1, 11))
    await wait(collector, lambda one: len(one.headers) == 1)
    export.put([span(11)])
    await wait(collector, lambda one: len(one.spans) == 1)
    export.close()
    await asyncio.sleep(0)
    assert ("spans_dropped", {"spans": 10, "reason": "refused"}) in lines
    assert counted(export)["refused"] == 10
    assert export.dropped == 10


async def test_the_queue_is_bounded(collector: Collector) -> None:
    """The newest are dropped: what waits keeps its place."""
    lines: Lines = []
    export = export_to(collector.url, lines, queue_size=5, delay=60)
    export.put(span(number) for number in range(1, 9))
    assert lines == [("spans_dropped", {"spans": 3, "reason": "queue_full"})]
    assert counted(export) == {"exported": 0, "queue_full": 3, "refused": 0, "stopped": 0, "waiting": 5}
    export.close()
    assert counted(export) == {"exported": 5, "queue_full": 3, "refused": 0, "stopped": 0, "waiting": 0}
    assert sorted(collector.spans) == [f"{number:016x}" for number in range(1, 6)]


async def test_an_unreachable_collector_is_one_line() -> None:
    """And the end does not wait for it."""
    lines: Lines = []
    with collecting() as gone:
        url = gone.url
    export = export_to(url, lines)
    for number in range(1, 6):
        export.put([span(number)])
        await asyncio.to_thread(lambda: None)
    export.close()
    await asyncio.sleep(0)
    assert [event for event, _ in lines].count("traces_not_exported") == 1
    assert export.dropped == 5
    assert ("spans_dropped", {"spans": 5, "reason": "stopped"}) in lines
    assert counted(export)["stopped"] == 5


async def test_without_spans_there_is_no_thread() -> None:
    """Nothing is imported and no connection made."""

    def refuse() -> Any:
        raise AssertionError("nobody asked for a writer")

    export = SpanExport(
        collector=Address(endpoint="http://127.0.0.1:1/v1/traces"),
        make_writer=refuse,
        log=lambda event, /, **keys: None,
        queue_size=5,
        batch_size=5,
        delay=0.01,
    )
    export.close()
    assert export.exported == 0


async def test_a_span_that_cannot_be_encoded_ends_no_other(collector: Collector) -> None:
    """Its batch is dropped, counted and told; the next one arrives."""
    lines: Lines = []
    export = export_to(collector.url, lines, batch_size=1, make_writer=lambda: write_but_bad)
    export.put([span(1, name="bad"), span(2)])
    await wait(collector, lambda one: len(one.spans) == 1)
    export.close()
    assert export.dropped == 1
    assert "traces_not_exported" in [event for event, _ in lines]


def write_but_bad(spans: Sequence[Span]) -> bytes:
    """As the writer does, but a span named `bad` is beyond it."""
    if any(one.name == "bad" for one in spans):
        raise ValueError("bad")
    return SpanWriter(resource={"service.name": "test"}, scope=("punctual", "1")).write(spans)
