"""An incident of load: a flood of triggers for one job."""

import asyncio
from pathlib import Path

import pytest

from tests.tour.scene import scene

FLOOD, BEFORE, ROOM = 150, 30, 100
LINES_OF_A_FLOOD = 10


@pytest.mark.long
async def test_a_flood_of_triggers(tmp_path: Path) -> None:
    """What waits is a figure, what has no room is summed up in the log; the job's own firings are overdue."""
    async with scene(tmp_path / "data", "overdue", alert={"overdueSeconds": 1}) as at:
        watch, url = at.watch, f"{at.target.url}/flooded"
        gate = at.target.hold("/flooded")
        members = {"overlapPolicy": "queue", "queueLimit": ROOM, "timeoutSeconds": 600}
        await at.create("flooded", url, timer={"dueTime": "0s", "period": "R2/PT1S"}, **members)
        watch.start("flood of triggers")
        await asyncio.gather(*(at.trigger("flooded") for _ in range(BEFORE)))

        async def has_fired() -> bool:
            executions = (await at.run.read("/jobs/flooded/executions", limit=500))["items"]
            return [one["triggeredBy"] for one in executions].count("timer") == 2

        await at.run.until(has_fired, "its timer has fired amid the flood")
        await asyncio.gather(*(at.trigger("flooded") for _ in range(FLOOD - BEFORE)))
        route = {"route": "/jobs/{jobId}/trigger", "status": "200"}
        await watch.metric("punctual_api_requests_total", lambda count: count == FLOOD, **route)
        await watch.metric("punctual_executions_waiting", lambda count: count >= ROOM - 1)
        await watch.line("trigger_skipped", jobId="flooded", reason="queue_full")
        await watch.alert("overdue", subject="flooded")
        assert len(at.service.logged("trigger_skipped")) <= LINES_OF_A_FLOOD
        gate.set()
        watch.start("flood worked off")
        await watch.metric("punctual_executions_waiting", lambda count: count == 0)
        await watch.recovered("overdue", subject="flooded")
