"""Two versions of a service side by side: one knows a job that the other does not know (SPEC section 13)."""

from typing import Any

from tests.wire.service import World, data_of, definition, running
from tests.wire.target import Reply, Target

GONE = Reply(410, headers={"X-Job-State": "gone"})


def declared(job_id: str = "shop.new", **members: Any) -> dict[str, Any]:
    """A job as the newer version declares it."""
    return definition(jobId=job_id, request=[{"url": "service:/run"}]) | members


async def register(world: World, name: str, target: Target, *timers: dict[str, Any]) -> None:
    """The full registration of an instance."""
    said = {"address": target.url, "timers": list(timers)}
    response = await world.client.put(f"/services/shop/instances/{name}", json=said)
    assert response.status_code in {200, 201}, response.text


async def deploy(world: World, newer: Target) -> None:
    """An older instance, which the failover order asks first, and a newer one with a new job."""
    world.instances["new"] = newer
    world.target.always("/run", GONE)
    await register(world, "a-old", world.target)
    await register(world, "b-new", newer, declared())
    data_of(await world.client.put("/services/shop", json={"route": "failover"}))


async def execute(world: World) -> dict[str, Any]:
    """One execution of the new job, in full."""
    started = data_of(await world.client.post("/jobs/shop.new/trigger", json={}))
    await world.settle()
    return await world.ended(started["executionId"])


def paused(world: World) -> list[dict[str, Any]]:
    """What the log of the service says of paused jobs."""
    return [keys for event, keys in world.log if event == "job_paused"]


async def test_a_new_job_reaches_the_instance_that_declares_it() -> None:
    """The older instance does not know it: the newer one gets it in the same attempt, and the job goes on."""
    async with running() as world, Target(lambda: world.clock.now().wall) as newer:
        await deploy(world, newer)
        ended = await execute(world)
        assert (ended["state"], len(ended["attempts"])) == ("succeeded", 1)
        assert [step["instance"] for step in ended["attempts"][0]["steps"]] == ["b-new"]
        assert (len(world.target.at("/run")), len(newer.at("/run"))) == (1, 1)
        keys = [seen.at("/run")[0].headers["idempotency-key"] for seen in (world.target, newer)]
        assert keys[0] == keys[1]
        assert data_of(await world.client.get("/jobs/shop.new"))["state"] == "active"
        assert paused(world) == []


async def test_a_job_that_no_instance_knows_is_paused() -> None:
    """Each instance is asked once; the log of the service says so."""
    async with running() as world, Target(lambda: world.clock.now().wall) as newer:
        await deploy(world, newer)
        newer.always("/run", GONE)
        ended = await execute(world)
        assert (ended["state"], ended["reason"], ended["error"]) == ("terminated", "gone", "410")
        assert (len(world.target.at("/run")), len(newer.at("/run"))) == (1, 1)
        job = data_of(await world.client.get("/jobs/shop.new"))
        assert (job["state"], job["pauseReason"]) == ("paused", "gone")
        assert paused(world) == [{"jobId": "shop.new", "reason": "gone", "execution": 1}]
