"""`rateLimit` of a service holds for claims from the queue of its name (SPEC section 13)."""

import asyncio

from tests.wire.queue_work import claim, create, trigger
from tests.wire.service import World, running


async def limit(world: World, count: int, seconds: float) -> None:
    """The service with the queue's name."""
    body = {"rateLimit": {"count": count, "perSeconds": seconds}}
    assert (await world.client.put("/services/work", json=body)).status_code in (200, 201)


async def test_a_queue_gives_out_no_more_than_its_rate() -> None:
    """Over all instances and claims; a claim that waits gets its part as soon as the rate allows one."""
    async with running() as world:
        await create(world)
        await limit(world, 1, 5)
        for _ in range(4):
            await trigger(world)
        assert len(await claim(world, most=4)) == 1
        assert await claim(world, "w2", most=4) == []
        waiting = asyncio.ensure_future(claim(world, "w2", most=4, wait=20))
        await world.advance(4)
        assert not waiting.done()
        await world.advance(1)
        assert len(await waiting) == 1
        assert await claim(world, "w3") == []
