"""Incidents at a target, which is down, slow, wrong, or may not be reached, and one of load."""

import asyncio
from pathlib import Path

import pytest

from tests.tour.scene import Address, scene

OFTEN = {"dueTime": "0s", "period": "PT0.3S"}


@pytest.mark.long
async def test_a_target_is_down(tmp_path: Path) -> None:
    """Each execution is a line with the host; the job is failing, and well again with its target."""
    address = Address()
    async with scene(tmp_path / "data", "failing") as at:
        watch = at.watch
        watch.start("target down")
        await at.create("nightly", f"http://{address.host}/one", timer=OFTEN)
        line = await watch.line("execution_failed", jobId="nightly", target=address.host)
        assert (line["level"], line["failureType"], line["step"]) == ("warning", "connect", 0)
        await watch.metric("punctual_calls_total", lambda count: count >= 3, outcome="connect")
        message = await watch.alert("failing", subject="nightly", failureType="connect")
        assert "failed 3 times in a row" in message["text"]
        async with address.served_by(at.target):
            watch.start("target up again")
            await watch.metric("punctual_executions_total", lambda count: count >= 1, outcome="succeeded")
            await watch.recovered("failing", subject="nightly")


@pytest.mark.long
async def test_a_target_is_slow(tmp_path: Path) -> None:
    """What it does not answer in time fails by `timeout`; firings that wait behind it are overdue."""
    async with scene(tmp_path / "data", "overdue", alert={"overdueSeconds": 1}) as at:
        watch = at.watch
        gate = at.target.hold("/slow")
        watch.start("target slow")
        members = {"timer": {"dueTime": "0s", "period": "R3/PT0.3S"}, "overlapPolicy": "queue"}
        # The second firing waits three seconds after it is overdue, and a look at alerts comes each second.
        await at.create("slow", f"{at.target.url}/slow", timeoutSeconds=4, **members)
        await watch.alert("overdue", subject="slow", latenessMs=None)
        line = await watch.line("execution_failed", jobId="slow", failureType="timeout")
        assert line["target"] == at.target.url.removeprefix("http://")
        assert (await watch.line("firing_delayed", jobId="slow"))["lateMs"] > 1_000
        await watch.metric("punctual_executions_total", lambda count: count >= 1, error="timeout")
        gate.set()
        watch.start("target fast again")
        await watch.recovered("overdue", subject="slow")


@pytest.mark.long
async def test_a_template_is_wrong(tmp_path: Path) -> None:
    """Nothing is sent; line and alert name the template, the job is well once it is corrected."""
    async with scene(tmp_path / "data", "failing", "finalFailed", alert={"failingCount": 1}) as at:
        watch = at.watch
        request = [{"url": f"{at.target.url}/one", "body": {"amount": "${trigger.amount}"}}]
        await at.create("bill", at.target.url, request=request)
        watch.start("wrong template")
        execution = await at.trigger("bill", {})
        line = await watch.line("execution_failed", jobId="bill", failureType="template")
        assert line["executionId"] == execution
        await watch.metric("punctual_executions_total", lambda count: count >= 1, error="template")
        await watch.alert("finalFailed", executionId=execution, failureType="template")
        await watch.alert("failing", subject="bill")
        assert not at.target.to("/one")
        watch.start("right template")
        await at.trigger("bill", {"amount": 3})
        await watch.recovered("failing", subject="bill")


@pytest.mark.long
async def test_egress_is_refused(tmp_path: Path) -> None:
    """A rule of egress that was narrowed: the line names the host, and nothing goes out."""
    alert = {"failingCount": 1, "url": "service://receiver/hook"}
    on, folder = ("failing", "finalFailed"), tmp_path / "data"
    async with scene(folder, *on, alert=alert) as before:
        await before.create("led", f"{before.target.url}/one")
    async with scene(folder, *on, alert=alert, egress__deny=["127.0.0.1"]) as at:
        watch = at.watch
        watch.start("egress refused")
        execution = await at.trigger("led")
        line = await watch.line("execution_failed", jobId="led", error="egress")
        assert (line["executionId"], line["target"]) == (execution, before.target.url.removeprefix("http://"))
        await watch.metric("punctual_calls_total", lambda count: count >= 1, outcome="egress")
        await watch.alert("finalFailed", executionId=execution, error="egress")
        await watch.alert("failing", subject="led")
        await at.update("led", "service://receiver/one")
        watch.start("led elsewhere")
        await at.trigger("led")
        await watch.recovered("failing", subject="led")


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
