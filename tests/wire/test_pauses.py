"""Queues: what they show and tell, and while they or services are paused (SPEC section 13)."""

import asyncio
from typing import Any

import httpx

from client_sdk import BlockingClient, Client
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


async def test_the_history_shows_what_was_asked_and_what_was_said() -> None:
    """The request as the instance was given it, and the data of a failed part beside its error."""
    async with running() as world:
        await create(world, {"headers": {"X-Album": "7"}})
        execution = await trigger(world, 3)
        (item,) = await claim(world)
        said = {"status": "failed", "error": "disk", "message": "full", "data": {"left": 0}}
        data_of(await complete(world, item["lease"], **said))
        (step,) = (await world.ended(execution))["attempts"][0]["steps"]
        assert step["request"]["body"] == '{"n":3}'
        given = item["request"]["headers"]
        added = ("traceparent", "X-Scheduling-Deadline")
        assert step["request"]["headers"] == {name: given[name] for name in given if name not in added}
        assert (step["url"], step["error"], step["fault"]) == ("queue://work", "disk", "full")
        assert step["response"]["body"] == '{"left":0}'


async def test_who_had_a_part_and_who_lost_it_is_told() -> None:
    """While it is worked on and afterwards, in the execution and in its log."""
    async with running() as world:
        step = {"leaseSeconds": 10, "unexpectedRetryDelaySeconds": 0}
        await create(world, step, timeoutSeconds=600)
        execution = await trigger(world)
        await claim(world, "w1")
        lines = [("claimed", "w1", "2026-01-01T00:00:00.000Z")]
        assert await _leases(world, execution) == lines
        await world.advance(10)
        lines.append(("lost", "w1", "2026-01-01T00:00:10.000Z"))
        assert await _leases(world, execution) == lines
        (item,) = await claim(world, "w2")
        data_of(await complete(world, item["lease"]))
        found = await world.ended(execution)
        assert found["attempts"][0]["steps"][0]["instance"] == "w2"
        lines.append(("claimed", "w2", "2026-01-01T00:00:10.000Z"))
        assert await _leases(world, execution) == lines
        log = data_of(await world.client.get(f"/executions/{execution}/log"))["items"]
        texts = [line["text"] for line in log if line["kind"] == "lease"]
        assert texts == ["claimed: w1", "lost: w1", "claimed: w2"]


async def test_work_that_nobody_has_claimed_is_shown_as_such() -> None:
    """How many parts wait for a claim, and how many are claimed; the log says where they wait."""
    async with running() as world:
        await create(world, {"parallelism": 3}, timeoutSeconds=600)
        execution = await trigger(world)
        await world.settle()
        assert await _queue(world, execution) == {
            "step": 0, "name": "work", "parts": 3, "unclaimed": 3, "claimed": 0, "ended": 0,
        }  # fmt: skip
        log = data_of(await world.client.get(f"/executions/{execution}/log"))["items"]
        (line,) = [line for line in log if line["kind"] == "queue"]
        assert (line["text"], line["step"]) == ("3 parts wait in queue work for a claim each", 0)
        items = [(await claim(world, f"w{number}"))[0] for number in range(2)]
        await world.settle()
        data_of(await complete(world, items[0]["lease"]))
        await world.settle()
        found = await _queue(world, execution)
        assert found is not None
        assert (found["unclaimed"], found["claimed"], found["ended"]) == (1, 1, 1)
        data_of(await complete(world, items[1]["lease"]))
        (last,) = await claim(world, "w2")
        data_of(await complete(world, last["lease"]))
        await world.ended(execution)
        assert await _queue(world, execution) is None


async def _queue(world: World, execution: str) -> dict[str, Any] | None:
    """What the execution's attempt has in a queue."""
    (attempt,) = data_of(await world.client.get(f"/executions/{execution}"))["attempts"]
    found: dict[str, Any] | None = attempt["queue"]
    return found


async def _leases(world: World, execution: str) -> list[tuple[str, str, str]]:
    await world.settle()
    (attempt,) = data_of(await world.client.get(f"/executions/{execution}"))["attempts"]
    return [(one["what"], one["instance"], one["at"]) for one in attempt["leases"]]


GOES_ON = {"paused": False, "pausedAt": None}


async def test_a_queue_says_what_waits_and_who_holds_what() -> None:
    """Depth and age of what waits, in all queues too; each held part with its holder, without its lease."""
    async with running() as world:
        await create(world, {"parallelism": 2, "leaseSeconds": 30})
        nothing = {"queues": {"value": 0, "isCapped": False}, "waiting": 0, "held": 0, "oldestAt": None}
        assert data_of(await world.client.get("/counts/queues")) == nothing
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
        some = {"queues": {"value": 1, "isCapped": False}, "waiting": 1, "held": 1}
        counted = data_of(await world.client.get("/counts/queues"))
        assert counted == {**some, "oldestAt": "2026-01-01T00:00:00.000Z"}
        async with _client(world) as client:
            counts = await client.queues.counts()
            assert (counts.queues.value, counts.waiting, counts.held) == (1, 1, 1)
            assert (await client.deliveries.counts(state="outbox")).total.value == 0


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
        # The client lists queues, reads one, and goes through all that is held
        await trigger(world)
        async with _client(world) as client:
            assert [(one.name, one.depth, one.held) async for one in client.queues.list()] == [("work", 1, 3)]
            queue = await client.queues.get("work")
            assert [one.instance_id for one in queue.items] == ["w1"] * 3
            assert [one async for one in client.queues.held("work", page=1)] == queue.items
    with BlockingClient() as blocking:
        assert {"list", "get", "held"} <= set(dir(blocking.queues))


def _client(world: World) -> Client:
    return Client("http://127.0.0.1:8000", transport=httpx.ASGITransport(world.service.api))


async def test_queues_are_listed_page_by_page() -> None:
    """By name, those that are paused among those in which something waits, each once."""
    async with running() as world:
        await create(world, {"parallelism": 2})
        await trigger(world)
        for name in ("zeta", "alpha", "work", "middle"):
            data_of(await world.client.post(f"/queues/{name}/pause"))
        pages, cursor = [], ""
        while cursor is not None and len(pages) < 9:
            place = {"limit": "3", **({"cursor": cursor} if cursor else {})}
            page = data_of(await world.client.get("/queues", params=place))
            pages.append([(one["name"], one["depth"], one["paused"]) for one in page["items"]])
            cursor = page["nextCursor"]
        assert pages == [
            [("alpha", 0, True), ("middle", 0, True), ("work", 2, True)],
            [("zeta", 0, True)],
        ]
