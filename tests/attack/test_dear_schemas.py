"""Schemas and templates that a definition has, and that are short but dear to check, to run or to fill."""

from pathlib import Path
from typing import Any

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import Service, job, open_service
from tests.attack.target import saying
from tests.faults.stories import TERMINAL
from tests.unit.transport.servers import Stage

pytestmark = pytest.mark.timeout(120)
NOWHERE = "http://127.0.0.1:9/x"
LETTERS = r"(\pL{1,20}\pN{1,20}){1,3}"
BRANCHES = {"properties": {"a": {"anyOf": [{"type": "string"}] * 600}}}


def with_patterns(number: int) -> dict[str, Any]:
    """A job whose schema has a hundred patterns that no other job has."""
    patterns = [{"pattern": f"{LETTERS}{number}-{index}"} for index in range(100)]
    return job(f"dear-{number}", NOWHERE, timer={"period": "external"}, paramsSchema={"allOf": patterns})


async def test_patterns_that_are_large_once_they_are_compiled(tmp_path: Path) -> None:
    """2 KiB of them took 2 s of the loop and a GiB: they are refused, and name what to do."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        answer = await service.run.ask("POST", "/jobs", json=[with_patterns(number) for number in range(20)])
        items = answer.json()["data"]["items"]
        assert {item["status"] for item in items} == {"refused"}
        assert "maxLength" in items[0]["problem"]["detail"]
        await bystander.check()


@pytest.mark.long
async def test_a_list_that_fits_no_branch(tmp_path: Path) -> None:
    """Each branch repeated the whole list in its message: 600 of them took 400 MiB."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        await service.create(job("one", NOWHERE, timer={"period": "external"}, paramsSchema=BRANCHES))
        answer = await service.run.ask("POST", "/jobs/one/trigger", json={"a": list(range(100_000))})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/a"
        await bystander.check()


@pytest.mark.long
async def test_a_url_with_one_long_value_many_times(tmp_path: Path, stage: Stage) -> None:
    """It took 46 s, for what is then too long to be sent."""
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        url = (await stage.server(saying({"a": "/" * 900_000}))).url
        steps = [{"url": url}, {"url": f"{url}/?{'&a=${$.a}' * 500}"}]
        await service.create(job("one", url, request=steps))
        await service.run.until(lambda: _has_ended(service), "the job has ended")
        ended = (await service.run.read("/jobs/one/executions"))["items"][0]
        assert ended["error"] == "template"
        await bystander.check()


async def _has_ended(service: Service) -> bool:
    items = (await service.run.read("/jobs/one/executions"))["items"]
    return bool(items) and items[0]["state"] in TERMINAL
