"""Short definitions whose templates name a value many times: their bodies are hundreds of times as large."""

import asyncio
from pathlib import Path

import pytest

from tests.attack.bystander import open_bystander
from tests.attack.service import job, open_service
from tests.attack.target import held
from tests.unit.transport.servers import Stage

pytestmark = pytest.mark.timeout(120)

JOBS = 200
TIMES = 500
PARAMS = {"p": "w" * 3_500}
"""Together 350 MB in flight, of definitions and parameters of 2.7 MB."""


@pytest.mark.long
async def test_their_sum_is_limited(stage: Stage, tmp_path: Path) -> None:
    """Those that find no room fail and say so; the target has all others before it answers one."""
    answered = asyncio.Event()
    target = await stage.server(held(answered.wait), backlog=JOBS)
    async with open_service(tmp_path / "data") as service, open_bystander(service) as bystander:
        steps = [{"url": f"{target.url}/run", "body": ["${trigger.p}"] * TIMES}]
        labels = {"bodies": "large"}
        jobs = [
            job(f"grow-{number}", "", request=steps, labels=labels, qos=number % 2) for number in range(JOBS)
        ]
        created = await service.run.ask(
            "POST", "/jobs", json=[one | {"timer": {"period": "external"}} for one in jobs]
        )
        assert created.status_code == 200, created.text
        for one in jobs:
            started = await service.run.ask("POST", f"/jobs/{one['jobId']}/trigger", json=PARAMS)
            assert started.status_code == 200, started.text
        answered.set()

        async def have_ended() -> dict[str, int]:
            found = await service.run.read("/counts/executions", label="bodies:large")
            states: dict[str, int] = found["byState"]
            ended = states.get("succeeded", 0) + states.get("terminated", 0)
            return states if ended == JOBS else {}

        states = await service.run.until(have_ended, f"{JOBS} executions have ended")
        assert 40 <= states["succeeded"] < JOBS
        page = await service.run.read("/executions", state="terminated", limit=500)
        assert {one["error"] for one in page["items"]} == {"template"}
        assert all("limits.open_bytes" in one["message"] for one in page["items"])
        await bystander.check()
