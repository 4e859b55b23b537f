"""Answers a scrape: the figures of all processes, in the text that Prometheus reads."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.metric_list import FAMILIES, Ask, Family, MetricKind, Sample
from scheduler_service.telemetry.metrics.process_metrics import RequestMetrics

PATIENCE_SECONDS = 2.0
"""So long a process that stands still holds up a scrape."""

PROCESS = "process"
Apart = Callable[[Callable[[], "RenderedScrape"]], Awaitable["RenderedScrape"]]
"""Does work beside the event loop."""


class RenderedScrape(NamedTuple):
    """The answer to a scrape."""

    body: bytes
    content_type: str


class Exposition:
    """The figures of a service, or of a node: `processes` give them, by the value of the label `process`.

    `count` counts an answer of the API, as `RequestMetrics.count`. Scrapes at the same time share one
    gathering, and those that want the same format one text: 400 at once cost little more than one.
    """

    def __init__(
        self,
        *,
        processes: Mapping[str, Ask],
        requests: RequestMetrics,
        apart: Apart,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.count = requests.count
        self._processes = processes
        self._apart = apart
        self._patience = patience
        self._gathering: asyncio.Task[list[tuple[str, Sample]]] | None = None
        self._texts: dict[str, asyncio.Task[RenderedScrape]] = {}

    async def expose(self, accept: str) -> RenderedScrape:
        """The text in the format that `accept`, the header, prefers; after 2 s at most, but for a busy loop.

        A process that does not give its figures until then has `punctual_process_up 0` and nothing else.
        """
        text = self._texts.get(accept)
        if text is None:
            text = self._texts[accept] = asyncio.get_running_loop().create_task(self._render(accept))
        return await asyncio.shield(text)

    async def _render(self, accept: str) -> RenderedScrape:
        try:
            if self._gathering is None or self._gathering.done():
                self._gathering = asyncio.get_running_loop().create_task(self._gather())
            found = await asyncio.shield(self._gathering)
            return await self._apart(lambda: render(found, accept))
        finally:
            del self._texts[accept]

    async def _gather(self) -> list[tuple[str, Sample]]:
        names = list(self._processes)
        answers = await asyncio.gather(*(self._ask(self._processes[name]) for name in names))
        found = []
        for name, answer in zip(names, answers, strict=True):
            found.append((name, Sample(metric_list.PROCESS_UP.name, (), int(answer is not None))))
            found += [(name, sample) for sample in answer or ()]
        return found

    async def _ask(self, ask: Ask) -> Sequence[Sample] | None:
        try:
            async with asyncio.timeout(self._patience):
                return await ask()
        except Exception:  # noqa: BLE001 - whatever became of that process, the others are shown
            return None


def render(found: Iterable[tuple[str, Sample]], accept: str) -> RenderedScrape:
    """The samples by process as text, with what prometheus-client says of this process and of Python."""
    # Imported at the first scrape: it would take a tenth of a second of each start.
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return RenderedScrape(encode(Collected(found)), content_type)


class Collected:
    """What an encoder of prometheus-client reads: samples of families that are known, in their order."""

    def __init__(self, found: Iterable[tuple[str, Sample]]) -> None:
        by_family: dict[str, list[tuple[str, Sample]]] = {}
        for process, sample in found:
            by_family.setdefault(sample.family, []).append((process, sample))
        self._by_family = by_family

    def collect(self) -> Iterator[Any]:
        """The families that have a sample."""
        from prometheus_client.platform_collector import PlatformCollector
        from prometheus_client.process_collector import ProcessCollector

        yield from ProcessCollector(registry=None).collect()
        yield from PlatformCollector(registry=None).collect()
        for family in FAMILIES:
            samples = self._by_family.get(family.name)
            if samples:
                yield _metric_of(family, samples)


def _metric_of(family: Family, samples: Iterable[tuple[str, Sample]]) -> Any:
    from prometheus_client import core

    labels = [PROCESS, *family.labels]
    match family.kind:
        case MetricKind.HISTOGRAM:
            histogram = core.HistogramMetricFamily(family.name, family.help, labels=labels)
            for process, sample in samples:
                histogram.add_metric([process, *sample.labels], _buckets(family, sample), sample.value)
            return histogram
        case MetricKind.COUNTER:
            metric: Any = core.CounterMetricFamily(family.name, family.help, labels=labels)
        case _:
            metric = core.GaugeMetricFamily(family.name, family.help, labels=labels)
    for process, sample in samples:
        metric.add_metric([process, *sample.labels], sample.value)
    return metric


def _buckets(family: Family, sample: Sample) -> list[tuple[str, float]]:
    """Cumulated, as Prometheus has them."""
    bounds = [*(str(float(bound)) for bound in family.bounds), "+Inf"]
    return list(zip(bounds, itertools.accumulate(sample.buckets), strict=True))
