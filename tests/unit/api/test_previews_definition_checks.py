"""A definition is tried and described without a job (SPEC section 10)."""

from typing import Any

import httpx

from tests.unit.api.world import World, definition, pointers

POLICIES = [
    {"errorEquals": ["5xx", "timeout"], "maxAttempts": 2, "intervalSeconds": 1},
    {"errorEquals": "*", "maxAttempts": 1, "intervalSeconds": 5},
]


async def check(client: httpx.AsyncClient, **members: Any) -> dict[str, Any]:
    """`data` of a definition that is right."""
    answer = await client.post("/definitions/check", json=definition(jobId="a", **members))
    assert answer.is_success, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_a_definition_is_tried_without_a_job(client: httpx.AsyncClient, world: World) -> None:
    """Its timer in words and in its normal form, the retries of each policy; nothing is created."""
    data = await check(client, timer={"period": "@daily", "timezone": "Europe/Berlin"}, retry=POLICIES)
    assert (data["jobId"], data["kind"], data["existing"]) == ("a", "cron", None)
    preview = await client.post(
        "/timers/preview", json={"timer": {"period": "@daily", "timezone": "Europe/Berlin"}, "count": 5}
    )
    assert data["timer"] == preview.json()["data"]
    first, second = data["retryPlans"]
    assert (first["policy"], first["errors"], first["error"]) == (0, ["5xx", "timeout"], "500")
    assert [item["waitMs"] for item in first["items"]] == [1_000, 2_000]
    assert (second["policy"], second["errors"]) == (1, ["*"])
    assert (world.turns, world.documents) == (0, {})
    disabled = await check(client, timer={"period": "@daily"}, disabled=True)
    assert (disabled["kind"], disabled["timer"]["firings"]) == ("cron", [])


async def test_plans_of_many_policies_are_short(client: httpx.AsyncClient) -> None:
    """A hundred of a thousand retries were 7.6 MB, and held the loop for a second; one alone is whole."""
    endless = [{"errorEquals": str(400 + n), "maxAttempts": 10**9, "backoffRate": 1.01} for n in range(100)]
    data = await check(client, retry=endless, maxRetries=10**9)
    plans = [(len(plan["items"]), plan["reason"]) for plan in data["retryPlans"]]
    assert plans == [(10, None)] * 100
    assert [plan["items"][9]["policy"] for plan in data["retryPlans"]] == list(range(100))
    ten = [{**one, "maxAttempts": 10} for one in endless]
    ended = (await check(client, retry=ten, maxRetries=10**9))["retryPlans"]
    assert [(len(plan["items"]), plan["reason"]) for plan in ended] == [(10, "policy_spent")] * 100
    (alone,) = (await check(client, retry=endless[:1], maxRetries=10**9))["retryPlans"]
    assert (len(alone["items"]), alone["reason"]) == (1_000, None)


async def test_of_too_many_headers_nothing_else_is_read(client: httpx.AsyncClient) -> None:
    """To read them would hold the interpreter; of as many as may be all that is wrong is told."""
    many = {f"a{n}": "1" for n in range(1_001)}
    step = {"url": "http://target.test/", "headers": many}
    refused = await client.post("/definitions/check", json=definition(jobId="a", qos=7, request=[step]))
    assert (refused.status_code, pointers(refused)) == (422, [("/request/0/headers", "too_many")])
    many.popitem()
    refused = await client.post("/definitions/check", json=definition(jobId="a", qos=7, request=[step]))
    assert [pointer for pointer, _ in pointers(refused)] == ["/qos"]


async def test_all_that_is_wrong_is_told(client: httpx.AsyncClient) -> None:
    """As the creation would, with pointers; warnings too."""
    wrong = definition(jobId="a", qos=7, overlapPolicy="never")
    refused = await client.post("/definitions/check", json=wrong)
    created = await client.post("/jobs/a", json=wrong)
    assert refused.json() == created.json()
    nameless = await client.post("/definitions/check", json=definition())
    assert pointers(nameless) == [("/jobId", "required")]
    body = definition(jobId="a", retry=POLICIES, timer={"dueTime": "1s", "period": "0 0 * * * ?"})
    warned = await client.post("/definitions/check", json=body)
    made = await client.post("/jobs/a", json=body)
    assert warned.json()["warnings"] == made.json()["warnings"] != []


async def test_the_job_that_is_there_is_told(client: httpx.AsyncClient) -> None:
    """With its revision, and whether it would change."""
    await client.post("/jobs/a", json=definition())
    assert (await check(client))["existing"] == {"revision": 1, "isSame": True}
    assert (await check(client, jobName="other"))["existing"] == {"revision": 1, "isSame": False}


async def test_the_schema_is_served(client: httpx.AsyncClient) -> None:
    """For forms and editors."""
    schema = (await client.get("/schemas/job")).json()["data"]
    assert schema["required"] == ["jobName", "request"]
    assert schema["properties"]["overlapPolicy"]["enum"] == ["skip", "queue", "cancel_running", "allow"]
