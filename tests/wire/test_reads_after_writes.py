"""What an answer says is visible to every read that begins after it (SPEC section 10)."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.persistence.servers import shared_urls
from tests.wire.service import World, data_of, definition, running
from tests.wire.target import HELD

postgres_url = shared_urls


@pytest.fixture(params=["sqlite", "postgresql"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """A service with its history in either database."""
    is_shared = request.param == "postgresql"
    database = {"database": {"url": request.getfixturevalue("postgres_url")}} if is_shared else {}
    async with running(**database) as world:
        yield world


async def create(world: World, **members: Any) -> Any:
    """The job `j`."""
    return data_of(await world.client.post("/jobs/j", json=definition(**members)), 201)


async def trigger(world: World, query: str = "") -> str:
    """The id of a new execution of `j`."""
    started = data_of(await world.client.post(f"/jobs/j/trigger{query}"))
    execution_id: str = started["executionId"]
    return execution_id


async def get(world: World, path: str) -> Any:
    """`data` of a read that has no warning."""
    answer = await world.client.get(path)
    assert answer.json()["warnings"] == []
    return data_of(answer)


async def state_of(world: World, execution_id: str) -> list[Any]:
    """The state of the execution in each list that has it."""
    paths = ("/executions", "/executions?jobId=j", "/jobs/j/executions", "/main/execution?jobId=j")
    lists = [(await get(world, path))["items"] for path in paths]
    return [one["state"] for items in lists for one in items if one["executionId"] == execution_id]


async def test_a_trigger_is_in_every_list_at_once(world: World) -> None:
    """Ten times, with one read each, so that no other read has waited for it."""
    await create(world, overlapPolicy="allow")
    world.target.always("/run", HELD)
    for number in range(1, 11, 2):
        execution_id = await trigger(world)
        assert (await get(world, "/executions"))["items"][0]["executionId"] == execution_id, number
        execution_id = await trigger(world, "?delaySeconds=60")
        assert sum((await get(world, "/stats"))["byState"].values()) == number + 1
    for path in ("/jobs/j/executions", "/main/execution?jobId=j", "/executions?state=processing"):
        execution_id = await trigger(world)
        assert (await get(world, path))["items"][0]["executionId"] == execution_id, path
    execution_id = await trigger(world)
    assert (await get(world, f"/executions/{execution_id}"))["state"] == "processing"
    execution_id = await trigger(world)
    assert (await get(world, f"/executions/{execution_id}/log"))["items"][0]["kind"] == "created"


async def test_what_a_command_ends_is_ended_in_every_list(world: World) -> None:
    """Cancel, replay, pause, update and destroy."""
    await create(world, overlapPolicy="cancel_running")
    world.target.always("/run", HELD)
    first = await trigger(world)
    data_of(await world.client.post(f"/executions/{first}/cancel"))
    assert await state_of(world, first) == ["cancelled"] * 4
    second = data_of(await world.client.post(f"/executions/{first}/replay"))["executionId"]
    assert await state_of(world, second) == ["processing"] * 4
    third = await trigger(world)
    assert await state_of(world, second) == ["cancelled"] * 4
    data_of(await world.client.put("/jobs/j?active=0"))
    assert await state_of(world, third) == ["cancelled"] * 4
    fourth = await trigger(world, "?delaySeconds=60")
    assert await state_of(world, fourth) == ["scheduled"] * 4
    data_of(await world.client.post("/jobs/j/update", json=definition(timer=None, active=1)))
    assert (await get(world, "/executions"))["items"][0]["triggeredBy"] == "timer"
    data_of(await world.client.delete("/jobs/j"))
    assert await state_of(world, fourth) == ["cancelled"] * 4


async def test_a_report_is_in_the_execution_at_once(world: World) -> None:
    """Feedback that was answered 200 is in the execution and in its log; its delivery is in the list."""
    step = {"url": "service://jobswork/run", "body": {"told": "${schedulingFeedbackUrl}"}}
    notified = [{"url": "service://jobsclient/note", "stateEquals": "inprogress"}]
    await create(world, **{"async": True}, request=[step], notification=notified)
    execution_id = await trigger(world)
    await world.settle()
    url = world.target.at("/run")[0].json["told"]
    for number in range(1, 8, 3):
        data_of(await world.client.post(url, json={"progress": "1/9"}))
        log = (await get(world, f"/executions/{execution_id}/log"))["items"]
        assert [line["kind"] for line in log].count("feedback") == number
        data_of(await world.client.post(url, json={"progress": "2/9"}))
        assert len((await get(world, "/deliveries"))["items"]) == number + 1
        data_of(await world.client.post(url, json={"progress": "3/9"}))
        full = await get(world, f"/executions/{execution_id}")
        assert len(full["attempts"][0]["feedback"]) == len(full["notifications"]) == number + 2


async def test_what_a_job_says_of_a_firing_is_in_its_ledger(world: World) -> None:
    """`GET /jobs/{jobId}` is an answer too: what it says of a firing is in the lists afterwards."""
    await create(world, timer={"dueTime": "1s", "period": "1s"})
    for number in range(1, 4):
        await world.advance(1)
        latest = (await get(world, "/jobs/j"))["latestExecution"]
        assert (latest["executeNumber"], latest["state"]) == (number, "succeeded")
        items = (await get(world, "/jobs/j/firings"))["items"]
        assert [one["executionId"] for one in items][:1] == [latest["executionId"]]
        latest = (await get(world, "/jobs/j"))["latestExecution"]
        assert (await get(world, "/executions?state=succeeded"))["items"][0]["executeNumber"] == number
