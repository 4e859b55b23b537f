"""Options that a service gives its jobs: before the tenant's, after a job's own (SPEC section 13)."""

from typing import Any

import httpx

from tests.unit.api.world import PATH, World, declared, definition, pointers, put

HOURLY = {"dueTime": "1h", "period": "1h"}
OWNED = {"X-Service": "billing"}


async def options(client: httpx.AsyncClient, job_id: str) -> Any:
    """Value and source of each option of a job."""
    shown = (await client.get(f"/jobs/{job_id}")).json()["data"]["options"]
    return {name: (one["value"], one["source"]) for name, one in shown.items()}


async def test_declared_jobs_have_the_options_of_their_service(client: httpx.AsyncClient) -> None:
    """What a job says itself wins; what nobody says is the product's."""
    given = {"maxRetries": 3, "overlapPolicy": "queue"}
    shown = await put(client, declared("a"), declared("b", maxRetries=1), status=201, options=given)
    assert shown["options"] == given
    first, second = await options(client, "a"), await options(client, "b")
    assert (first["maxRetries"], second["maxRetries"]) == ((3, "service"), (1, "job"))
    assert (first["overlapPolicy"], first["qos"]) == (("queue", "service"), (0, "product"))


async def test_a_change_counts_for_later_executions(client: httpx.AsyncClient, world: World) -> None:
    """The schedule stays as it is, there is no drift, and the next scan finds nothing to do."""
    await put(client, declared("a", timer=HOURLY), status=201, options={"maxRetries": 3})
    before = (await client.get("/jobs/a")).json()["data"]
    world.wall += 60_000
    await put(client, declared("a", timer=HOURLY), options={"maxRetries": 4})
    after = (await client.get("/jobs/a")).json()["data"]
    assert (await options(client, "a"))["maxRetries"] == (4, "service")
    assert (after["nextFireTime"], after["revision"]) == (before["nextFireTime"], before["revision"] + 1)
    assert not {name for name, count in (await world.scan()).items() if count and name != "services"}
    assert not (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    await put(client, declared("a", timer=HOURLY), options={"maxRetries": 4})
    assert (await client.get("/jobs/a")).json()["data"]["revision"] == after["revision"]
    await put(client, declared("a", timer=HOURLY))
    assert (await options(client, "a"))["maxRetries"] == (5, "product")


async def test_a_job_that_has_run_is_not_run_again(client: httpx.AsyncClient, world: World) -> None:
    """A changed declaration would run a `one_time` job at once; changed options do not."""
    await put(client, declared("once", timer={"dueTime": "0s"}), status=201)
    await world.answer_calls()
    before = (await client.get("/jobs/once")).json()["data"]["executeNumber"]
    await put(client, declared("once", timer={"dueTime": "0s"}), options={"maxRetries": 4})
    assert (await client.get("/jobs/once")).json()["data"]["executeNumber"] == before == 1


async def test_what_a_person_edited_stays_and_has_the_options(client: httpx.AsyncClient) -> None:
    """It is drift as before; the update of a person need not name the service."""
    await put(client, declared("a"), status=201, options={"maxRetries": 3})
    await client.post("/jobs/a/update", json=definition(jobName="edited"))
    assert (await options(client, "a"))["maxRetries"] == (3, "service")
    await put(client, declared("a"), options={"maxRetries": 4})
    shown = (await client.get("/jobs/a")).json()["data"]
    assert (shown["definition"]["jobName"], shown["options"]["maxRetries"]["value"]) == ("edited", 4)
    drift = (await client.get(f"{PATH}/drift")).json()["data"]["items"]
    assert [one["kind"] for one in drift] == ["overridden"]


async def test_posted_jobs_of_a_service_have_them_too(client: httpx.AsyncClient) -> None:
    """By the key or header that names it; the same definition is the same job."""
    await put(client, status=201, options={"maxRetries": 3})
    assert (await client.post("/jobs/own", json=definition(), headers=OWNED)).status_code == 201
    assert (await client.post("/jobs/own", json=definition(), headers=OWNED)).status_code == 200
    assert (await options(client, "own"))["maxRetries"] == (3, "service")
    array = [{"jobId": "many", **definition()}]
    assert (await client.post("/jobs", json=array, headers=OWNED)).json()["data"]["items"][0][
        "status"
    ] == "created"
    assert (await options(client, "many"))["maxRetries"] == (3, "service")
    await client.post("/jobs/free", json=definition())
    assert (await options(client, "free"))["maxRetries"] == (5, "product")


async def test_nobody_posts_the_options_of_a_service(client: httpx.AsyncClient) -> None:
    """What a definition has of them when it was read is left out; an escaped name is refused."""
    await put(client, status=201, options={"maxRetries": 3})
    false = {"serviceOptions": {"service": "billing", "maxRetries": 9}}
    await client.post("/jobs/free", json=definition(**false))
    assert (await options(client, "free"))["maxRetries"] == (5, "product")
    await client.post("/jobs/own", json=definition(**false), headers=OWNED)
    assert (await options(client, "own"))["maxRetries"] == (3, "service")
    escaped = httpx.Response(200, json=definition(**false)).text.replace(
        "serviceOptions", "\\u0073erviceOptions"
    )
    headers = {"content-type": "application/json"}
    answer = await client.post("/jobs/sly", content=escaped, headers=headers)
    assert pointers(answer) == [("/serviceOptions", "reserved")]


async def test_wrong_options_are_refused(client: httpx.AsyncClient) -> None:
    """By their place; `startPolicy` is said by each declared job."""
    for wrong in ({"maxRetries": -1}, {"startPolicy": "manual"}, {"jobName": "x"}):
        answer = await client.put(PATH, json={"options": wrong})
        (name,) = wrong
        assert [pointer for pointer, _ in pointers(answer)] == [f"/options/{name}"]


async def test_the_audit_has_the_change_and_what_followed(client: httpx.AsyncClient) -> None:
    """The person who registered it, and the system for each of its jobs."""
    await put(client, declared("a"), status=201, options={"maxRetries": 3})
    await put(client, declared("a"), options={"maxRetries": 4})
    lines = (await client.get("/audit?service=billing&limit=2")).json()["data"]["items"]
    (given,) = (line for line in lines if line["operation"] == "check-timers")
    (asked,) = (line for line in lines if line["operation"] == "putService")
    assert (given["jobId"], given["given"]) == ("a", {"action": "options"})
    assert asked["difference"] == [{"pointer": "/options/maxRetries", "before": 3, "after": 4}]
