"""Many jobs at one moment, each of which keeps large responses for its later steps."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import Service, job, open_service
from tests.attack.target import saying
from tests.unit.transport.servers import Stage

JOBS = 150
LENGTH = 900_000
"""Together 135 MB after the first of two steps."""
AHEAD = timedelta(seconds=3)


def keeping(target: str, number: int, due: str) -> dict[str, Any]:
    """A job whose last step needs the two responses before it."""
    steps = [
        {"url": f"{target}/one"},
        {"url": f"{target}/two"},
        {"url": f"{target}/last", "body": ["${responses[0].text}", "${responses[1].text}"]},
    ]
    return job(f"kept-{number}", "", request=steps, timer={"dueTime": due})


async def ended(service: Service) -> list[dict[str, Any]]:
    """The executions of these jobs, when all have ended."""

    async def look() -> list[dict[str, Any]]:
        stats = await service.run.read("/stats")
        if stats["jobs"].get("finished", 0) < JOBS or stats["running"]:
            return []
        found = []
        for state in ("succeeded", "terminated"):
            page = await service.run.ask("GET", "/executions", params={"state": state, "limit": 500})
            found += [one for one in page.json()["data"]["items"] if one["jobId"].startswith("kept-")]
        return found if len(found) == JOBS else []

    found: list[dict[str, Any]] = await service.run.until(look, "all have ended")
    return found


@pytest.mark.long
async def test_their_sum_is_limited(stage: Stage, tmp_path: Path) -> None:
    """Each ends well, or says which limit it met; memory is bounded, and the bystander's firings succeed."""
    target = await stage.server(saying({"text": "x" * LENGTH}))
    due = (datetime.now(UTC) + AHEAD).isoformat(timespec="milliseconds")
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        jobs = [keeping(target.url, number, due) for number in range(JOBS)]
        answer = await service.run.ask("POST", "/jobs", json=jobs)
        assert answer.status_code == 200, answer.text
        found = await ended(service)
        errors = {one["error"] for one in found}
        assert errors == {None, "response_too_large"}
        assert all("limits.open_bytes" in one["message"] for one in found if one["error"])
        gauges = (await service.run.ask("GET", "/metrics")).text
        assert 'punctual_open_bytes{process="0"} 0' in gauges
        await service.create(
            job("after", f"{target.url}/one", request=keeping(target.url, 0, due)["request"])
        )

        async def look() -> bool:
            page = await service.run.ask(
                "GET", "/executions", params={"state": "succeeded", "jobId": "after"}
            )
            return bool(page.json()["data"]["items"])

        await service.run.until(look, "one that runs alone succeeds")
        await bystander.check()
