"""Answers that nobody reads, from more callers than there are descriptors."""

from datetime import datetime
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import SMALL_BUFFER, get, many_clients
from tests.attack.service import fill, open_service
from tests.faults.processes import Fleet

pytestmark = pytest.mark.anyio
CALLERS = 280
FEW = {"NOFILE": (128, 256)}
DRAIN_SECONDS = 1
# The last answers, the cutting off, and a machine that has much else to do.
FURTHER_SECONDS = 10


async def test_many_answers_that_nobody_reads(fleet: Fleet, tmp_path: Path) -> None:
    """They shut nobody out, fill no memory, and the service ends on time while they stay."""
    settings = {"server.drain_seconds": DRAIN_SECONDS, "limits.body_bytes": 1 << 22}
    async with (
        open_service(fleet, tmp_path / "data", limits=FEW, settings=settings) as service,
        open_bystander(service) as bystander,
    ):
        await fill(service)
        asked = get("/jobs?limit=500") * 3
        async with many_clients(service.url, CALLERS, first=asked, buffer=SMALL_BUFFER):
            await service.run.until(service.is_live, "the service says that it lives")
            await bystander.check()
            assert service.logged("descriptors_exhausted") == []
            assert await service.run.terminate() == 0
        (began,), (ended,) = service.logged("draining"), service.logged("stopped")
    moments = [datetime.fromisoformat(line["timestamp"]) for line in (began, ended)]
    assert (moments[1] - moments[0]).total_seconds() < DRAIN_SECONDS + FURTHER_SECONDS
