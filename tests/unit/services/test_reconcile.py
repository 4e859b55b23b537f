"""The scan of a declaration, and the report of drift, look at few jobs at a time and share the loop."""

import asyncio
import json
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, cast
from weakref import WeakSet

import msgspec
import pytest

from scheduler_service.domain.registered_services import Service
from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.engine.program import GROUP_BYTES, weigh
from scheduler_service.pacing.slices import SLICE_BYTES
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.services.declared_jobs import Action, Case, DriftKind, Verdict
from scheduler_service.services.drift_report import PAGE_BYTES, DriftReport
from scheduler_service.services.instances import Instances
from scheduler_service.services.reconcile import (
    BATCH_SIZE,
    READ_AT_ONCE,
    TURNS_AT_ONCE,
    Finding,
    Reconcile,
    ReconcileInputs,
)
from scheduler_service.services.registry import Registry, TimerDeclaration, digest_of
from tests.unit.services.tables import MemoryTable, StandingClock

SERVICE = Service(tenant="default", name="shop", digest=b"d")


class Findings:
    """Inputs that find jobs to create, each with a definition of `size` bytes."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def look(self, service: Service, *, force: bool, anew: bool) -> AsyncIterator[Finding]:
        """More than run at once."""
        definition = Definition(b"x" * self._size, cast(Any, None))
        verdict = Verdict(DriftKind.MISSING, Action.CREATE)
        for number in range(3 * TURNS_AT_ONCE):
            yield Finding(Case(service, f"job-{number}", None, None, None, 0), verdict, definition)


@pytest.mark.parametrize(("size", "most"), [(SLICE_BYTES, 1), (10, TURNS_AT_ONCE)])
async def test_turns_of_large_definitions_begin_one_in_a_round(
    size: int, most: int, table: MemoryTable, clock: StandingClock, registry: Registry
) -> None:
    """Each takes about 2 ms of the loop; those of small ones begin together and share a commit."""
    begun: list[int] = []
    rounds = 0

    async def deliver(job_id: str, command: Command) -> Refusal:
        begun.append(rounds)
        await asyncio.sleep(0)
        return Refusal(RefusalCode.ABSENT, "")

    scan = Reconcile(
        registry=registry,
        table=table,
        inputs=cast(Any, Findings(size)),
        deliver=cast(Any, deliver),
        clock=clock,
    )
    scanning = asyncio.ensure_future(scan.apply(SERVICE))
    while not scanning.done():
        await asyncio.sleep(0)
        rounds += 1
    await scanning
    assert len(begun) == 3 * TURNS_AT_ONCE
    assert max(begun.count(one) for one in begun) == most


JOBS, DEAR_JOBS = 200, 40
DEAR = [[] for _ in range(20_000)]


class Compiled:
    """A program, of which nothing is known but whether somebody still has it."""


class Compiler:
    """Counts what it has compiled, and how much of it was there at one moment."""

    def __init__(self) -> None:
        self.count = self.most = 0
        self._alive: WeakSet[Compiled] = WeakSet()

    async def compile(self, text: bytes, tenant: str) -> Any:
        """One more."""
        made = Compiled()
        self._alive.add(made)
        self.count += 1
        self.most = max(self.most, len(self._alive))
        return made


class Scene:
    """A service that declares jobs, none of which exists, each with the same body."""

    def __init__(self, registry: Registry, table: MemoryTable, clock: StandingClock) -> None:
        self.compiler = Compiler()
        self.inputs = ReconcileInputs(
            registry=registry,
            apart=run,
            table=table,
            entries=_none,
            definition=cast(Any, None),
            read_job=cast(Any, None),
            compile_text=self.compiler.compile,
            clock=clock,
        )
        self.delivered: list[str] = []
        self.scan = Reconcile(
            registry=registry, table=table, inputs=self.inputs, deliver=cast(Any, self._deliver), clock=clock
        )
        self._registry = registry

    async def declare(self, body: object, jobs: int) -> Service:
        """The service; `weight` is from then on what one of its definitions weighs."""
        texts = [json.dumps({"jobId": f"job-{number:03}", "body": body}) for number in range(jobs)]
        self.weight = weigh(texts[0].encode())
        declaration = TimerDeclaration(b"d", f"[{','.join(texts)}]".encode())
        service, _ = await self._registry.register(Service(tenant="default", name="shop"), declaration)
        return service

    async def _deliver(self, job_id: str, command: Command) -> Refusal:
        self.delivered.append(job_id)
        return Refusal(RefusalCode.ABSENT, "")


async def _none(job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
    return {}


@pytest.fixture
def stage(registry: Registry, table: MemoryTable, clock: StandingClock) -> Scene:
    """An empty one."""
    return Scene(registry, table, clock)


async def test_a_scan_has_one_group_of_dear_definitions_at_a_time(stage: Scene) -> None:
    """All are created, in order; those of the group before are gone."""
    await stage.scan.apply(await stage.declare(DEAR, DEAR_JOBS))
    assert stage.delivered == [f"job-{number:03}" for number in range(DEAR_JOBS)]
    most = GROUP_BYTES // stage.weight + 2
    assert stage.compiler.most <= most < DEAR_JOBS < BATCH_SIZE


DECLARED = 3 * READ_AT_ONCE


class Shop:
    """A service that declares `DECLARED` jobs, none of which exists yet."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Compiled] = weakref.WeakSet()
        self.most_asked = 0
        self.reading = self.most_reading = 0
        clock = StandingClock()
        self.registry = Registry(table=MemoryTable(), instances=Instances(), clock=clock)
        self.inputs = ReconcileInputs(
            registry=self.registry,
            apart=run,
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

    async def _compile(self, text: bytes, tenant: str) -> Compiled:
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


IDS = [f"job-{number:02}" for number in range(DECLARED)]


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
    assert [len(items) for items, _ in found] == [DECLARED] * 4
    assert shop.most_reading == 1
