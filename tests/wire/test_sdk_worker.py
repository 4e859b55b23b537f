"""The SDK's worker on real pull queues: done, retried, lost, cancelled, stopped (SPEC sections 13, 16)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from client_sdk import Client, JobFailed
from client_sdk.models import answers
from client_sdk.target import Execution
from client_sdk.worker import Worker
from scheduler_service.domain.leases import QueueQuery
from tests.unit.client_sdk.lines import NewerLine
from tests.wire.service import SERVED, World, data_of, definition, running

STEP = {"url": "queue://work", "body": "${trigger}|json", "leaseSeconds": 10, "renewSeconds": 0.1}
PATIENCE = 20.0


class Slow:
    """A function that says when it has begun, ends when it may, and knows whether it was stopped."""

    def __init__(self) -> None:
        self.begun, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> str:
        self.begun.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        return "done"


def make(name: str = "one", **options: Any) -> Worker:
    """A worker of the queue `work`, which waits for nothing in vain."""
    given = {"instance_id": name, "wait_seconds": 5, "heartbeat_seconds": 1_000}
    return Worker("work", **(given | options))


@asynccontextmanager
async def at_work(
    world: World, *workers: Worker, line: Callable[[httpx.AsyncBaseTransport], Any] = lambda direct: direct
) -> AsyncIterator[Client]:
    """The workers, over their `line` to the service; they are stopped in good order in the end."""
    transport = line(httpx.ASGITransport(world.service.api))
    async with Client(SERVED, transport=transport) as client:
        tasks = [asyncio.create_task(worker.run(client)) for worker in workers]
        try:
            yield client
        finally:
            for worker in workers:
                worker.stop()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*tasks)


async def create(world: World, step: dict[str, Any] | None = None, **members: Any) -> None:
    """A job `j` whose one step goes to the queue."""
    posted = definition(request=[STEP | (step or {})], overlapPolicy="allow", **members)
    data_of(await world.client.post("/jobs/j", json=posted), 201)


async def happens(event: asyncio.Event) -> None:
    """Returns when it is set."""
    async with asyncio.timeout(PATIENCE):
        await event.wait()


async def finish(client: Client, execution: str) -> answers.Execution:
    """The execution, once it has ended."""
    return await client.wait_for(execution, timeout=PATIENCE)


async def test_a_result_that_is_too_large_fails_the_attempt() -> None:
    """It is told at once and by name, instead of a lease that ends without a word."""
    worker = make()
    worker.job(job_id="j")(lambda: "x" * 2_000_000)
    async with running() as world:
        await create(world, retry=[])
        async with at_work(world, worker) as client:
            ended = await finish(client, (await client.jobs.trigger("j")).execution_id)
    assert (ended.state, ended.error) == ("terminated", "response_too_large")


async def test_a_code_that_is_reserved_is_told_as_refused() -> None:
    """A function cannot say what only the scheduler finds out; its attempt fails at once, and says why."""
    worker = make()

    @worker.job(job_id="j")
    def lose() -> None:
        raise JobFailed("gone", error="lost")

    async with running() as world:
        await create(world, retry=[])
        async with at_work(world, worker) as client:
            ended = await finish(client, (await client.jobs.trigger("j")).execution_id)
    assert (ended.state, ended.error) == ("terminated", "invalid_result")


async def test_a_declared_job_is_made_claimed_and_completed() -> None:
    """From `@worker.job` over check-timers to a claim; its data is the response."""
    worker = make(concurrency=2)

    @worker.job(job_id="add")
    async def add(left: int, right: int, execution: Execution) -> dict[str, int]:
        async with execution.progress(2) as progress:
            await progress.advance(1)
        return {"sum": left + right}

    async with running() as world, at_work(world, worker) as client:
        await world.until(lambda: _instances(client))
        scanned = await client.jobs.trigger("check-timers")
        assert (await finish(client, scanned.execution_id)).state == "succeeded"
        fired = await client.jobs.trigger("add", {"left": 1, "right": 2})
        ended = await finish(client, fired.execution_id)
        assert ended.state == "succeeded"
        full = await world.ended(fired.execution_id)
        (step,) = full["attempts"][0]["steps"]
        assert (step["instance"], step["response"]["body"]) == ("one", '{"sum":3}')
    assert worker.definitions()[0]["request"][0]["url"] == "queue://work"


async def test_an_older_worker_works_for_a_newer_scheduler() -> None:
    """Every answer says more than it knows: it registers, claims, renews and completes all the same."""
    slow, worker = Slow(), make()
    worker.job(job_id="slow", step={"leaseSeconds": 10, "renewSeconds": 0.1})(slow.run)
    async with running() as world, at_work(world, worker, line=NewerLine) as client:
        await world.until(lambda: _instances(client))
        scanned = await client.jobs.trigger("check-timers")
        assert (await finish(client, scanned.execution_id)).state == "succeeded"
        fired = await client.jobs.trigger("slow", {})
        await happens(slow.begun)
        before = await _until(world)
        world.clock.advance(5_000)
        await world.until(lambda: _is_later(world, before))
        slow.go.set()
        assert (await finish(client, fired.execution_id)).state == "succeeded"


async def _instances(client: Client) -> list[Any]:
    found = [line async for line in client.services.list()]
    return list((await client.services.get("work")).instances) if found else []


async def test_a_lost_lease_stops_the_work_and_another_one_does_it() -> None:
    """Whoever overslept hears it at the next renewal, is stopped, and completes nothing."""
    slow, other = Slow(), make("two")
    overslept = make("one")
    overslept.otherwise(slow.run)

    @other.otherwise
    async def quick(execution: Execution) -> str:
        return execution.idempotency_key

    async with running() as world:
        await create(world)
        async with at_work(world, overslept) as client:
            fired = await client.jobs.trigger("j", {})
            await happens(slow.begun)
            async with at_work(world, other):
                world.clock.advance(10_000)  # at once: no renewal comes between
                await happens(slow.stopped)
                await world.advance(10)
                ended = await finish(client, fired.execution_id)
        (step,) = (await world.ended(fired.execution_id))["attempts"][0]["steps"]
    assert (ended.state, step["instance"]) == ("succeeded", "two")
    assert step["response"]["body"] == f'"{fired.execution_id}-0"'


async def _until(world: World) -> int:
    """Until when the one lease goes."""
    [part] = await world.service.store.queues.held(QueueQuery("default", "work"))
    return part.until


async def _is_later(world: World, known: int) -> bool:
    return await _until(world) > known


class Counting(httpx.AsyncBaseTransport):
    """A line that counts claims."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.claims = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.claims += request.url.path.endswith("/claim")
        return await self._inner.handle_async_request(request)


async def test_a_scheduler_that_stops_is_not_asked_again_and_again() -> None:
    """It answers claims at once, with nothing; the worker waits before it asks anew."""
    worker = make()
    worker.otherwise(Slow().run)
    async with running() as world:
        line = Counting(httpx.ASGITransport(world.service.api))
        async with at_work(world, worker, line=lambda _: line):
            await world.settle()
            assert line.claims == 1
            world.service.queues.stop_claims()
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert line.claims <= 2
