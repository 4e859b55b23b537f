"""How long work may wait in a queue, and how long it may take from its first claim (SPEC section 13)."""

from pathlib import Path
from typing import Any

from tests.wire.queue_work import claim, create, trigger
from tests.wire.service import World, data_of, running


async def renew(world: World, item: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = data_of(await world.client.post(f"/leases/{item['lease']}/renew"))
    return found


async def test_the_limit_counts_from_the_first_claim() -> None:
    """Work that goes on past `timeoutSeconds` is cancelled, also where the lease was lost between."""
    async with running() as world:
        await create(world, {"leaseSeconds": 20, "unexpectedRetryDelaySeconds": 0}, timeoutSeconds=60)
        execution = await trigger(world)
        await world.advance(100)
        await claim(world)
        await world.advance(25)
        (item,) = await claim(world, "w2")
        for _ in range(3):
            await world.advance(10)
            assert not (await renew(world, item))["cancelled"]
        await world.advance(10)
        assert (await renew(world, item))["cancelled"]
        found = await world.ended(execution)
        assert (found["state"], found["error"], found["failureType"]) == ("terminated", "500", "timeout")


async def test_each_claim_says_until_when_the_work_is_awaited() -> None:
    """As a call does: from the first claim of any part of the step, however often one is claimed again."""
    async with running() as world:
        step = {"parallelism": 2, "leaseSeconds": 20, "unexpectedRetryDelaySeconds": 0}
        await create(world, step, timeoutSeconds=60)
        await trigger(world)
        await world.advance(100)
        items = await claim(world)
        await world.advance(5)
        items += await claim(world, "w2")
        await world.advance(15)
        items += await claim(world, "w3")
        deadlines = {item["request"]["headers"]["X-Scheduling-Deadline"] for item in items}
        assert (len(items), deadlines) == (3, {"2026-01-01T00:02:40.000Z"})


async def test_limits_outlive_a_restart(tmp_path: Path) -> None:
    """What was claimed before it has its limit, and what was not still waits for its queue timeout."""
    async with running(store={"data": str(tmp_path)}) as world:
        await create(world, {"queueTimeoutSeconds": 400}, timeoutSeconds=100, qos=1)
        first, second = await trigger(world), await trigger(world)
        (item,) = await claim(world)
        assert item["executionId"] == first
    async with running(store={"data": str(tmp_path)}) as world:
        await world.advance(101)
        assert (await world.ended(first))["error"] == "500"
        assert data_of(await world.client.get("/queues/work"))["depth"] == 1
        await world.advance(300)
        assert (await world.ended(second))["error"] == "queue_timeout"
