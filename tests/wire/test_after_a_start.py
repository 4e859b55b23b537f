"""A scheduler that has just started knows no instance yet, and ends nothing for it (SPEC sections 8, 13)."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.wire.service import World, data_of, definition, running
from tests.wire.target import Target

STEP = {"url": "service://shop/run"}


async def register(world: World, target: Target) -> None:
    """What an instance sends first, and again when its heartbeat is answered 404."""
    answer = await world.client.put("/services/shop/instances/a", json={"address": target.url})
    data_of(answer, 201)


async def first_life(folder: Path) -> None:
    """A scheduler that knew the shop and its instance, and is no more."""
    async with running(store={"data": str(folder)}) as world:
        await register(world, world.target)
        data_of(await world.client.post("/jobs/j", json=definition(request=[STEP], timeoutSeconds=30)), 201)


async def trigger(world: World) -> str:
    """One execution; its id."""
    return str(data_of(await world.client.post("/jobs/j/trigger"))["executionId"])


async def is_waiting(world: World) -> bool:
    """Whether its step looks for an instance."""
    host: Any = world.service.host
    return host.effects.calls.parts == 1


async def test_a_step_waits_for_the_instances_of_before(tmp_path: Path) -> None:
    """Its first attempt is sent as soon as the instance is back, though it was triggered before that."""
    await first_life(tmp_path)
    async with running(store={"data": str(tmp_path)}) as world:
        heartbeat = "/services/shop/instances/a/heartbeat"
        execution = await trigger(world)
        await world.until(lambda: is_waiting(world))
        world.clock.advance(3_000)
        assert (await world.client.post(heartbeat)).status_code == 404
        await register(world, world.target)
        world.clock.advance(250)
        ended = await world.ended(execution)
    assert (ended["state"], ended["attemptCount"]) == ("succeeded", 1)


async def test_a_job_whose_calendar_is_missing_is_named(tmp_path: Path) -> None:
    """Its database was restored from an earlier day: the job stands still, and goes on when it is there."""
    timer = {"period": "0 0 9 * * ?", "calendar": "office"}
    async with running(store={"data": str(tmp_path)}) as world:
        data_of(await world.client.put("/calendars/office", json={"week": [1, 2, 3, 4, 5, 6, 7]}), 200)
        data_of(await world.client.post("/jobs/j", json=definition(timer=timer)), 201)
    async with running(store={"data": str(tmp_path)}):
        """A start that finds it."""
    with closing(sqlite3.connect(tmp_path / "history.db")) as database, database:
        database.execute("DELETE FROM calendars")
    async with running(store={"data": str(tmp_path)}) as world:
        await world.settle()
        job = data_of(await world.client.get("/jobs/j"))
        assert (job["nextFireTime"], "there is no calendar 'office'" in job["cannotRun"]) == (None, True)
        assert data_of(await world.client.get("/counts/jobs"))["cannotRun"] == 1
        data_of(await world.client.put("/calendars/office", json={"week": [1, 2, 3, 4, 5, 6, 7]}), 200)
        await world.settle()
        assert data_of(await world.client.get("/jobs/j"))["nextFireTime"] == "2026-01-01T09:00:00.000Z"
