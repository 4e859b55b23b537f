"""What is compiled to judge declared jobs is bounded, however many they are."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast
from weakref import WeakSet

import pytest

from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.domain.services import Service
from scheduler_service.engine.program_weight import GROUP_BYTES, weigh
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.services.declared import Declarations
from scheduler_service.services.drift import DriftReport
from scheduler_service.services.reconcile import Reconcile
from scheduler_service.services.reconcile_inputs import BATCH_SIZE, ReconcileInputs
from scheduler_service.services.registry import Registry, TimerDeclaration
from tests.unit.services.tables import MemoryTable, StandingClock

pytestmark = pytest.mark.anyio
JOBS = 200
DEAR = [[] for _ in range(20_000)]


class Compiled:
    """A program, of which nothing is known but whether somebody still has it."""


class Compiler:
    """Counts what it has compiled, and how much of it was there at one moment."""

    def __init__(self) -> None:
        self.count = self.most = 0
        self._alive: WeakSet[Compiled] = WeakSet()

    async def compile(self, text: bytes) -> Any:
        """One more."""
        made = Compiled()
        self._alive.add(made)
        self.count += 1
        self.most = max(self.most, len(self._alive))
        return made


class Scene:
    """A service that declares `JOBS` jobs, none of which exists, each with the same body."""

    def __init__(self, registry: Registry, table: MemoryTable, clock: StandingClock) -> None:
        self.compiler = Compiler()
        self.inputs = ReconcileInputs(
            declarations=Declarations(registry=registry, apart=_at_once),
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

    async def declare(self, body: object) -> Service:
        """The service; `weight` is from then on what one of its definitions weighs."""
        texts = [json.dumps({"jobId": f"job-{number:03}", "body": body}) for number in range(JOBS)]
        self.weight = weigh(texts[0].encode())
        declaration = TimerDeclaration(b"d", f"[{','.join(texts)}]".encode())
        service, _ = await self._registry.register(Service(tenant="default", name="shop"), declaration)
        return service

    async def _deliver(self, job_id: str, command: Command) -> Refusal:
        self.delivered.append(job_id)
        return Refusal(RefusalCode.ABSENT, "")


async def _none(job_ids: Sequence[str]) -> Mapping[str, CatalogueEntry]:
    return {}


async def _at_once(work: Callable[[], Any]) -> Any:
    return work()


@pytest.fixture
def stage(registry: Registry, table: MemoryTable, clock: StandingClock) -> Scene:
    """An empty one."""
    return Scene(registry, table, clock)


async def test_a_scan_has_one_group_of_dear_definitions_at_a_time(stage: Scene) -> None:
    """All are created, in order; those of the group before are gone."""
    await stage.scan.apply(await stage.declare(DEAR))
    assert stage.delivered == [f"job-{number:03}" for number in range(JOBS)]
    most = GROUP_BYTES // stage.weight + 1
    assert stage.compiler.most <= most < BATCH_SIZE


async def test_a_scan_of_usual_definitions_goes_in_batches(stage: Scene) -> None:
    """Their results are stored together."""
    await stage.scan.apply(await stage.declare(1))
    assert (len(stage.delivered), stage.compiler.most) == (JOBS, BATCH_SIZE)


async def test_drift_compiles_no_more_than_it_shows(stage: Scene) -> None:
    """A page ends the reading."""
    service = await stage.declare(DEAR)
    items = await DriftReport(inputs=stage.inputs).read(service, after="", limit=3)
    assert [item["jobId"] for item in items] == ["job-000", "job-001", "job-002"]
    assert stage.compiler.count == GROUP_BYTES // stage.weight + 1
    items = await DriftReport(inputs=stage.inputs).read(service, after="", limit=JOBS)
    assert len(items) == JOBS
    assert stage.compiler.most <= GROUP_BYTES // stage.weight + 1


async def test_many_who_read_drift_compile_no_more_than_one(stage: Scene) -> None:
    """Each waits for those before it."""
    service, report = await stage.declare(DEAR), DriftReport(inputs=stage.inputs)
    pages = await asyncio.gather(*(report.read(service, after="", limit=JOBS) for _ in range(3)))
    assert [len(page) for page in pages] == [JOBS] * 3
    assert stage.compiler.most <= GROUP_BYTES // stage.weight + 1
