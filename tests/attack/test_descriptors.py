"""Few descriptors: slow targets and silent callers leave everybody else what they need."""

import asyncio
from pathlib import Path

import pytest

from tests.attack.bystander import JOB, open_bystander
from tests.attack.client import get, many_clients
from tests.attack.service import Service, job, open_service
from tests.attack.target import held
from tests.unit.transport.servers import Stage

FEW = {"NOFILE": (128, 256)}
EACH = 80
SLOW = 3
# On a machine that has much else to do, no limit of time of a call, an attempt or a head is to matter.
LONG = 600
SETTINGS = {
    "defaults.http_timeout_seconds": LONG,
    "defaults.timeout_seconds": LONG,
    "limits.head_seconds": LONG,
}


async def end_all(service: Service, wanted: int) -> set[str]:
    """The states in which so many executions, those of the bystander aside, have ended."""

    async def states() -> set[str]:
        found: dict[str, str] = {}
        cursor: dict[str, str] = {}
        while True:
            page = await service.run.read("/executions", limit=500, **cursor)
            others = [one for one in page["items"] if one["jobId"] != JOB and one["endedAt"]]
            found |= {one["executionId"]: one["state"] for one in others}
            if page["nextCursor"] is None:
                break
            cursor = {"cursor": page["nextCursor"]}

        return set(found.values()) if len(found) == wanted else set()

    found: set[str] = await service.run.until(states, f"{wanted} executions have ended")
    return found


@pytest.mark.long
async def test_slow_targets_leave_a_healthy_one_what_it_needs(stage: Stage, tmp_path: Path) -> None:
    """Three with 80 calls each at one moment, over 256 descriptors: they wait in line, and all succeed."""
    release = asyncio.Event()
    slow = [await stage.server(held(release.wait)) for _ in range(SLOW)]
    async with (
        open_service(tmp_path / "data", limits=FEW, settings={**SETTINGS, "server.workers": 2}) as service,
        open_bystander(service) as bystander,
    ):
        for number, target in enumerate(slow):
            jobs = [job(f"slow-{number}-{one}", target.url) for one in range(EACH)]
            assert (await service.run.ask("POST", "/jobs", json=jobs)).is_success

        async def is_short() -> bool:
            return bool(service.logged("calls_delayed"))

        await service.run.until(is_short, "calls wait for descriptors")
        await bystander.check()
        assert await service.is_live()
        release.set()
        assert await end_all(service, SLOW * EACH) == {"succeeded"}
        await bystander.check()
        lines = [*service.logged(), *service.logged_by_workers()]
        assert [line["limit"] for line in lines if line["event"] == "descriptors_set"] == [256, 256]
        assert [line for line in lines if line["event"] == "descriptors_exhausted"] == []


async def test_callers_without_a_request_keep_nobody_out(tmp_path: Path) -> None:
    """More than there are descriptors: silent ones, heads that stop half way, answers that nobody reads."""
    async with (
        open_service(tmp_path / "data", limits=FEW, settings=SETTINGS) as service,
        open_bystander(service) as bystander,
    ):
        for said in (b"", get("/health/live")[:-2], get("/health/live")):
            async with many_clients(service.url, 300, first=said):
                await service.run.until(service.is_live, "the service says that it lives")
                await bystander.check()
        lines = service.logged("connections_closed")
        assert [line["limit"] for line in lines] == [64] * len(lines)
        assert lines[0]["overLimit"] >= 1  # written at the first one
        assert service.logged("descriptors_exhausted") == []
