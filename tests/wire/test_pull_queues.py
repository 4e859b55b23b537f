"""Pull queues over the API: claimed, renewed, completed, lost (SPEC section 13)."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from client_sdk import Client
from client_sdk.errors import Conflict
from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.turn_events import CancelRequested
from scheduler_service.ports.delivery import Command
from tests.rows import each_row
from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import SERVED, World, data_of, definition, pointers, running
from tests.wire.target import Target


async def test_work_is_claimed_and_completed() -> None:
    """All that an instance needs is in the item; its data is the step's response."""
    async with running() as world:
        await create(world)
        execution = await trigger(world, 7)
        (item,) = await claim(world)
        assert item["executionId"] == execution
        assert (item["requestCounts"], item["shardIndex"], item["shardTotal"]) == (1, 0, 1)
        assert (item["leaseSeconds"], item["renewSeconds"], item["cancelled"]) == (60.0, 30.0, False)
        assert (item["maxUnexpectedRetries"], item["unexpectedRetryDelaySeconds"]) == (3, 10.0)
        assert item["leaseUntil"] == "2026-01-01T00:01:00.000Z"
        assert item["scheduledAt"] == "2026-01-01T00:00:00.000Z"
        request = item["request"]
        assert (request["method"], request["url"], request["body"]) == ("POST", "queue://work", {"n": 7})
        assert request["headers"]["X-Scheduling-Job-Id"] == "j"
        assert request["headers"]["traceparent"].startswith("00-")
        assert request["headers"]["X-Scheduling-Deadline"] == "2026-01-01T00:01:00.000Z"
        data_of(await complete(world, item["lease"], data={"rows": 3}))
        found = await world.ended(execution)
        assert found["state"] == "succeeded"
        (step,) = found["attempts"][0]["steps"]
        assert (step["instance"], step["part"], step["status"]) == ("w1", None, 200)
        assert step["response"]["body"] == '{"rows":3}'


async def test_a_claim_waits_for_work() -> None:
    """As long as it asks; what comes meanwhile is handed out at once, to one of those who wait."""
    async with running() as world:
        await create(world)
        assert await claim(world) == []
        waiting = [asyncio.ensure_future(claim(world, f"w{number}", wait=20)) for number in range(3)]
        await world.settle()
        await trigger(world)
        await world.until(_is_one_done(waiting))
        await world.advance(20)
        found = [len(await one) for one in waiting]
        assert sorted(found) == [0, 0, 1]
        # One that hangs up takes nothing: work that comes later goes to who is still there
        gone = asyncio.ensure_future(claim(world, "gone", wait=30))
        await world.settle()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await trigger(world)
        assert len(await claim(world, "there")) == 1


def _is_one_done(tasks: list["asyncio.Future[Any]"]) -> Any:
    async def look() -> bool:
        return any(task.done() for task in tasks)

    return look


async def register(world: World, **said: Any) -> None:
    """The instance `w1`, under the name of the queue."""
    answer = await world.client.put("/services/work/instances/w1", json=said)
    assert answer.status_code in (200, 201)


async def test_a_full_instance_gets_nothing() -> None:
    """Its `capacity` counts over all of its claims; one that waits is given more when it has room."""
    async with running() as world:
        await create(world)
        for _ in range(4):
            await trigger(world)
        await register(world, capacity=2)
        first, _ = await claim(world, most=3)
        assert await claim(world, most=3) == []
        waiting = asyncio.ensure_future(claim(world, most=3, wait=20))
        await world.settle()
        assert not waiting.done()
        data_of(await complete(world, first["lease"]))
        assert len(await waiting) == 1
        assert len(await claim(world, "stranger", most=3)) == 1


async def test_a_draining_instance_gets_nothing() -> None:
    """It wants no new work, until it says otherwise; what it holds it may end."""
    async with running() as world:
        await create(world)
        for _ in range(2):
            await trigger(world)
        await register(world)
        (held,) = await claim(world)
        heartbeat = "/services/work/instances/w1/heartbeat"
        data_of(await world.client.post(heartbeat, json={"draining": True}))
        assert await claim(world) == []
        waiting = asyncio.ensure_future(claim(world, wait=20))
        await world.settle()
        data_of(await complete(world, held["lease"]))
        await world.advance(2)
        assert not waiting.done()
        data_of(await world.client.post(heartbeat, json={"draining": False}))
        await world.advance(1)
        assert len(await waiting) == 1


async def test_a_lost_lease_is_lost() -> None:
    """409 `lease_lost` for renewal and completion; the part is another one's after the delay."""
    async with running() as world:
        await create(world, {"leaseSeconds": 1, "unexpectedRetryDelaySeconds": 5})
        execution = await trigger(world)
        (item,) = await claim(world)
        await world.advance(1)
        for answer in (
            await complete(world, item["lease"]),
            await world.client.post(f"/leases/{item['lease']}/renew", json={}),
            await world.client.post("/leases/nobody/renew", json={}),
        ):
            assert (answer.status_code, pointers(answer)) == (409, [("/lease", "lease_lost")])
        assert await claim(world, "w2") == []
        await world.advance(5)
        (again,) = await claim(world, "w2")
        assert again["request"]["headers"]["Idempotency-Key"] == item["request"]["headers"]["Idempotency-Key"]
        data_of(await complete(world, again["lease"]))
        assert (await world.ended(execution))["attempts"][0]["steps"][0]["instance"] == "w2"


