"""Definitions, declarations and requests about many jobs as large and dear as they may be: what is kept of
them is bounded, and the others go on.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.client import get, open_client, post
from tests.attack.service import Service, fill, open_service

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


SERVICES = 9
TEXT = "x" * 15_000
EVENT = "declarations_exceeded"


async def _register(service: Service, name: str, count: int) -> int:
    timers = [
        {
            "jobId": f"{name}-{number}",
            "jobName": name,
            "timer": {"period": "external"},
            "jobDescription": TEXT,
        }
        | {"request": [{"url": "http://127.0.0.1:9/x"}]}
        for number in range(count)
    ]
    answer = await service.run.ask("PUT", f"/services/{name}", json={"timers": timers})
    return answer.status_code


@pytest.mark.long
async def test_nine_services_with_many_large_jobs(tmp_path: Path) -> None:
    """What does not fit is 413, within 300 MiB; less than before is taken, a lower limit is in the log."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        found = [await _register(service, f"s-{number}", 250) for number in range(SERVICES)]
        renewed = await _register(service, "s-0", 249)
        await bystander.check()
        assert service.logged(EVENT) == []
    assert set(found) == {201, 413}, found
    assert renewed == 200
    settings = {"services.declared_bytes": 1_000_000}
    async with open_service(tmp_path / "data", settings=settings) as service:
        (line,) = service.logged(EVENT)
        assert line["bytes"] > line["limit"] == 1_000_000
        assert [await _register(service, "s-0", count) for count in (248, 249)] == [200, 413]


@pytest.mark.long
async def test_a_thousand_dear_jobs_of_one_service(tmp_path: Path) -> None:
    """Created, changed and shown within 300 MiB: compiled at once they took 400 MiB, and kept most of it."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        for version, status in ((1, 201), (2, 200)):
            body = {"timers": [_dear(number, version) for number in range(1_000)]}
            answer = await service.run.ask("PUT", "/services/dear", json=body, timeout=100)
            assert answer.status_code == status, answer.text
        drift = await service.run.ask("GET", "/services/dear/drift", timeout=100)
        assert drift.json()["data"]["items"] == []
        await bystander.check()


def _dear(number: int, version: int) -> dict[str, object]:
    """4 KiB, which take 60 once they are compiled."""
    body = {"arrays": [[] for _ in range(900)], "number": number, "version": version}
    return {
        "jobId": f"dear-{number}",
        "jobName": "dear",
        "timer": {"period": "external"},
        "request": [{"url": "http://127.0.0.1:9/x", "body": body}],
    }


CALLERS = 12
ROUNDS = 2
LETTERS = 1_000_000


def _bulk(path: str, action: str, **select: object) -> bytes:
    return post(path, json.dumps({"action": action, "select": select}).encode())


def _attacks() -> list[bytes]:
    """Names and filters of a MiB, and what there is of operations."""
    names = [f"none-{number}" for number in range(LETTERS // 14)]
    return [
        _bulk("/bulk/jobs", "pause", jobIds=names),
        _bulk("/bulk/jobs", "pause", jobIds=names[:5_000]),
        _bulk("/bulk/executions", "cancel", executionIds=names),
        _bulk("/bulk/jobs", "pause", filter={"label": [f"a:{name}" for name in names[: LETTERS // 20]]}),
        _bulk("/bulk/jobs", "pause", filter={"search": "x" * LETTERS}),
        _bulk("/bulk/jobs", "pause", filter=dict.fromkeys(names[: LETTERS // 20], "x")),
        *[get("/operations/none"), get(f"/operations/{'x' * 250}")] * 20,
    ]


async def _send(service: Service, asked: list[bytes]) -> set[int]:
    async with open_client(service.url) as client:
        found = set()
        for request in asked:
            await client.say(request)
            found.add((await client.answer())[0])
        return found


@pytest.mark.long
async def test_selections_at_full_length(tmp_path: Path) -> None:
    """Refused, done for what there is, or told to wait; the others go on, within 300 MiB."""
    asked = _attacks()
    async with (
        open_service(tmp_path / "data") as service,
        open_bystander(service) as bystander,
    ):
        await fill(service, 50)
        found = await asyncio.gather(*(_send(service, asked * ROUNDS) for _ in range(CALLERS)))
        await bystander.check()
    statuses = set().union(*found)
    assert statuses <= {200, 202, 404, 413, 422, 429, 503}, statuses
    assert {202, 404, 422} <= statuses, statuses
