"""Counts of what a list would have, through the API (SPEC section 10)."""

import httpx
import pytest

from tests.unit.api.world import World, definition, pointers, start

pytestmark = pytest.mark.anyio


async def test_jobs_are_counted(client: httpx.AsyncClient, world: World) -> None:
    """With the filters of the list; each word has its number, also where that is 0."""
    await client.post("/jobs/idle", json=definition(labels={"team": "ops"}))
    await start(client, "busy", labels={"team": "ops"})
    await world.answer_calls()
    await client.post("/jobs/off", json=definition(active=0))
    counted = (await client.get("/counts/jobs")).json()["data"]
    assert counted["total"] == {"value": 3, "isCapped": False}
    assert counted["byState"] == {"active": 2, "paused": 1, "finished": 0, "destroyed": 0}
    assert counted["byKind"] == {"one_time": 0, "timing": 0, "cron": 0, "external": 3}
    outcomes = ("succeeded", "terminated", "cancelled", "skipped", "running", "waiting", "none")
    assert tuple(counted["byLastOutcome"]) == outcomes
    assert [counted["byLastOutcome"][one] for one in ("succeeded", "none")] == [1, 2]
    for query, number in (("label=team:ops", 2), ("state=paused", 1), ("lastOutcome=succeeded", 1)):
        assert (await client.get(f"/counts/jobs?{query}")).json()["data"]["total"]["value"] == number


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("state=failed", "/state", "invalid"),
        ("lastOutcome=failed", "/lastOutcome", "invalid"),
        ("limit=1", "/limit", "unknown_parameter"),
        ("sort=jobId", "/sort", "unknown_parameter"),
    ],
)
async def test_bad_filters_of_a_count_are_refused(
    client: httpx.AsyncClient, query: str, pointer: str, code: str
) -> None:
    """With the pointer of the parameter."""
    refused = await client.get(f"/counts/jobs?{query}")
    assert (refused.status_code, pointers(refused)) == (422, [(pointer, code)])


async def test_executions_are_counted(client: httpx.AsyncClient, world: World) -> None:
    """With the filters of the list."""
    for name, team in (("a", "ops"), ("b", "web")):
        await start(client, name, labels={"team": team})
    for query, number in (("", 2), ("jobId=a", 1), ("label=team:web", 1), ("label=team:no", 0)):
        counted = (await client.get(f"/counts/executions?{query}")).json()["data"]
        assert (counted["total"]["value"], counted["byState"]["processing"]) == (number, number)
    for query, pointer in (("limit=5", "/limit"), ("state=done", "/state"), ("from=now", "/from")):
        refused = await client.get(f"/counts/executions?{query}")
        assert (refused.status_code, pointers(refused)[0][0]) == (422, pointer)


async def test_notifications_are_counted(client: httpx.AsyncClient) -> None:
    """With the filters of the list; another one is refused."""
    counted = (await client.get("/counts/deliveries?state=outbox&event=finalFailed&jobId=a")).json()["data"]
    assert counted["total"] == {"value": 0, "isCapped": False}
    assert set(counted["byState"].values()) == {0}
    for query, pointer in (("state=terminated", "/state"), ("limit=1", "/limit"), ("jobId=", "/jobId")):
        refused = await client.get(f"/counts/deliveries?{query}")
        assert (refused.status_code, pointers(refused)[0][0]) == (422, pointer)


async def test_without_queues_nothing_waits(client: httpx.AsyncClient, world: World) -> None:
    """Where none are open."""
    assert world.deps.queues is None
    counted = (await client.get("/counts/queues")).json()["data"]
    nothing = {"queues": {"value": 0, "isCapped": False}, "waiting": 0, "held": 0, "oldestAt": None}
    assert counted == nothing
