"""Queues and services that are paused: nothing begins there, and no time counts (SPEC section 13)."""

import asyncio
from typing import Any

import httpx

from client_sdk import Client
from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import World, data_of, definition, pointers, running
from tests.wire.target import Reply

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


SHOP = "services/shop"


async def open_shop(world: World, **members: Any) -> None:
    """The target is the one instance of a service."""
    path = "/services/shop/instances/one"
    data_of(await world.client.put(path, json={"address": world.target.url, **members}), 201)


async def create_for(world: World, url: str = "service://shop/run", **members: Any) -> None:
    posted = definition(
        request=[{"url": url, "body": {"n": "${$.n}|json"}}], overlapPolicy="allow", **members
    )
    data_of(await world.client.post("/jobs/j", json=posted), 201)


async def test_no_step_is_sent_to_a_paused_service() -> None:
    """It keeps its place within its attempt, whose limit stands still; all of them go out after it."""
    async with running() as world:
        await open_shop(world)
        await create_for(world, timeoutSeconds=60, retry=[{"errorEquals": "*"}])
        line = await pause(world, SHOP)
        assert (line["name"], line["paused"], line["pausedAt"]) == ("shop", True, START)
        world.waiting = 3
        executions = [await trigger(world, number) for number in (1, 2, 3)]
        for _ in range(200):
            await world.advance(5)
            data_of(await world.client.post("/services/shop/instances/one/heartbeat", json={}))
        assert world.target.at("/run") == []
        assert data_of(await world.client.get("/services"))["items"][0]["paused"] is True
        log = data_of(await world.client.get(f"/executions/{executions[0]}/log"))["items"]
        assert [one["text"] for one in log if one["kind"] == "waiting"] == [
            "shop is paused: waits until it is resumed"
        ]
        assert (await resume(world, SHOP))["paused"] is False
        found = [await world.ended(one) for one in executions]
        assert [(one["state"], one["attemptCount"]) for one in found] == [("succeeded", 1)] * 3
        assert [seen.json["n"] for seen in world.target.at("/run")] == [1, 2, 3]


async def test_what_runs_at_a_paused_service_goes_on() -> None:
    """A check and a cancellation are sent: they are about work that it has."""
    async with running() as world:
        await open_shop(world)
        check = {"url": "service://shop/state"}
        cancel = {"method": "POST", "url": "service://shop/stop"}
        world.target.always("/state", Reply(200, {"status": ""}))
        await create_for(world, checkUrl=check, cancelUrl=cancel, timeoutSeconds=60, **{"async": True})
        execution = await trigger(world)
        await world.advance(1)
        await pause(world, SHOP)
        checks = len(world.target.at("/state"))
        await world.advance(3)
        assert len(world.target.at("/state")) > checks
        data_of(await world.client.post(f"/executions/{execution}/cancel"))
        await world.settle()
        assert len(world.target.at("/stop")) == 1


async def test_a_service_of_the_settings_can_be_paused() -> None:
    """It is registered by it, and listed; one that nobody knows is 404, as is its end."""
    async with running() as world:
        await create_for(world, "service://jobswork/run")
        assert (await pause(world, "services/jobswork"))["paused"] is True
        world.waiting = 1
        execution = await trigger(world)
        await world.advance(1)
        assert world.target.at("/run") == []
        shown = data_of(await world.client.get("/services/jobswork"))
        assert (shown["paused"], shown["pausedAt"]) == (True, START)
        await resume(world, "services/jobswork")
        assert (await world.ended(execution))["state"] == "succeeded"
        for verb in ("pause", "resume"):
            assert pointers(await world.client.post(f"/services/none/{verb}")) == [("/name", "absent")]


async def test_the_client_pauses_queues_and_services() -> None:
    """`pause` and `resume`, with what was named as it is then."""
    async with running() as world:
        await open_shop(world)
        transport = httpx.ASGITransport(world.service.api)
        async with Client("http://127.0.0.1:8000", transport=transport) as client:
            for group, name in ((client.queues, "work"), (client.services, "shop")):
                assert (await group.pause(name)).paused
                assert not (await group.resume(name)).paused


async def test_a_removed_service_is_not_paused_any_more() -> None:
    """What waits for it fails as for any service that is not there; registered again it takes work."""
    async with running() as world:
        await open_shop(world)
        await create_for(world)
        await pause(world, SHOP)
        world.waiting = 1
        execution = await trigger(world)
        await world.settle()
        data_of(await world.client.delete("/services/shop"))
        assert (await world.ended(execution))["error"] == "no_instance"
        await open_shop(world)
        assert data_of(await world.client.get("/services/shop"))["paused"] is False


async def test_a_job_that_its_target_no_longer_knows_says_so() -> None:
    """410 with `X-Job-State: gone` pauses it; started again it is paused for no reason."""
    async with running() as world:
        world.target.answers("/run", Reply(410, headers={"X-Job-State": "gone"}))
        created = data_of(await world.client.post("/jobs/j", json=definition()), 201)
        assert created["pauseReason"] is None
        started = data_of(await world.client.post("/jobs/j/trigger", json={}))
        await world.ended(started["executionId"])
        found = data_of(await world.client.get("/jobs/j"))
        assert (found["state"], found["pauseReason"]) == ("paused", "gone")
        assert data_of(await world.client.put("/jobs/j?active=1"))["pauseReason"] is None
        assert data_of(await world.client.put("/jobs/j?active=0"))["pauseReason"] == "paused"
