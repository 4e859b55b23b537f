"""`service:/path` of a declared job reaches the service that declares it (SPEC sections 9 and 11)."""

from pathlib import Path
from typing import Any

import pytest

from tests.wire.service import World, data_of, definition, pointers, running
from tests.wire.target import Target


def declared(job_id: str = "own.job", **members: Any) -> dict[str, Any]:
    """A job as its service declares it."""
    return definition(jobId=job_id, request=[{"url": "service:/own/run"}]) | members


async def execute(world: World, job_id: str = "own.job") -> dict[str, Any]:
    """One execution in full."""
    started = data_of(await world.client.post(f"/jobs/{job_id}/trigger", json={}))
    await world.advance(2)
    return await world.ended(started["executionId"])


OWN_URLS = ["service:/own/run", "service://{serviceName}/run", "service://{serviceGateway}/{serviceName}/run"]


@pytest.mark.parametrize("url", OWN_URLS)
@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        (lambda url: {"request": [{"url": "service://own/x"}, {"url": url}]}, "/request/1/url"),
        (lambda url: {"async": True, "checkUrl": url, "request": [{"url": "service://own/x"}]}, "/checkUrl"),
        (lambda url: {"request": [{"url": "service://own/x"}], "cancelUrl": {"url": url}}, "/cancelUrl"),
    ],
)
async def test_a_job_of_nobody_is_refused(world: World, url: str, members: Any, pointer: str) -> None:
    """Created, in an array, or by an update: it has no service of its own to call (SPEC section 9)."""
    job = definition(jobId="own.job", **members(url))
    created = await world.client.post("/jobs/own.job", json=job)
    assert (created.status_code, pointers(created)) == (422, [(pointer, "invalid")])
    assert "X-Service" in created.json()["detail"]
    [one] = data_of(await world.client.post("/jobs", json=[job]))["items"]
    assert (one["status"], one["problem"]["errors"][0]["pointer"]) == ("refused", pointer)
    assert (await world.client.get("/jobs/own.job")).status_code == 404
    data_of(await world.client.post("/jobs/own.job", json=definition(jobId="own.job")), 201)
    updated = await world.client.post("/jobs/own.job/update", json=job)
    assert (updated.status_code, pointers(updated)) == (422, [(pointer, "invalid")])
    assert data_of(await world.client.get("/jobs/own.job"))["revision"] == 1


@pytest.mark.parametrize("in_array", [False, True])
async def test_a_job_that_a_service_posts_calls_that_service(world: World, in_array: bool) -> None:
    """By its header `X-Service`; an update keeps the owner unless it names another one (SPEC section 9)."""
    mine = {"X-Service": "own"}
    data_of(await world.client.put("/services/own", json={"address": world.target.url}), 201)
    if in_array:
        [one] = data_of(await world.client.post("/jobs", json=[declared()], headers=mine))["items"]
        assert one["status"] == "created"
    else:
        data_of(await world.client.post("/jobs/own.job", json=declared(), headers=mine), 201)
    assert (await execute(world))["state"] == "succeeded"
    data_of(await world.client.post("/jobs/own.job/update", json=declared(jobName="edited")))
    assert (await execute(world))["state"] == "succeeded"
    assert len(world.target.at("/own/run")) == 2
    async with Target(lambda: 0) as other:
        world.instances["b"] = other
        data_of(await world.client.put("/services/other", json={"address": other.url}), 201)
        theirs = {"X-Service": "other"}
        data_of(await world.client.post("/jobs/own.job/update", json=declared(), headers=theirs))
        assert (await execute(world))["state"] == "succeeded"
        assert len(other.at("/own/run")) == 1


async def test_the_owner_survives_a_restart(tmp_path: Path) -> None:
    """It is a part of the job's state."""
    folder = {"store": {"data": str(tmp_path)}}
    async with running(**folder) as world:
        mine = {"X-Service": "own"}
        data_of(await world.client.post("/jobs/own.job", json=declared(), headers=mine), 201)
    async with running(**folder) as world:
        data_of(await world.client.put("/services/own", json={"address": world.target.url}), 201)
        assert (await execute(world))["state"] == "succeeded"
        assert len(world.target.at("/own/run")) == 1
