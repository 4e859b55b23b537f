"""Claims whose answer nobody hears: what they were given comes back with its lease (SPEC section 13)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler_service.domain.leases import Claim, Leased
from scheduler_service.ports.errors import StoreUncertain
from tests.wire.service import World, data_of, definition, pointers, running

pytestmark = pytest.mark.anyio
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
async def one_part() -> AsyncIterator[tuple[World, Late]]:
    """A service in whose queue one part lies."""
    async with running() as world:
        queues: Any = world.service.components.services.queues
        late = queues._table = Late(queues._table)
        posted = definition(request=[STEP], timeoutSeconds=600)
        data_of(await world.client.post("/jobs/j", json=posted), 201)
        data_of(await world.client.post("/jobs/j/trigger"))
        await world.settle()
        yield world, late


async def claim(world: World, instance: str) -> Any:
    """What an instance is given, without waiting."""
    return await world.client.post("/queues/work/claim", json={"instanceId": instance})


async def comes_back(world: World) -> None:
    """Nobody has it as long as the lease and the delay go; then somebody else."""
    await world.advance(5)
    assert data_of(await claim(world, "w2"))["items"] == []
    await world.advance(1)
    (item,) = data_of(await claim(world, "w2"))["items"]
    data_of(await world.client.post(f"/leases/{item['lease']}/complete", json={"status": "succeed"}))


async def test_whoever_hangs_up_while_it_is_given_work_loses_it_with_the_lease() -> None:
    """Though the claim was cut off between its write and its answer, and nobody else claims anything."""
    async with one_part() as (world, late):
        claiming = asyncio.ensure_future(claim(world, "w1"))
        await late.written.wait()
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        late.may_answer.set()
        await comes_back(world)


async def test_a_claim_of_which_the_store_cannot_say_whether_it_was_written() -> None:
    """503 `unknown`; if it was, the part comes back all the same."""
    async with one_part() as (world, late):
        late.is_uncertain = True
        answer = await claim(world, "w1")
        assert (answer.status_code, pointers(answer)) == (503, [("", "unknown")])
        await comes_back(world)
