"""Queues as operators read them: `GET /queues` and `GET /queues/{name}` (SPEC section 13)."""

import httpx

from client_sdk import BlockingClient, Client
from tests.wire.queue_work import claim, create, trigger
from tests.wire.service import World, data_of, pointers, running

GOES_ON = {"paused": False, "pausedAt": None}


async def test_a_queue_says_what_waits_and_who_holds_what() -> None:
    """Depth and age of what waits; each held part with its holder, without its lease."""
    async with running() as world:
        await create(world, {"parallelism": 2, "leaseSeconds": 30})
        assert data_of(await world.client.get("/queues")) == {"items": [], "nextCursor": None}
        execution = await trigger(world)
        await world.advance(5)
        (item,) = await claim(world)
        line = {"name": "work", "depth": 1, "oldestAt": "2026-01-01T00:00:00.000Z", "held": 1}
        line |= GOES_ON
        assert data_of(await world.client.get("/queues"))["items"] == [line]
        found = await world.client.get("/queues/work")
        held = {
            "executionId": execution,
            "jobId": "j",
            "requestCounts": 1,
            "step": 0,
            "shardIndex": 0,
            "shardTotal": 2,
            "instanceId": "w1",
            "leaseUntil": "2026-01-01T00:00:35.000Z",
        }
        assert data_of(found) == {**line, "items": [held], "nextCursor": None}
        assert item["lease"] not in found.text


async def test_pages_of_holders() -> None:
    """A cursor leads on, and fits its own list alone; a queue without parts is empty; a bad name is 422."""
    async with running() as world:
        await create(world)
        for _ in range(3):
            await trigger(world)
        await claim(world, most=3)
        first = data_of(await world.client.get("/queues/work?limit=2"))
        second = data_of(await world.client.get(f"/queues/work?limit=2&cursor={first['nextCursor']}"))
        assert [len(first["items"]), len(second["items"]), second["nextCursor"]] == [2, 1, None]
        assert (await world.client.get(f"/queues?cursor={first['nextCursor']}")).status_code == 422
        empty = {"name": "none", "depth": 0, "oldestAt": None, "held": 0, "items": [], "nextCursor": None}
        assert data_of(await world.client.get("/queues/none")) == empty | GOES_ON
        assert pointers(await world.client.get("/queues/-none")) == [("/name", "pattern")]


async def test_parts_of_all_queues_are_counted() -> None:
    """What waits, since when, and what is held."""
    async with running() as world:
        nothing = {"queues": {"value": 0, "isCapped": False}, "waiting": 0, "held": 0, "oldestAt": None}
        assert data_of(await world.client.get("/counts/queues")) == nothing
        await create(world, {"parallelism": 3})
        await trigger(world)
        await claim(world)
        counted = data_of(await world.client.get("/counts/queues"))
        some = {"queues": {"value": 1, "isCapped": False}, "waiting": 2, "held": 1}
        assert counted == {**some, "oldestAt": "2026-01-01T00:00:00.000Z"}
        async with _client(world) as client:
            found = await client.queues.counts()
            assert (found.queues.value, found.waiting, found.held) == (1, 2, 1)
            assert (await client.deliveries.counts(state="outbox")).total.value == 0


async def test_the_client_reads_queues() -> None:
    """Lists them, reads one, and goes through all that is held."""
    async with running() as world:
        await create(world)
        for _ in range(3):
            await trigger(world)
        await claim(world, most=2)
        async with _client(world) as client:
            assert [(one.name, one.depth, one.held) async for one in client.queues.list()] == [("work", 1, 2)]
            queue = await client.queues.get("work")
            assert [one.instance_id for one in queue.items] == ["w1", "w1"]
            assert [one async for one in client.queues.held("work", page=1)] == queue.items
    with BlockingClient() as blocking:
        assert {"list", "get", "held"} <= set(dir(blocking.queues))


def _client(world: World) -> Client:
    return Client("http://127.0.0.1:8000", transport=httpx.ASGITransport(world.service.api))
