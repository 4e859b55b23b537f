"""The scan and the report of drift look at the jobs of a service few at a time."""

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from scheduler_service.domain.services import Service
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.services.declared import Declarations, DriftKind
from scheduler_service.services.drift import PAGE_BYTES, DriftReport
from scheduler_service.services.instances import Instances
from scheduler_service.services.reconcile_inputs import READ_AT_ONCE, ReconcileInputs
from scheduler_service.services.registry import Registry, TimerDeclaration, digest_of
from tests.unit.services.tables import MemoryTable, StandingClock

JOBS = 3 * READ_AT_ONCE


class Compiled:
    """Stands for a compiled definition, which takes much memory."""


class Shop:
    """A service that declares `JOBS` jobs, none of which exists yet."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Compiled] = weakref.WeakSet()
        self.most_asked = 0
        self.reading = self.most_reading = 0
        clock = StandingClock()
        self.registry = Registry(table=MemoryTable(), instances=Instances(), clock=clock)
        self.inputs = ReconcileInputs(
            declarations=Declarations(registry=self.registry, apart=run),
            table=MemoryTable(),
            entries=self._entries,
            definition=cast(Any, None),
            read_job=cast(Any, None),
            compile_text=cast(Any, self._compile),
            clock=clock,
        )

    async def declare(self, *job_ids: str) -> Service:
        text = msgspec.json.encode([{"jobId": job_id} for job_id in job_ids])
        service = Service(tenant="default", name="shop")
        return (await self.registry.register(service, TimerDeclaration(digest_of(text), text)))[0]

    async def _entries(self, job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
        self.most_asked = max(self.most_asked, len(job_ids))
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        await asyncio.sleep(0)
        self.reading -= 1
        return {}

    async def _compile(self, text: bytes) -> Compiled:
        compiled = Compiled()
        self.alive.add(compiled)
        return compiled


async def run(work: Callable[[], Any]) -> Any:
    """Work that is done beside the loop, here at once."""
    return work()


@pytest.fixture
def shop() -> Shop:
    """One for each test."""
    return Shop()


IDS = [f"job-{number:02}" for number in range(JOBS)]


async def test_findings_are_made_one_by_one(shop: Shop) -> None:
    """With the compiled definition of one job in memory, and the entries of few."""
    service = await shop.declare(*IDS)
    seen, most = [], 0
    async for finding in shop.inputs.look(service):
        most = max(most, len(shop.alive))
        seen.append((finding.case.job_id, finding.verdict.kind))
    assert seen == [(job_id, DriftKind.MISSING) for job_id in IDS]
    assert most <= 2
    assert shop.most_asked == READ_AT_ONCE


async def test_a_report_looks_no_further_than_its_page(shop: Shop) -> None:
    """Neither before the cursor nor behind the last job; few definitions are in memory."""
    service = await shop.declare(*IDS)
    report = DriftReport(inputs=shop.inputs, apart=run)
    items, last = await report.read(service, after="job-02", limit=2)
    assert [msgspec.json.decode(one)["jobId"] for one in items] == ["job-03", "job-04"]
    assert last == "job-04"
    assert shop.most_asked == READ_AT_ONCE
    assert len(shop.alive) <= 1
    items, last = await report.read(service, after=IDS[-2], limit=2)
    assert (len(items), last) == (1, None)


async def test_a_report_ends_early_where_its_items_are_large(shop: Shop) -> None:
    """At 4 MiB; the next one goes on behind its last job."""
    ids = [name + "x" * (PAGE_BYTES // 2 - 10_000) for name in "abc"]
    service = await shop.declare(*ids)
    report = DriftReport(inputs=shop.inputs, apart=run)
    items, last = await report.read(service, after="", limit=500)
    assert (len(items), last) == (2, ids[1])
    items, last = await report.read(service, after=ids[1], limit=500)
    assert (len(items), last) == (1, None)


async def test_one_report_is_made_at_a_time(shop: Shop) -> None:
    """Each has the declared texts in memory."""
    service = await shop.declare(*IDS)
    report = DriftReport(inputs=shop.inputs, apart=run)
    found = await asyncio.gather(*(report.read(service, after="", limit=500) for _ in range(4)))
    assert [len(items) for items, _ in found] == [JOBS] * 4
    assert shop.most_reading == 1


async def test_a_declaration_that_changes_meanwhile_ends_the_scan(shop: Shop) -> None:
    """Nothing is done by a text that is not there; the next scan sees the new declaration."""
    old = await shop.declare("a", "b")
    assert [one.case.job_id async for one in shop.inputs.look(old)] == ["a", "b"]
    await shop.declare("c")
    with pytest.raises(StoreUnavailable):
        _ = [one async for one in shop.inputs.look(old)]
