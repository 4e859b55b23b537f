"""A scrape has what answers within a moment, and names what does not."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from scheduler_service.domain.wire import Answer, Fault, FaultKind
from scheduler_service.telemetry.metrics import metric_list
from scheduler_service.telemetry.metrics.gathering import Gathering
from scheduler_service.telemetry.metrics.metric_list import Sample
from scheduler_service.telemetry.metrics.process_metrics import CallMetrics, process_age
from tests.unit.telemetry.metrics.batches import buckets, value

JOBS = Sample(metric_list.JOBS_HELD.name, (), 3)


class Store:
    """Answers when it may, counts the questions, and fails when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()
        self.is_broken = False

    async def ask(self) -> Sequence[Sample]:
        """One figure."""
        self.asked += 1
        await self.may_answer.wait()
        if self.is_broken:
            raise ValueError("broken")
        return [JOBS]


def read() -> Iterator[Sample]:
    """Figures in memory."""
    yield Sample(metric_list.TURNS.name, (), 7)


async def test_what_does_not_answer_is_absent_and_named() -> None:
    """The rest is there; a later scrape does not ask twice, and has the answer once it has come."""
    store, gathering = Store(), Gathering(patience=0.01)
    gathering.read("memory", read)
    gathering.ask("store", store.ask)
    for _ in range(2):
        found = await gathering.collect()
        assert value(found, metric_list.JOBS_HELD) is None
        assert value(found, metric_list.SCRAPE_ERRORS, "store") == 1
        assert value(found, metric_list.TURNS) == 7
        assert value(found, metric_list.SCRAPE_ERRORS, "memory") == 0
    assert store.asked == 1
    store.may_answer.set()
    found = await gathering.collect()
    assert value(found, metric_list.JOBS_HELD) == 3
    assert value(found, metric_list.SCRAPE_ERRORS, "store") == 0


async def test_an_answer_is_kept_for_a_while() -> None:
    """Scrapes one after the other cost the store one question; then it is asked again."""
    moment = [100.0]
    store, gathering = Store(), Gathering(clock=lambda: moment[0])
    store.may_answer.set()
    gathering.ask("store", store.ask)
    for after, asked in ((0.0, 1), (4.9, 1), (0.2, 2)):
        moment[0] += after
        assert value(await gathering.collect(), metric_list.JOBS_HELD) == 3
        assert store.asked == asked
    # Asking takes a tenth of the time at most; meanwhile the last answer stands
    moment = [100.0]
    store, gathering = Store(), Gathering(patience=0.01, clock=lambda: moment[0])
    gathering.ask("store", store.ask)
    assert value(await gathering.collect(), metric_list.JOBS_HELD) is None
    moment[0] += 3
    store.may_answer.set()
    for after, asked in ((0.0, 1), (29.0, 1), (2.0, 2)):
        moment[0] += after
        assert value(await gathering.collect(), metric_list.JOBS_HELD) == 3
        assert store.asked == asked
    # A store that has stopped to answer is seen, at the latest after a quarter of a minute
    moment = [100.0]
    store, gathering = Store(), Gathering(patience=0.01, clock=lambda: moment[0])
    store.may_answer.set()
    gathering.ask("store", store.ask)
    await gathering.collect()
    store.may_answer.clear()
    moment[0] += 10
    assert value(await gathering.collect(), metric_list.JOBS_HELD) == 3
    moment[0] += 10
    found = await gathering.collect()
    assert value(found, metric_list.JOBS_HELD) is None
    assert value(found, metric_list.SCRAPE_ERRORS, "store") == 1


async def test_a_failure_is_not_covered_by_an_old_answer() -> None:
    """The figure is absent at once, and is asked for again at the next scrape."""
    moment = [100.0]
    store, gathering = Store(), Gathering(clock=lambda: moment[0])
    store.may_answer.set()
    gathering.ask("store", store.ask)
    assert value(await gathering.collect(), metric_list.JOBS_HELD) == 3
    store.is_broken = True
    moment[0] += 6
    found = await gathering.collect()
    assert value(found, metric_list.JOBS_HELD) is None
    assert value(found, metric_list.SCRAPE_ERRORS, "store") == 1
    store.is_broken = False
    assert value(await gathering.collect(), metric_list.JOBS_HELD) == 3


async def test_a_source_that_fails_hides_no_other() -> None:
    """Not even half of its own figures are shown."""

    def fail() -> Iterator[Sample]:
        yield JOBS
        raise ValueError("broken")

    gathering = Gathering()
    gathering.read("broken", fail)
    gathering.read("memory", read)
    found = await gathering.collect()
    assert value(found, metric_list.JOBS_HELD) is None
    assert value(found, metric_list.SCRAPE_ERRORS, "broken") == 1
    assert value(found, metric_list.TURNS) == 7


async def test_closing_ends_what_is_asked() -> None:
    """A store that hangs does not keep the process."""
    has_ended = asyncio.Event()

    async def hang() -> Sequence[Sample]:
        try:
            await asyncio.Event().wait()
        finally:
            has_ended.set()
        return ()

    gathering = Gathering(patience=0.01)
    gathering.ask("store", hang)
    await gathering.collect()
    gathering.close()
    async with asyncio.timeout(30):
        await has_ended.wait()


def test_each_outcome_is_counted() -> None:
    """Also those that took long."""
    metrics = CallMetrics()
    for outcome in (Answer(204, elapsed=3), Answer(503, elapsed=4_000), Fault(FaultKind.EGRESS, "no", 1)):
        metrics.count(outcome)
    found = list(metrics.samples())
    counts = {one.labels[0]: one.value for one in found if one.family == metric_list.CALLS.name}
    assert {name for name, count in counts.items() if count} == {"2xx", "5xx", "egress"}
    assert buckets(found, metric_list.CALL_DURATION) == {0.002: 1, 0.005: 1, 5: 1}
    assert value(found, metric_list.CALL_DURATION) == 4.004


CHILD = "from scheduler_service.telemetry.metrics.process_metrics import process_age; print(process_age())"


def test_the_age_is_that_of_the_process() -> None:
    """It grows as time does, and one that was started later is younger."""
    began, before = time.monotonic(), process_age()
    child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
    after = process_age()
    passed = (time.monotonic() - began) * 1_000
    assert 0 < before <= after <= before + passed + 100
    assert 0 < int(child.stdout) < passed + 100