async def test_cancelled_work_hears_of_it() -> None:
    """By `cancelled` on renewal, by `cancelUrl`, and by 409 `stale`: its completion has no effect."""
    async with running() as world:
        await create(world, cancelUrl={"url": "service://jobswork/stop"})
        execution = await trigger(world)
        (item,) = await claim(world)
        other = await trigger(world, 2)
        for one in (execution, other):
            data_of(await world.client.post(f"/executions/{one}/cancel", json={}))
        await world.settle()
        assert [one.path for one in world.target.seen] == ["/stop", "/stop"]
        assert await claim(world, "w2") == []
        renewed = data_of(await world.client.post(f"/leases/{item['lease']}/renew", json={}))
        assert renewed["cancelled"] is True
        answer = await complete(world, item["lease"])
        assert (answer.status_code, pointers(answer)) == (409, [("/lease", "stale")])
        assert (await world.ended(execution))["state"] == "cancelled"


async def test_completing_again_after_a_restart(tmp_path: Path) -> None:
    """One that was accepted is 200 again; what says something else, or was never completed, is 409."""
    async with running(store={"data": str(tmp_path)}) as world:
        await create(world)
        execution = await trigger(world)
        (item,) = await claim(world)
        data_of(await complete(world, item["lease"], data=[1]))
        await world.ended(execution)
    async with running(store={"data": str(tmp_path)}) as world:
        data_of(await complete(world, item["lease"], data=[1]))
        for lease, said in ((item["lease"], {"data": [2]}), ("never", {"data": [1]})):
            answer = await complete(world, lease, **said)
            assert (answer.status_code, pointers(answer)) == (409, [("/lease", "lease_lost")])
        assert (await world.ended(execution))["attemptCount"] == 1


async def test_publishing_is_idempotent_with_reset() -> None:
    """The same key is the same work; `reset=failed` publishes it anew once it has failed."""
    async with running() as world:
        await create(world)
        key = {"Idempotency-Key": "k"}
        first = await trigger(world, **key)
        assert await trigger(world, **key) == first
        items = await claim(world, most=5)
        assert len(items) == 1
        data_of(await complete(world, items[0]["lease"], status="failed"))
        await world.ended(first)
        answer = await world.client.post("/jobs/j/trigger?reset=failed", json={"n": 1}, headers=key)
        second = data_of(answer)["executionId"]
        assert second != first
        assert [one["executionId"] for one in await claim(world, most=5)] == [second]


@each_row(
    ("path", "body", "pointer"),
    [
        ("/queues/a%20b/claim", {"instanceId": "w"}, "/name"),
        ("/queues/work/claim", {}, "/instanceId"),
        ("/queues/work/claim", {"instanceId": "w", "max": 101}, "/max"),
        ("/queues/work/claim", {"instanceId": "w", "waitSeconds": 61}, "/waitSeconds"),
        ("/queues/work/claim", {"instanceId": "w", "most": 1}, "/most"),
        ("/leases/x/complete", {"status": "done"}, "/status"),
        ("/leases/x/complete", {}, "/status"),
        ("/leases/x/complete", {"status": "failed", "error": "lost"}, "/error"),
        ("/leases/x/complete", {"status": "failed", "error": "instance_lost"}, "/error"),
        ("/leases/x/complete", {"status": "failed", "error": "egress"}, "/error"),
        ("/leases/x/renew", {"lease": 1}, "/lease"),
    ],
)
async def test_what_is_wrong_is_named(world: World, path: str, body: dict[str, Any], pointer: str) -> None:
    """422, with its pointer."""
    answer = await world.client.post(path, json=body)
    assert (answer.status_code, pointers(answer)[0][0]) == (422, pointer)


async def test_a_node_that_stops_hands_out_nothing() -> None:
    """Who waits is answered at once with nothing; a part that is in work may still be completed."""
    async with running() as world:
        await create(world)
        execution = await trigger(world)
        (item,) = await claim(world)
        waiting = asyncio.ensure_future(claim(world, "w2", wait=30))
        await world.settle()
        stopping = asyncio.ensure_future(world.stop(grace=60_000))
        assert await asyncio.wait_for(waiting, 5) == []
        data_of(await complete(world, item["lease"]))
        await stopping
        assert execution


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
        # Other queues have no rate: only the one with the service's name
        other = definition(request=[{"url": "queue://other"}], overlapPolicy="allow")
        data_of(await world.client.post("/jobs/other", json=other), 201)
        for _ in range(3):
            data_of(await world.client.post("/jobs/other/trigger"))
        answer = await world.client.post("/queues/other/claim", json={"instanceId": "w", "max": 3})
        assert len(data_of(answer)["items"]) == 3


