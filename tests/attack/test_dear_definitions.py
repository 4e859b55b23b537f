"""Definitions that take much more memory than their text, as many as fit: what is kept of them is bounded."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import Service, open_service

pytestmark = pytest.mark.timeout(300)
ARRAYS, JOBS = 3, 1_000
HEADERS = 130
"""Of each job, none of which is in another: 2 KiB, which take 80 KiB once they are compiled."""


def _arrays() -> Iterator[bytes]:
    for array in range(ARRAYS):
        jobs = [
            {"jobId": f"dear-{array}-{number}", "jobName": "dear", "timer": {"period": "external"}}
            | {"request": [{"url": "http://127.0.0.1:9/x", "headers": _headers(number)}]}
            for number in range(JOBS)
        ]
        yield json.dumps(jobs, separators=(",", ":")).encode()


def _headers(number: int) -> dict[str, str]:
    return {f"a{number}-{one}": "1" for one in range(HEADERS)}


async def _post(service: Service, body: bytes) -> int:
    headers = {"content-type": "application/json"}
    answer = await service.run.ask("POST", "/jobs", content=body, headers=headers, timeout=100)
    assert answer.status_code == 200, answer.text
    return sum(one["status"] == "created" for one in answer.json()["data"]["items"])


@pytest.mark.long
async def test_arrays_of_dear_definitions(tmp_path: Path) -> None:
    """All jobs are created, within 300 MiB; the others go on."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        for body in _arrays():
            assert await _post(service, body) == JOBS
        await bystander.check()
