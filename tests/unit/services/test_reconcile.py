"""The scan of a service's declaration shares the loop with others."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from scheduler_service.domain.replies import Refusal, RefusalCode
from scheduler_service.domain.services import Service
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.slices import SLICE_BYTES
from scheduler_service.services.declared import Action, Case, DriftKind, Verdict
from scheduler_service.services.reconcile import TURNS_AT_ONCE, Reconcile
from scheduler_service.services.reconcile_inputs import Finding
from scheduler_service.services.registry import Registry
from tests.unit.services.tables import MemoryTable, StandingClock

pytestmark = pytest.mark.anyio
SERVICE = Service(tenant="default", name="shop", digest=b"d")


class Findings:
    """Inputs that find jobs to create, each with a definition of `size` bytes."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def look(self, service: Service, *, force: bool, anew: bool) -> AsyncIterator[list[Finding]]:
        """More than run at once."""
        definition = Definition(b"x" * self._size, cast(Any, None))
        verdict = Verdict(DriftKind.MISSING, Action.CREATE)
        cases = (Case(service, f"job-{n}", None, None, None, 0) for n in range(3 * TURNS_AT_ONCE))
        yield [Finding(case, verdict, definition) for case in cases]


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
