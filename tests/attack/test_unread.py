"""Answers that nobody reads, from more callers than there are descriptors."""

from datetime import datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import SMALL_BUFFER, get, many_clients
from tests.attack.service import Service, fill, job, open_service

CALLERS = 280
LARGE_CALLERS = 60
FEW = {"NOFILE": (128, 256)}
DRAIN_SECONDS = 1
# The last answers, the cutting off, and a machine that has much else to do.
FURTHER_SECONDS = 10


async def test_many_answers_that_nobody_reads(tmp_path: Path) -> None:
    """They shut nobody out, fill no memory, and the service ends on time while they stay."""
    settings = {"server.drain_seconds": DRAIN_SECONDS, "limits.body_bytes": 1 << 22}
    async with (
        open_service(tmp_path / "data", limits=FEW, settings=settings) as service,
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


async def read_large(service: Service) -> httpx.Response | None:
    """None: it is told to ask again, which a machine that has much else to do may have to say."""
    answer = await service.run.ask("GET", "/jobs/large/revisions", timeout=60)
    if answer.status_code == 503:
        assert answer.headers["retry-after"] == "1"
        return None
    assert answer.status_code == 200
    return answer


@pytest.mark.long
async def test_the_largest_answers_that_nobody_reads(tmp_path: Path) -> None:
    """Asked for at one moment, they are made a few at a time; who asks after them gets an answer."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        external = {"timer": {"period": "external"}}
        for number in range(5):
            definition = {**job("large", f"http://127.0.0.1:9/{number}"), **external}
            definition["request"] = [{"url": f"http://127.0.0.1:9/{number}", "body": {"a": "x" * 900_000}}]
            path = "/jobs/large/update" if number else "/jobs/large"
            answer = await service.run.ask("POST", path, json=definition)
            assert answer.status_code in (200, 201), answer.text
        asked = get("/jobs/large/revisions")
        async with many_clients(service.url, LARGE_CALLERS, first=asked, buffer=SMALL_BUFFER):
            answer = await service.run.until(partial(read_large, service), "a large answer is made")
            assert len(answer.content) > 3_000_000
            await bystander.check()