async def test_a_stuck_part_goes_to_another_instance() -> None:
    """The client frees what `held` gives: its lease is lost, and the next one gets it after the delay."""
    async with running() as world:
        await create(world, {"unexpectedRetryDelaySeconds": 1})
        execution = await trigger(world)
        (stuck,) = await claim(world, "w1")
        part = {"executionId": execution, "requestCounts": stuck["requestCounts"], "step": 0, "shardIndex": 0}
        async with Client(SERVED, transport=httpx.ASGITransport(world.service.api)) as client:
            (held,) = [one async for one in client.queues.held("work")]
            await client.queues.free("work", held)
            with pytest.raises(Conflict):
                await client.queues.free("work", held)
        assert (await complete(world, stuck["lease"])).status_code == 409
        assert await claim(world, "w2") == []
        await world.advance(1)
        (again,) = await claim(world, "w2")
        assert (await complete(world, again["lease"])).status_code == 200
        assert (await world.ended(execution))["state"] == "succeeded"
        refused = (await world.client.post("/queues/work/free", json=part)).json()
        assert (refused["status"], refused["errors"][0]["code"]) == (409, "not_held")


OFFLINE, LOST = 10, 20
STEP = {"url": "service://shop/run", "body": "${schedulingFeedbackUrlExternal}"}
CHECK = {"checkUrl": "service://jobswork/check", "checkRateSeconds": 1}


async def register_lost(world: World, name: str = "a", target: Target | None = None) -> None:
    """The full registration of an instance of the shop."""
    address = {"address": (target or world.target).url}
    await world.client.put(f"/services/shop/instances/{name}", json=address)


async def begin(world: World, **members: Any) -> str:
    """An asynchronous execution that the shop has taken in hand; its id."""
    job = definition(**{"request": [STEP], "async": True, "timeoutSeconds": 600} | members)
    data_of(await world.client.post("/jobs/j", json=job), 201)
    started = data_of(await world.client.post("/jobs/j/trigger"))
    await world.settle()
    return str(started["executionId"])


async def state(world: World) -> str:
    """That of the latest execution, after the latest turn."""
    jobs = world.service.jobs
    await jobs.deliver("j", Command(CancelRequested(0)))  # refused, after the turns that are under way
    job = await jobs.read("j")
    assert job is not None
    assert job.document is not None
    assert job.document.head.latest is not None
    return job.document.head.latest.state


def lost(world: World) -> list[dict[str, Any]]:
    """What the log says of lost instances."""
    return [keys for event, keys in world.log if event == "instance_lost"]


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("how", [{}, CHECK])
async def test_it_ends_what_it_had_taken_in_hand(world: World, how: dict[str, Any], qos: int) -> None:
    """10 s after it went offline, whether a check or feedback is awaited; one line says so."""
    await register_lost(world)
    heard = rfc3339(world.clock.now().wall)
    execution = await begin(world, qos=qos, **how)
    await world.advance(LOST - 1)
    assert (await state(world), lost(world)) == ("processing", [])
    await world.advance(2)
    ended = await world.ended(execution)
    assert (ended["state"], ended["error"], ended["failureType"]) == ("terminated", "instance_lost", "lost")
    (line,) = lost(world)
    assert (line["service"], line["instance"], line["executions"]) == ("shop", "a", 1)
    assert (line["reason"], line["since"]) == ("silent", heard)
    message = ended["attempts"][0]["message"]
    assert message.startswith(f"instance a of service shop is lost: no heartbeat since {heard}; ")
    assert len(world.target.at("/check")) < LOST + 2


@each_row(("setting", "after"), [(0, None), (2, 12), (None, 20)])
async def test_the_setting(setting: float | None, after: int | None) -> None:
    """`services.lost_after_seconds`: as `offline_seconds` by default; 0: only `timeoutSeconds` ends it."""
    given = {} if setting is None else {"lost_after_seconds": setting}
    async with running(services=given) as world:
        await register_lost(world)
        execution = await begin(world, timeoutSeconds=100)
        if after is not None:
            await world.advance(after - 1)
            assert await state(world) == "processing"
            await world.advance(2)
            assert await state(world) == "terminated"
            return
        await world.advance(99)
        assert await state(world) == "processing"
        await world.advance(2)
        assert (await world.ended(execution))["error"] == "timeout"


async def test_a_static_address_is_never_lost(world: World) -> None:
    """It sends no heartbeats."""
    await begin(world, request=[STEP | {"url": "service://jobswork/run"}])
    await world.advance(120)
    assert await state(world) == "processing"


@pytest.mark.parametrize("is_back", [False, True])
async def test_a_restart_forgets_nobody(tmp_path: Path, is_back: bool) -> None:
    """One that died while the scheduler was down ends its work; one that registers again goes on."""
    async with running(store={"data": str(tmp_path)}) as world:
        await register_lost(world)
        await begin(world, qos=1)
    async with running(store={"data": str(tmp_path)}) as world:
        if is_back:
            await world.advance(3)
            await register_lost(world)
        await world.advance(LOST - 2 if is_back else LOST + 1)
        assert await state(world) == ("processing" if is_back else "terminated")
        assert len(lost(world)) == (0 if is_back else 1)
