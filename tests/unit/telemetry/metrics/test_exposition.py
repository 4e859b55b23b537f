"""The answer to a scrape: all processes that answer, as text that a real parser reads."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.exposition import Exposition, RenderedScrape, render
from scheduler_service.telemetry.metrics.metric_list import Histogram, Sample
from scheduler_service.telemetry.metrics.process_metrics import RequestMetrics
from tests.rows import each_row

TEXT, OPENMETRICS = "text/plain", "application/openmetrics-text; version=1.0.0"


async def at_once(work: Callable[[], RenderedScrape]) -> RenderedScrape:
    """Does it in the loop."""
    return work()


class Rendering:
    """Counts texts, and writes them when it may."""

    def __init__(self) -> None:
        self.count = 0
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, work: Callable[[], RenderedScrape]) -> RenderedScrape:
        """One more, which others can ask for meanwhile."""
        self.count += 1
        self.has_begun.set()
        await self.may_end.wait()
        return work()


class Process:
    """Gives one figure, when it may."""

    def __init__(self, *, stands_still: bool = False) -> None:
        self.asked = 0
        self._stands_still = stands_still

    async def collect(self) -> Sequence[Sample]:
        """Its turns."""
        self.asked += 1
        await asyncio.sleep(0)
        if self._stands_still:
            await asyncio.Event().wait()
        return [Sample(metric_list.TURNS.name, (), 7)]


def expose(processes: dict[str, Process]) -> Exposition:
    """Over these processes, with little patience."""
    asks = {name: process.collect for name, process in processes.items()}
    return Exposition(processes=asks, requests=RequestMetrics(), apart=at_once, patience=0.05)


def values(text: str) -> dict[tuple[str, str], float]:
    """By name and process."""
    return {
        (one.name, one.labels["process"]): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if "process" in one.labels
    }


async def test_a_process_that_stands_still_is_down_and_holds_up_nobody() -> None:
    """Its figures are absent; those of the others are there."""
    exposition = expose({"0": Process(), "1": Process(stands_still=True), "2": Process()})
    found = values((await exposition.expose(TEXT)).body.decode())
    assert found == {
        ("punctual_process_up", "0"): 1,
        ("punctual_process_up", "1"): 0,
        ("punctual_process_up", "2"): 1,
        ("punctual_turns_total", "0"): 7,
        ("punctual_turns_total", "2"): 7,
    }


async def test_scrapes_at_the_same_time_share_one_text_of_each_format() -> None:
    """Also those that come while it is written; 400 at once took 20 s when each had a text of its own."""
    process, rendering = Process(), Rendering()
    exposition = Exposition(
        processes={"0": process.collect}, requests=RequestMetrics(), apart=rendering, patience=1
    )
    both = (TEXT, OPENMETRICS) * 200
    asking = [asyncio.create_task(exposition.expose(accept)) for accept in both]
    await rendering.has_begun.wait()
    asking.append(asyncio.create_task(exposition.expose(TEXT)))
    await asyncio.sleep(0)
    rendering.may_end.set()
    answers = await asyncio.gather(*asking)
    assert (process.asked, rendering.count) == (1, 2)
    assert len({answer.body for answer in answers}) == 2
    await exposition.expose(TEXT)
    assert rendering.count == 3


def test_a_histogram_is_cumulated() -> None:
    """With what is above all bounds in `+Inf`, and its count and sum."""
    times = Histogram(metric_list.LOOP_LAG)
    for seconds in (0.000_5, 0.03, 0.03, 60):
        times.observe(seconds)
    answer = render([("0", times.sample())], OPENMETRICS)
    (family,) = [
        one
        for one in openmetrics.text_string_to_metric_families(answer.body.decode())
        if one.name == metric_list.LOOP_LAG.name
    ]
    counts = {one.labels.get("le"): one.value for one in family.samples if one.name.endswith("_bucket")}
    assert (counts["0.001"], counts["0.02"], counts["0.05"], counts["5.0"], counts["+Inf"]) == (1, 1, 3, 3, 4)
    (total,) = [one.value for one in family.samples if one.name.endswith("_sum")]
    assert total == pytest.approx(60.0605)
    # A name with a quote or a line break stays one label
    name = 'a"b\\c\nd'
    answer = render([("0", Sample(metric_list.QUEUE_DEPTH.name, (name,), 1))], TEXT)
    found = [
        one.labels["queue"]
        for family in text_string_to_metric_families(answer.body.decode())
        for one in family.samples
        if one.name == metric_list.QUEUE_DEPTH.name
    ]
    assert found == [name]


@each_row("accept", ["", "*/*", "text/html", "nonsense;;q=", "x" * 10_000])
def test_whatever_is_accepted_there_is_text(accept: str) -> None:
    """A header that nobody understands is as good as none."""
    answer = render([("0", Sample(metric_list.TURNS.name, (), 1))], accept)
    assert answer.content_type.startswith("text/plain")
    assert values(answer.body.decode())[("punctual_turns_total", "0")] == 1
