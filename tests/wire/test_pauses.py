"""Queues and services that are paused: nothing begins there, and no time counts (SPEC section 13)."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from client_sdk import Client
from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import World, data_of, pointers, running

pytestmark = pytest.mark.anyio
START = "2026-01-01T00:00:00.000Z"


async def pause(world: World, path: str = "queues/work") -> dict[str, Any]:
    found: dict[str, Any] = data_of(await world.client.post(f"/{path}/pause"))
    return found


async def resume(world: World, path: str = "queues/work") -> dict[str, Any]:
    found: dict[str, Any] = data_of(await world.client.post(f"/{path}/resume"))
    return found


async def test_nothing_is_claimed_from_a_paused_queue() -> None:
    """What waits keeps its order, what is held goes on, and another queue is not touched."""
    async with running() as world:
        await create(world)
        held = await trigger(world, 1)
        (item,) = await claim(world)
        waiting = [await trigger(world, number) for number in (2, 3)]
        line = await pause(world)
        assert (line["depth"], line["held"], line["paused"], line["pausedAt"]) == (2, 1, True, START)
        assert await claim(world) == []
        assert data_of(await world.client.post(f"/leases/{item['lease']}/renew"))["cancelled"] is False
        data_of(await complete(world, item["lease"]))
        assert (await world.ended(held))["state"] == "succeeded"
        claiming = asyncio.ensure_future(claim(world, most=2, wait=30))
        await world.settle()
        assert not claiming.done()
        assert (await resume(world))["paused"] is False
        assert [one["executionId"] for one in await claiming] == waiting


async def test_a_pause_is_shown_and_may_be_repeated() -> None:
    """It stands since the first one; a queue that nobody has named yet can be paused too."""
    async with running() as world:
        first = await pause(world)
        await world.advance(60)
        assert await pause(world) == first
        assert data_of(await world.client.get("/queues"))["items"] == [first]
        shown = data_of(await world.client.get("/queues/work"))
        assert (shown["paused"], shown["pausedAt"]) == (True, START)
        for _ in "ab":
            assert (await resume(world)) == first | {"paused": False, "pausedAt": None}
        assert data_of(await world.client.get("/queues"))["items"] == []
        assert pointers(await world.client.post("/queues/-none/pause")) == [("/name", "pattern")]


async def test_a_repeated_request_pauses_once() -> None:
    """Under its `Idempotency-Key` it is answered as before, though the queue goes on meanwhile."""
    async with running() as world:
        key = {"Idempotency-Key": "one"}
        first = await world.client.post("/queues/work/pause", headers=key)
        await resume(world)
        assert data_of(await world.client.post("/queues/work/pause", headers=key)) == data_of(first)
        assert data_of(await world.client.get("/queues/work"))["paused"] is False


async def test_a_pause_does_not_count_against_limits() -> None:
    """Neither the queue timeout, nor the limit of the attempt: both have what was left."""
    async with running() as world:
        await create(world, {"queueTimeoutSeconds": 90}, timeoutSeconds=10)
        early = await trigger(world)
        await world.advance(60)
        await pause(world)
        await world.advance(300)
        late = await trigger(world)
        await world.advance(300)
        await resume(world)
        await world.advance(29)
        assert data_of(await world.client.get("/queues/work"))["depth"] == 2
        await world.advance(1)
        assert (await world.ended(early))["error"] == "queue_timeout"
        (item,) = await claim(world)
        assert item["executionId"] == late
        data_of(await complete(world, item["lease"]))
        assert (await world.ended(late))["state"] == "succeeded"


async def test_a_pause_outlives_a_restart(tmp_path: Path) -> None:
    """And the downtime counts as little as the rest of it."""
    async with running(store={"data": str(tmp_path)}) as world:
        await create(world, {"queueTimeoutSeconds": 90}, qos=1)
        execution = await trigger(world)
        await pause(world)
    async with running(store={"data": str(tmp_path)}) as world:
        await world.advance(500)
        assert await claim(world) == []
        assert (await pause(world))["pausedAt"] == START
        await resume(world)
        await world.advance(80)
        assert [one["executionId"] for one in await claim(world)] == [execution]


async def test_a_part_of_a_paused_queue_can_be_cancelled() -> None:
    """It leaves the queue at once."""
    async with running() as world:
        await create(world)
        execution = await trigger(world)
        await pause(world)
        data_of(await world.client.post(f"/executions/{execution}/cancel"))
        assert (await world.ended(execution))["state"] == "cancelled"
        assert (await resume(world))["depth"] == 0


async def test_the_client_pauses_queues() -> None:
    """`pause` and `resume`, with the queue as it is then."""
    async with running() as world:
        transport = httpx.ASGITransport(world.service.api)
        async with Client("http://127.0.0.1:8000", transport=transport) as client:
            assert (await client.queues.pause("work")).paused
            assert not (await client.queues.resume("work")).paused
