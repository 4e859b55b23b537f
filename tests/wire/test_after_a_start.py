"""A scheduler that has just started knows no instance yet, and ends nothing for it (SPEC sections 8, 13)."""

import asyncio
from pathlib import Path
from typing import Any

from tests.wire.service import World, data_of, definition, running
from tests.wire.target import Reply, Target

OFFLINE = 10.0
STEP = {"url": "service://shop/run"}


async def register(world: World, target: Target) -> None:
    """What an instance sends first, and again when its heartbeat is answered 404."""
    answer = await world.client.put("/services/shop/instances/a", json={"address": target.url})
    data_of(answer, 201)


async def first_life(folder: Path) -> None:
    """A scheduler that knew the shop and its instance, and is no more."""
    async with running(store={"data": str(folder)}) as world:
        await register(world, world.target)
        data_of(await world.client.post("/jobs/j", json=definition(request=[STEP], timeoutSeconds=30)), 201)


async def trigger(world: World) -> str:
    """One execution; its id."""
    return str(data_of(await world.client.post("/jobs/j/trigger"))["executionId"])


async def is_waiting(world: World) -> bool:
    """Whether its step looks for an instance."""
    host: Any = world.service.components.host
    return len(host.effects.parts) == 1


async def is_checking(world: World) -> bool:
    """Whether a check is on its way."""
    host: Any = world.service.components.host
    return len(host.effects.calls) == 1


async def test_a_step_waits_for_the_instances_of_before(tmp_path: Path) -> None:
    """Its first attempt is sent as soon as the instance is back, though it was triggered before that."""
    await first_life(tmp_path)
    async with running(store={"data": str(tmp_path)}) as world:
        heartbeat = "/services/shop/instances/a/heartbeat"
        execution = await trigger(world)
        await world.until(lambda: is_waiting(world))
        world.clock.advance(3_000)
        assert (await world.client.post(heartbeat)).status_code == 404
        await register(world, world.target)
        world.clock.advance(250)
        ended = await world.ended(execution)
    assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1)


async def test_a_check_waits_for_the_instances_of_before(tmp_path: Path) -> None:
    """So the outcome of an asynchronous job that goes on is not three failed checks in a row."""
    async with running(store={"data": str(tmp_path)}) as world:
        await register(world, world.target)
        steps = [{"url": "service://jobswork/run"}]
        asynchronous = {"async": True, "checkUrl": "service://shop/check", "checkRateSeconds": 5}
        posted = definition(request=steps, qos=1, **asynchronous)
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        execution = await trigger(world)
        await world.settle()
    async with running(store={"data": str(tmp_path)}) as world:
        world.target.always("/check", Reply(200, {"status": "succeed"}))
        world.clock.advance(6_000)
        await world.until(lambda: is_checking(world))
        for _ in range(100):  # a check that failed would be home by then
            await asyncio.sleep(0)
        assert await is_checking(world)
        await register(world, world.target)
        ended = await world.ended(execution)
    (attempt,) = ended["attempts"]
    assert (ended["state"], len(attempt["checks"])) == ("succeeded", 1)


async def test_a_check_waits_no_longer_than_they_may_take(tmp_path: Path) -> None:
    """From `services.offline_seconds` on nobody is awaited by checks, and what is sent like them, either."""
    await first_life(tmp_path)
    async with running(store={"data": str(tmp_path)}) as world:
        directory = world.service.components.services.directory
        assert directory.wait("shop") > 30_000
        world.clock.advance(round(OFFLINE * 1_000))
        assert directory.wait("shop") == 30_000


async def test_who_is_not_back_in_time_is_not_there(tmp_path: Path) -> None:
    """Without `services.wait_seconds` it is `no_instance` after `services.offline_seconds`, then at once."""
    await first_life(tmp_path)
    async with running(store={"data": str(tmp_path)}, services={"wait_seconds": 0}) as world:
        execution = await trigger(world)
        await world.until(lambda: is_waiting(world))
        world.clock.advance(round(OFFLINE * 1_000) - 1)
        assert await is_waiting(world)
        world.clock.advance(250)
        ended = await world.ended(execution)
        assert (ended["state"], ended["error"]) == ("terminated", "no_instance")
        assert (await world.ended(await trigger(world)))["error"] == "no_instance"


async def test_nobody_is_awaited_who_never_registered(tmp_path: Path) -> None:
    """After a start too, a service that nobody has registered is not there."""
    await first_life(tmp_path)
    async with running(store={"data": str(tmp_path)}) as world:
        posted = definition(request=[{"url": "service://other/run"}])
        data_of(await world.client.post("/jobs/k", json=posted), 201)
        answer = data_of(await world.client.post("/jobs/k/trigger"))
        assert (await world.ended(str(answer["executionId"])))["error"] == "no_instance"
