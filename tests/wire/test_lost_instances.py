"""An instance that goes offline ends what it had taken in hand: `instance_lost` (SPEC section 13)."""

from pathlib import Path
from typing import Any

import pytest

from scheduler_service.domain.moments import rfc3339
from scheduler_service.domain.turn_events import CancelRequested
from scheduler_service.ports.delivery import Command
from tests.rows import each_row
from tests.wire.service import World, data_of, definition, running
from tests.wire.target import Target

OFFLINE, LOST = 10, 20
STEP = {"url": "service://shop/run", "body": "${schedulingFeedbackUrlExternal}"}
CHECK = {"checkUrl": "service://jobswork/check", "checkRateSeconds": 1}


async def register(world: World, name: str = "a", target: Target | None = None) -> None:
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
    await register(world)
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
        await register(world)
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
        await register(world)
        await begin(world, qos=1)
    async with running(store={"data": str(tmp_path)}) as world:
        if is_back:
            await world.advance(3)
            await register(world)
        await world.advance(LOST - 2 if is_back else LOST + 1)
        assert await state(world) == ("processing" if is_back else "terminated")
        assert len(lost(world)) == (0 if is_back else 1)
