"""`service:/path` of a declared job reaches the service that declares it (SPEC sections 9 and 11)."""

from typing import Any

import pytest

from tests.wire.service import World, data_of, definition, running
from tests.wire.target import Reply, Target

pytestmark = pytest.mark.anyio


def declared(job_id: str = "own.job", **members: Any) -> dict[str, Any]:
    """A job as its service declares it."""
    return definition(jobId=job_id, request=[{"url": "service:/own/run"}]) | members


async def scan(world: World) -> None:
    """One run of check-timers, to its end."""
    ended = await execute(world, "check-timers")
    assert ended["state"] == "succeeded", ended


async def execute(world: World, job_id: str = "own.job") -> dict[str, Any]:
    """One execution in full."""
    started = data_of(await world.client.post(f"/jobs/{job_id}/trigger", json={}))
    await world.advance(2)
    return await world.ended(started["executionId"])


@pytest.mark.parametrize("query", ["", "?force=1"])
async def test_the_address_of_the_service(world: World, query: str) -> None:
    """Created by the scan or at once, changed by the declaration, edited and made again: always the same."""
    service = {"address": world.target.url, "timers": [declared()]}
    data_of(await world.client.put(f"/services/own{query}", json=service), 201)
    await scan(world)
    assert (await execute(world))["state"] == "succeeded"
    service["timers"] = [declared(jobName="another")]
    data_of(await world.client.put(f"/services/own{query}", json=service))
    await scan(world)
    assert (await execute(world))["state"] == "succeeded"
    data_of(await world.client.post("/jobs/own.job/update", json=declared(jobName="edited")))
    assert (await execute(world))["state"] == "succeeded"
    data_of(await world.client.delete("/jobs/own.job"))
    await scan(world)
    assert (await execute(world))["state"] == "succeeded"
    assert len(world.target.at("/own/run")) == 4


async def test_the_instances_of_the_service(world: World) -> None:
    """Timers that an instance declares, by the routing of its service; checks and cancelUrl go there too."""
    async with Target(lambda: world.clock.now().wall) as other:
        world.instances["b"] = other
        job = declared(checkUrl="service:/own/check", **{"async": True})
        for name, target in (("a", world.target), ("b", other)):
            target.always("/own/check", Reply(200, {"status": "succeed"}))
            path = f"/services/own/instances/{name}"
            data_of(await world.client.put(path, json={"address": target.url, "timers": [job]}), 201)
        data_of(await world.client.put("/services/own", json={"route": "round_robin"}))
        await scan(world)
        for _ in range(2):
            assert (await execute(world))["state"] == "succeeded"
        assert [len(one.at("/own/run")) for one in (world.target, other)] == [1, 1]
        assert len(world.target.at("/own/check")) + len(other.at("/own/check")) == 2


async def test_a_job_that_was_posted_calls_the_scheduler(world: World) -> None:
    """Nobody declares it: `service:/path` is this scheduler, and behind the gateway it has no name."""
    data_of(await world.client.post("/jobs/own.job", json=declared()), 201)
    gateway = declared("own.gate", request=[{"url": "service://{serviceGateway}/{serviceName}/run"}])
    data_of(await world.client.post("/jobs/own.gate", json=gateway), 201)
    await execute(world)
    assert (await execute(world, "own.gate"))["error"] == "template"
    assert world.target.seen == []


async def test_the_gateway_is_told_the_name() -> None:
    """`service://{serviceGateway}/{serviceName}/path` names the service that declares the job."""
    async with Target(lambda: 0) as gateway, running(services={"gateway": gateway.url}) as world:
        job = declared(request=[{"url": "service://{serviceGateway}/{serviceName}/run"}])
        data_of(await world.client.put("/services/own", json={"timers": [job]}), 201)
        await scan(world)
        assert (await execute(world))["state"] == "succeeded"
        assert [one.path for one in gateway.seen] == ["/own/run"]
