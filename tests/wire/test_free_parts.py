"""A part that is stuck with an instance is freed by a person (SPEC section 13)."""

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Conflict
from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import SERVED, data_of, running


async def test_a_stuck_part_goes_to_another_instance() -> None:
    """The first instance has lost its lease; the second one gets the work after the delay, and ends it."""
    async with running() as world:
        await create(world, {"unexpectedRetryDelaySeconds": 1})
        execution = await trigger(world)
        (stuck,) = await claim(world, "w1")
        part = {"executionId": execution, "requestCounts": stuck["requestCounts"], "step": 0, "shardIndex": 0}
        data_of(await world.client.post("/queues/work/free", json=part))
        assert (await complete(world, stuck["lease"])).status_code == 409
        assert await claim(world, "w2") == []
        await world.advance(1)
        (again,) = await claim(world, "w2")
        assert (await complete(world, again["lease"])).status_code == 200
        assert (await world.ended(execution))["state"] == "succeeded"
        refused = (await world.client.post("/queues/work/free", json=part)).json()
        assert (refused["status"], refused["errors"][0]["code"]) == (409, "not_held")


async def test_the_client_frees_what_a_queue_shows() -> None:
    """What `held` gives can be freed; a second time nobody holds it."""
    async with running() as world:
        await create(world)
        await trigger(world)
        await claim(world, "w1")
        async with Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client:
            (held,) = [part async for part in client.queues.held("work")]
            await client.queues.free("work", held)
            with pytest.raises(Conflict):
                await client.queues.free("work", held)
