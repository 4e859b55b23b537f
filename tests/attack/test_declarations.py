"""Services that declare as much as they may: what is kept is bounded, whatever many they are."""

from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import Service, open_service

pytestmark = pytest.mark.timeout(180)
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
