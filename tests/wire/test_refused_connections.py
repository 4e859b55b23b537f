"""An instance that refuses connections: its step goes elsewhere, at no attempt (SPEC section 13)."""

from typing import Any

import pytest

from scheduler_service.domain.wire import CallKind
from tests.ports import free_port
from tests.rows import each_row
from tests.wire.service import World, data_of, definition, running
from tests.wire.target import Reply, Target

STEP = {"url": "service://shop/run"}


def dead_address() -> str:
    """An address at which nobody listens any more."""
    return f"http://127.0.0.1:{free_port()}"


async def register(world: World, name: str, address: str) -> None:
    await world.client.put(f"/services/shop/instances/{name}", json={"address": address})


async def execute(world: World, job: str = "j") -> dict[str, Any]:
    """One execution in full."""
    started = data_of(await world.client.post(f"/jobs/{job}/trigger"))
    await world.settle()
    return await world.ended(started["executionId"])


async def create(world: World, **members: Any) -> None:
    data_of(await world.client.post("/jobs/j", json=definition(**{"request": [STEP]} | members)), 201)


@pytest.mark.parametrize("qos", [0, 1])
async def test_the_step_goes_to_another_instance(world: World, qos: int) -> None:
    """In the same attempt; the first one is left out until its next heartbeat, then it is tried again."""
    async with Target(lambda: 0) as alive:
        await register(world, "a", dead_address())
        await register(world, "b", alive.url)
        await create(world, qos=qos, request=[STEP | {"route": "failover"}])
        for _ in range(3):
            ended = await execute(world)
            assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1)
        assert len(alive.at("/run")) == 3
        lines = [await log(world, ended_id) for ended_id in (1, 2, 3)]
        assert [sum("refused" in line for line in each) for each in lines] == [1, 0, 0]
        data_of(await world.client.post("/services/shop/instances/a/heartbeat"))
        assert (await execute(world))["state"] == "succeeded"
        assert sum("refused" in line for line in await log(world, 4)) == 1


async def log(world: World, number: int) -> list[str]:
    """The kinds of the lines in the log of an execution of `j`."""
    uid = data_of(await world.client.get("/jobs/j"))["uid"]
    items = data_of(await world.client.get(f"/executions/{uid}-{number}/log"))["items"]
    return [item["kind"] for item in items]


async def test_without_another_instance_it_is_waited_for() -> None:
    """So are its next sign of life and a new one, `services.wait_seconds` long; then it is `no_instance`."""
    async with running(services={"wait_seconds": 20}) as world:
        await register(world, "a", dead_address())
        await create(world, overlapPolicy="allow")
        first = data_of(await world.client.post("/jobs/j/trigger"))
        await world.until(lambda: says_that_it_waits(world, 1))
        async with Target(lambda: 0) as back:
            await register(world, "a", back.url)
            ended = await world.ended(first["executionId"])
        assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1)
        assert (await world.client.delete("/services/shop/instances/a")).status_code == 200
        second = data_of(await world.client.post("/jobs/j/trigger"))
        await world.until(lambda: says_that_it_waits(world, 2))
        world.clock.advance(20_000)
        assert (await world.ended(second["executionId"]))["error"] == "no_instance"


async def test_without_a_wait_it_is_a_failed_connection() -> None:
    """As any other (SPEC section 5); what comes meanwhile waits for its heartbeat, or until it is offline."""
    address = dead_address()
    async with running(services={"wait_seconds": 0}) as world:
        await register(world, "a", address)
        await create(world, overlapPolicy="allow")
        ended = await execute(world)
        assert (ended["error"], ended["failureType"], ended["attemptCount"]) == ("500", "connect", 1)
        last = data_of(await world.client.post("/jobs/j/trigger"))
        await world.until(lambda: is_waiting(world))
        world.clock.advance(10_000)
        assert (await world.ended(last["executionId"]))["error"] == "no_instance"


async def is_waiting(world: World) -> bool:
    """Whether a step looks for an instance."""
    host: Any = world.service.host
    return bool(host.effects.calls.parts == 1)


async def says_that_it_waits(world: World, number: int) -> bool:
    """Whether the log of this execution says that it waits for an instance."""
    return "waiting" in await log(world, number)


async def test_an_instance_that_has_read_the_request_is_not_left(world: World) -> None:
    """It may have done the work: only a connection that was never made goes elsewhere."""
    async with Target(lambda: 0) as alive:
        world.instances["b"] = alive
        world.target.always("/run", Reply(302, headers={"location": dead_address()}))
        await register(world, "a", world.target.url)
        await register(world, "b", alive.url)
        await create(world, request=[STEP | {"route": "failover", "followRedirects": 1}])
        assert (await execute(world))["error"] == "500"
        assert alive.at("/run") == []


async def job_of_calls(world: World) -> str:
    """An execution whose check, notifications and `cancelUrl` go to the shop; its id."""
    calls = {
        "async": True,
        "checkUrl": "service://shop/check",
        "cancelUrl": {"url": "service://shop/end"},
        "timeoutSeconds": 0,
    }
    request = [{"url": "service://jobswork/run"}]
    await create(world, request=request, notification=[{"url": "service://shop/told"}], **calls)
    return str(data_of(await world.client.post("/jobs/j/trigger"))["executionId"])


async def is_checking(world: World) -> bool:
    """Whether a check is on its way; until then the clock runs."""
    host: Any = world.service.host
    if any(token.kind is CallKind.CHECK for token in host.effects.calls.tokens()):
        return True
    world.clock.advance(100)
    return False


@each_row("is_deaf", [False, True])
async def test_checks_and_notifications_wait_as_steps_do(*, is_deaf: bool) -> None:
    """While a single instance has left, or refuses connections; the first try of each is answered."""
    async with running(services={"wait_seconds": 20}) as world, Target(lambda: 0) as back:
        back.always("/check", Reply(200, {"status": "succeed"}))
        await register(world, "a", dead_address())
        if not is_deaf:
            data_of(await world.client.delete("/services/shop/instances/a"))
        execution = await job_of_calls(world)
        await world.until(lambda: is_checking(world))
        await register(world, "a", back.url)
        ended = await world.ended(execution)
        (attempt,) = ended["attempts"]
        assert (ended["state"], len(attempt["checks"])) == ("succeeded", 1)

        async def are_delivered() -> bool:
            told = data_of(await world.client.get(f"/executions/{execution}"))["notifications"]
            return {one["state"] for one in told} == {"delivered"}

        await world.until(are_delivered)
