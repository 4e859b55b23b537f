"""Claims whose answer nobody hears: what they were given goes to others (SPEC section 13)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scheduler_service.domain.leases import Claim, Leased
from scheduler_service.ports.errors import StoreUncertain
from tests.wire.service import World, data_of, definition, pointers, running

STEP = {"url": "queue://work", "leaseSeconds": 5, "unexpectedRetryDelaySeconds": 1}


class Late:
    """The real table; the answer to the next claim comes when it may, or never."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.written, self.may_answer = asyncio.Event(), asyncio.Event()
        self.is_uncertain = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def claim(self, claim: Claim) -> tuple[Leased, ...]:
        """Writes; then the answer."""
        found: tuple[Leased, ...] = await self._table.claim(claim)
        if not self.written.is_set():
            self.written.set()
            if self.is_uncertain:
                raise StoreUncertain("no answer")
            await self.may_answer.wait()
        return found


@asynccontextmanager
async def one_part(options: dict[str, Any] | None = None) -> AsyncIterator[tuple[World, Late]]:
    """A service in whose queue one part lies."""
    async with running() as world:
        queues: Any = world.service.services.queues
        late = queues._table = Late(queues._table)
        posted = definition(request=[STEP | (options or {})], timeoutSeconds=600)
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        data_of(await world.client.post("/jobs/j/trigger"))
        await world.settle()
        yield world, late


async def claim(world: World, instance: str, wait: float = 0) -> Any:
    """What an instance is given."""
    asked = {"instanceId": instance, "waitSeconds": wait}
    return await world.client.post("/queues/work/claim", json=asked)


async def comes_back(world: World) -> None:
    """Nobody has it as long as the lease and the delay go; then somebody else."""
    await world.advance(5)
    assert data_of(await claim(world, "w2"))["items"] == []
    await world.advance(1)
    (item,) = data_of(await claim(world, "w2"))["items"]
    data_of(await world.client.post(f"/leases/{item['lease']}/complete", json={"status": "succeed"}))


async def test_what_is_given_to_one_that_has_hung_up_goes_to_the_next() -> None:
    """Though the claim was cut off between its write and its answer; no retry is spent on it."""
    async with one_part({"maxUnexpectedRetries": 0}) as (world, late):
        claiming = asyncio.ensure_future(claim(world, "w1"))
        await late.written.wait()
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        late.may_answer.set()
        await world.settle()
        (item,) = data_of(await claim(world, "w2"))["items"]
        data_of(await world.client.post(f"/leases/{item['lease']}/complete", json={"status": "succeed"}))


async def test_one_that_hung_up_in_the_moment_of_the_answer_gets_nothing() -> None:
    """The store has answered already when the service sees that the connection is closed."""
    async with one_part() as (world, late):
        late.may_answer.set()
        await ask_and_hang_up(world, late)
        await world.settle()
        assert len(data_of(await claim(world, "w2"))["items"]) == 1


async def ask_and_hang_up(world: World, late: Late) -> None:
    """A claim of `w1` whose connection ends when it was written."""
    has_sent = False

    async def receive() -> dict[str, Any]:
        nonlocal has_sent
        if not has_sent:
            has_sent = True
            return {"type": "http.request", "body": b'{"instanceId": "w1"}'}
        await late.written.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"nobody is there for {message}")

    path = "/queues/work/claim"
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope: Any = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1), "http_version": "1.1", "scheme": "http",
        "root_path": "",
    }  # fmt: skip
    await world.service.api(scope, receive, send)


async def test_a_claim_of_which_the_store_cannot_say_whether_it_was_written() -> None:
    """503 `unknown`; if it was, the part comes back all the same."""
    async with one_part() as (world, late):
        late.is_uncertain = True
        answer = await claim(world, "w1")
        assert (answer.status_code, pointers(answer)) == (503, [("", "unknown")])
        await comes_back(world)
