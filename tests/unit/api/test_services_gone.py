"""Declared jobs that are paused because no instance knew them (SPEC sections 11, 13)."""

import httpx
import pytest

from scheduler_service.domain.events import Activated, Paused
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.api.declaring import PATH, declared
from tests.unit.api.world import World

SAID = {"timers": [declared("a")]}


async def state(client: httpx.AsyncClient) -> str:
    return str((await client.get("/jobs/a")).json()["data"]["state"])


async def test_a_new_instance_starts_a_job_that_was_gone(world: World, client: httpx.AsyncClient) -> None:
    """The next scan does; a repeated registration starts nothing, and a pause by a person stays."""
    await client.put(f"{PATH}/instances/old", json=SAID)
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await client.put(f"{PATH}/instances/old", json=SAID)
    await world.scan()
    assert await state(client) == "paused"
    await client.put(f"{PATH}/instances/other", json={})
    await world.scan()
    assert await state(client) == "paused"
    await client.put(f"{PATH}/instances/new", json=SAID)
    await world.scan()
    assert await state(client) == "active"
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await world.scan()
    assert await state(client) == "paused"
    await world.deliver("a", Command(Activated()))
    await client.put("/jobs/a?active=0")
    await client.put(f"{PATH}/instances/newer", json=SAID)
    await world.scan()
    assert await state(client) == "paused"


@pytest.mark.parametrize("path", [PATH, f"{PATH}/instances/old"])
async def test_a_changed_declaration_starts_it(path: str, world: World, client: httpx.AsyncClient) -> None:
    """At once: the registration is scanned before it is answered."""
    await client.put(path, json=SAID)
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await client.put(path, json={"timers": [declared("a"), declared("b")]})
    assert await state(client) == "active"


async def test_a_failed_scan_is_made_up_for(world: World, client: httpx.AsyncClient) -> None:
    """The store did not take it: the next scan starts the job."""
    await client.put(f"{PATH}/instances/old", json=SAID)
    await world.deliver("a", Command(Paused(drain=True, reason="gone")))
    await client.put(f"{PATH}/instances/new", json=SAID)
    world.fault = StoreUnavailable("the disk is full")
    with pytest.raises(StoreUnavailable):
        await world.scan()
    world.fault = None
    await world.scan()
    assert await state(client) == "active"
