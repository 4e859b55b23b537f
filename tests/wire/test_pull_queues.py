"""Pull queues over the API: claimed, renewed, completed, lost (SPEC section 13)."""

import asyncio
from pathlib import Path
from typing import Any

from tests.rows import each_row
from tests.wire.queue_work import claim, complete, create, trigger
from tests.wire.service import World, data_of, definition, pointers, running


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


async def test_a_claimer_that_hangs_up_takes_nothing() -> None:
    """Work that comes later goes to who is still there."""
    async with running() as world:
        await create(world)
        gone = asyncio.ensure_future(claim(world, "gone", wait=30))
        await world.settle()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await trigger(world)
        assert len(await claim(world, "there")) == 1


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
    """An accepted completion whose answer was lost in a crash is answered 200 by the next scheduler; one that
    says something else is not, nor is one of a lease that was never completed.
    """
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


async def test_lead_time() -> None:
    """Work is handed out three seconds early, marked with its moment."""
    async with running() as world:
        posted = definition(request=[{"url": "queue://work"}], timer={"period": "0s", "dueTime": "10s"})
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        await world.advance(6.9)
        assert await claim(world) == []
        await world.advance(0.1)
        (item,) = await claim(world)
        assert item["scheduledAt"] == "2026-01-01T00:00:10.000Z"
        assert item["request"]["headers"]["X-Scheduled-At"] == item["scheduledAt"]


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
async def test_what_is_wrong_is_named(path: str, body: dict[str, Any], pointer: str) -> None:
    """422, with its pointer."""
    async with running() as world:
        answer = await world.client.post(path, json=body)
        assert answer.status_code == 422
        assert pointers(answer)[0][0] == pointer


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
