"""Alerts of a running service: what is sent, how often, and what `GET /alerts` shows (section 14)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.wire.service import World, data_of, running
from tests.wire.target import Seen

pytestmark = pytest.mark.anyio
HOOK = "service://jobswork/hook"


@asynccontextmanager
async def alerting(*alerts: dict[str, Any], **settings: Any) -> AsyncIterator[World]:
    """A service with these alerts, whose messages go to the target at `/hook`."""
    given = [{"url": HOOK, **alert} for alert in alerts]
    async with running(alerts=given, **settings) as world:
        yield world


async def create(world: World, job_id: str, **members: Any) -> None:
    """A job that calls the target at `/run` when it is triggered."""
    definition = {
        "jobName": job_id,
        "creator": "tests",
        "creatorName": "tests",
        "timer": {"period": "external"},
        "request": [{"url": f"service://jobswork/run/{job_id}"}],
        **members,
    }
    answer = await world.client.post(f"/jobs/{job_id}", json=definition)
    assert answer.status_code == 201, answer.text


async def run(world: World, job_id: str) -> None:
    """One execution, to its end."""
    started = await world.client.post(f"/jobs/{job_id}/trigger", json={})
    await world.ended(data_of(started)["executionId"])


async def told(
    world: World, holds: Callable[[list[Seen]], bool], *, seconds: int = 60
) -> list[dict[str, Any]]:
    """The messages, once `holds` is true of them; the clock runs on meanwhile."""
    for _ in range(seconds):
        if holds(world.target.at("/hook")):
            break
        await world.advance(1)
    found = world.target.at("/hook")
    assert holds(found), (found, world.log)
    return [one.json for one in found]


def many(count: int) -> Callable[[list[Seen]], bool]:
    """At least so many."""
    return lambda found: len(found) >= count


async def test_a_failed_execution_is_told() -> None:
    """Within seconds, with its job, execution and error, and one sentence for a chat."""
    async with alerting({"name": "ops", "on": ["finalFailed"]}) as world:
        world.target.always("/run", 500)
        await create(world, "nightly")
        await run(world, "nightly")
        (message,) = await told(world, many(1))
        assert (message["alert"], message["kind"], message["jobId"]) == ("ops", "finalFailed", "nightly")
        assert (message["error"], message["count"]) == ("500", 1)
        assert message["text"].startswith("[ops] The job nightly failed in its execution 1 (500")
        shown = data_of(await world.client.get(f"/executions/{message['executionId']}"))
        assert shown["state"] == "terminated"


async def test_a_job_fails_three_times_and_recovers() -> None:
    """`failing` is told once, `recovered` once, with what has recovered and since when."""
    async with alerting({"on": ["failing"], "minIntervalSeconds": 0}) as world:
        world.target.always("/run", 500)
        await create(world, "nightly")
        for _ in range(2):
            await run(world, "nightly")
        await world.advance(5)
        assert not world.target.at("/hook")
        for _ in range(2):
            await run(world, "nightly")
            await world.advance(3)
        (message,) = await told(world, many(1))
        assert (message["kind"], message["subject"]) == ("failing", "nightly")
        assert "failed 3 times in a row" in message["text"]
        (line,) = data_of(await world.client.get("/alerts"))["open"]
        assert (line["kind"], line["subject"], line["since"]) == ("failing", "nightly", message["since"])
        world.target.always("/run", 200)
        await run(world, "nightly")
        message = (await told(world, many(2)))[1]
        assert (message["kind"], message["of"], message["subject"]) == ("recovered", "failing", "nightly")
        assert message["since"] == line["since"]
        assert data_of(await world.client.get("/alerts"))["openCount"] == 0
