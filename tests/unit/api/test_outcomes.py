"""The latest executions of a page of jobs through the API (SPEC section 10)."""

import httpx
import pytest

from tests.unit.api.world import World, definition, pointers, start

pytestmark = pytest.mark.anyio


async def test_a_page_of_jobs_has_its_outcomes(client: httpx.AsyncClient, world: World) -> None:
    """An item for each job that is asked for, in this order, once; a job that does not exist has none."""
    await client.post("/jobs/idle", json=definition())
    await start(client, "busy")
    await world.answer_calls()
    answer = await client.get("/outcomes?jobId=none&jobId=busy&jobId=idle&jobId=busy&count=1")
    items = answer.json()["data"]["items"]
    assert [one["jobId"] for one in items] == ["none", "busy", "idle"]
    assert [[run["state"] for run in one["executions"]] for one in items] == [[], ["succeeded"], []]


async def test_a_job_of_any_name_stays_reachable(client: httpx.AsyncClient) -> None:
    """No job's address is that of another read."""
    for name in ("outcomes", "counts", "jobs", "executions", "series"):
        await client.post(f"/jobs/{name}", json=definition())
        assert (await client.get(f"/jobs/{name}")).json()["data"]["jobId"] == name


@pytest.mark.parametrize(
    ("query", "pointer", "code"),
    [
        ("", "/jobId", "required"),
        ("jobId=", "/jobId", "invalid"),
        ("&".join(["jobId=a"] * 101), "/jobId", "too_many"),
        ("jobId=a&count=0", "/count", "invalid"),
        ("jobId=a&count=51", "/count", "invalid"),
        ("jobId=a&state=failed", "/state", "unknown_parameter"),
    ],
)
async def test_bad_questions_are_refused(
    client: httpx.AsyncClient, query: str, pointer: str, code: str
) -> None:
    """With the pointer of the parameter; a hundred jobs are not too many."""
    refused = await client.get(f"/outcomes?{query}")
    assert (refused.status_code, pointers(refused)) == (422, [(pointer, code)])
    most = "&".join(["jobId=" + "a" * 128] * 100)
    assert (await client.get(f"/outcomes?{most}")).status_code == 200


async def test_a_history_that_is_behind_is_said(client: httpx.AsyncClient, world: World) -> None:
    """What ended last may be missing: a warning, as in lists."""
    world.is_history_stuck = True
    answer = (await client.get("/outcomes?jobId=a")).json()
    assert [warning["code"] for warning in answer["warnings"]] == ["history_behind"]
