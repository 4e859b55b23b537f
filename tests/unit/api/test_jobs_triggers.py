"""Triggers and feedback over the wire (SPEC sections 5, 10)."""

from typing import Any

import httpx
import pytest

from scheduler_service.domain.effects import Call
from scheduler_service.engine.feedback_url import feedback_token
from tests.unit.api.stores import START
from tests.unit.api.world import KEY, World, definition, pointers


async def test_a_trigger_starts_an_execution(client: httpx.AsyncClient, world: World) -> None:
    """The answer names the execution; its parameters reach the target (SPEC sections 4, 10)."""
    await client.post("/jobs/j1", json=definition(request=[{"url": "http://t.test/${day}"}]))
    response = await client.post("/jobs/j1/trigger", json={"day": "mon"})
    assert response.status_code == 200
    data = response.json()["data"]
    assert data["executeNumber"] == 1
    assert data["state"] == "processing"
    assert response.headers["location"] == f"/executions/{data['executionId']}"
    call = next(effect for effect in world.effects if isinstance(effect, Call))
    assert call.request.url == "http://t.test/mon"
    # The body is a map of parameters, and may be left out
    await client.post("/jobs/j1", json=definition())
    assert (await client.post("/jobs/j1/trigger")).status_code == 200


async def test_an_overlapping_trigger_is_skipped_with_200(client: httpx.AsyncClient) -> None:
    """It follows overlapPolicy, and answers 200 also when it is skipped (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    await client.post("/jobs/j1/trigger")
    second = await client.post("/jobs/j1/trigger")
    assert (second.status_code, second.json()["data"]["state"]) == (200, "skipped")


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ({"delaySeconds": "1.5"}, START + 1_500),
        ({"at": "2026-01-01T08:00:00+08:00"}, START),
        ({"at": "2026-01-01 01:00:00"}, START + 3_600_000),
    ],
)
async def test_a_trigger_may_wait(
    client: httpx.AsyncClient, world: World, query: dict[str, str], at: int
) -> None:
    """`delaySeconds` or `at` as query: later (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    data = (await client.post("/jobs/j1/trigger", params=query)).json()["data"]
    _, run = world.history.runs[data["executionId"].rpartition("-")[0], data["executeNumber"]]
    assert run.planned_at == at


async def test_a_known_key_returns_its_execution(client: httpx.AsyncClient, world: World) -> None:
    """With a known Idempotency-Key it returns that execution, for a day (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition(overlapPolicy="allow"))
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/jobs/j1/trigger", json={"a": 1}, headers=headers)
    again = await client.post("/jobs/j1/trigger", json={"a": 1}, headers=headers)
    assert again.json()["data"] == first.json()["data"]
    other = await client.post("/jobs/j1/trigger", json={"a": 2}, headers=headers)
    assert (other.status_code, pointers(other)) == (422, [("/Idempotency-Key", "key_reused")])


async def test_a_known_key_shows_its_execution_as_it_is_now(client: httpx.AsyncClient, world: World) -> None:
    """Not in the state of then, be it running, the newest or an older one (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition(overlapPolicy="queue"))
    await client.post("/jobs/j1/trigger")

    async def ask() -> dict[str, Any]:
        answer = await client.post("/jobs/j1/trigger", headers={"Idempotency-Key": "k"})
        data: dict[str, Any] = answer.json()["data"]
        return data

    assert (await ask())["state"] == "enqueued"
    uid = (await ask())["executionId"].rpartition("-")[0]
    await client.post(f"/executions/{uid}-1/cancel")
    assert (await ask())["state"] == "processing"
    await world.answer_calls()
    assert await ask() == {"executionId": f"{uid}-2", "executeNumber": 2, "state": "succeeded"}
    await client.post("/jobs/j1/trigger")
    assert (await ask())["state"] == "succeeded"
    del world.history.runs[uid, 2]
    assert (await ask())["state"] == "enqueued"


async def test_a_known_key_of_a_replay_shows_its_execution_as_it_is_now(
    client: httpx.AsyncClient, world: World
) -> None:
    """A replay under a known key as a trigger (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    first = (await client.post("/jobs/j1/trigger")).json()["data"]["executionId"]
    await world.answer_calls()
    ask: Any = {"url": f"/executions/{first}/replay", "headers": {"Idempotency-Key": "k"}}
    assert (await client.post(**ask)).json()["data"]["state"] == "processing"
    await world.answer_calls()
    again = (await client.post(**ask)).json()["data"]
    assert (again["executeNumber"], again["state"]) == (2, "succeeded")


async def test_reset_starts_one_execution_a_request(client: httpx.AsyncClient) -> None:
    """One that fails in the very turn that starts it is not started afresh again (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition(request=[{"url": "http://t.test/${$.day}"}]))
    numbers = []
    for _ in range(3):
        answer = await client.post("/jobs/j1/trigger?reset=failed", headers={"Idempotency-Key": "k"})
        numbers.append(answer.json()["data"]["executeNumber"])
    assert numbers == [1, 2, 3]


async def test_a_key_belongs_to_its_route(client: httpx.AsyncClient) -> None:
    """The same key on another job is another key."""
    for job_id in ("j1", "j2"):
        await client.post(f"/jobs/{job_id}", json=definition())
        answer = await client.post(f"/jobs/{job_id}/trigger", headers={"Idempotency-Key": "k"})
        assert answer.json()["data"]["executeNumber"] == 1


async def test_reset_starts_what_ended_so_afresh(client: httpx.AsyncClient, world: World) -> None:
    """`reset=succeeded` under a known key starts it afresh, once per end (SPEC section 10)."""
    await client.post("/jobs/j1", json=definition())
    ask: Any = {"headers": {"Idempotency-Key": "k"}}
    await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    running = await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    assert running.json()["data"]["executeNumber"] == 1
    await world.answer_calls()
    failed = await client.post("/jobs/j1/trigger?reset=failed", **ask)
    assert failed.json()["data"]["executeNumber"] == 1
    afresh = await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    assert afresh.json()["data"]["executeNumber"] == 2
    again = await client.post("/jobs/j1/trigger?reset=succeeded", **ask)
    assert again.json()["data"]["executeNumber"] == 2
    plain = await client.post("/jobs/j1/trigger", **ask)
    assert plain.json()["data"]["executeNumber"] == 2


async def test_feedback_decides_an_asynchronous_attempt(world: World) -> None:
    """Token first (403), then the form (422); the deciding one again 200; later ones 409 (SPEC section 5)."""
    async with world.client() as client:
        uid = (await client.post("/jobs/j1", json=definition(**{"async": True}))).json()["data"]["uid"]
        await client.post("/jobs/j1/trigger")
        await world.answer_calls()
        token = feedback_token(KEY, uid, 1)
        done = {"status": "succeed", "data": {}}
        url = "/jobs/j1/feedback/1"
        assert (await client.post(url, json=done)).status_code == 403
        assert (await client.post(url, json=done, params={"token": "x"})).status_code == 403
        assert (await client.post(url, json=[1], params={"token": token})).status_code == 422
        good = await client.post(url, json=done, params={"token": token})
        assert (good.status_code, good.json()["data"]) == (200, None)
        assert (await client.post(url, json=done, params={"token": token})).status_code == 200
        late = await client.post(url, json={"status": "failed"}, params={"token": token})
        assert (late.status_code, pointers(late)) == (409, [("/requestCounts", "stale")])
        assert (await client.post("/jobs/j9/feedback/1", json=done)).status_code == 404
        assert (await client.post("/jobs/j1/feedback/x", json=done)).status_code == 422
