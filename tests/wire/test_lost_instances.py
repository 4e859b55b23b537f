"""An instance that goes offline ends what it had taken in hand: `instance_lost` (SPEC section 13)."""

from pathlib import Path
from typing import Any

import pytest

from scheduler_service.domain.events import CancelRequested
from scheduler_service.domain.moments import rfc3339
from scheduler_service.ports.delivery import Command
from tests.rows import each_row
from tests.wire.service import World, data_of, definition, running
from tests.wire.target import HELD, Reply, Target

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
    jobs = world.service.components.jobs
    await jobs.deliver("j", Command(CancelRequested(0)))  # refused, after the turns that are under way
    job = await jobs.read("j")
    assert job is not None
    assert job.document is not None
    assert job.document.head.latest is not None
    return job.document.head.latest.state


def lost(world: World) -> list[dict[str, Any]]:
    """What the log says of lost instances."""
    return [keys for event, keys in world.log if event == "instance_lost"]


async def report(world: World, url: str, status: str = "succeed") -> None:
    """Feedback to a URL that a target was given."""
    data_of(await world.client.post(url.strip('"'), json={"status": status}))


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


async def test_one_that_leaves_while_it_works(world: World) -> None:
    """`DELETE` while it works: 10 s later; without work it is no loss."""
    await register(world)
    await register(world, "idle")
    await begin(world, request=[STEP | {"route": "failover"}])
    await world.advance(5)
    for name in ("a", "idle"):
        data_of(await world.client.delete(f"/services/shop/instances/{name}"))
    await world.advance(9)
    assert await state(world) == "processing"
    await world.advance(2)
    assert await state(world) == "terminated"
    await world.advance(60)
    assert [keys["instance"] for keys in lost(world)] == ["a"]


async def test_an_instance_without_work_is_one_line(world: World) -> None:
    """However long it stays away."""
    await register(world)
    await world.advance(120)
    assert [(one["instance"], one["executions"]) for one in lost(world)] == [("a", 0)]


async def test_a_report_that_comes_before_counts(world: World) -> None:
    """An instance that is offline may be at work still."""
    await register(world)
    execution = await begin(world, qos=1)
    await world.advance(LOST - 1)
    await report(world, world.target.at("/run")[0].body.decode())
    await world.advance(5)
    assert (await world.ended(execution))["state"] == "succeeded"
    assert [keys["executions"] for keys in lost(world)] == [0]


@pytest.mark.parametrize("sign_of_life", ["heartbeat", "registration"])
async def test_one_that_comes_back_goes_on(world: World, sign_of_life: str) -> None:
    """Within the time; its work is ended only when it is lost again."""
    await register(world)
    await begin(world)
    await world.advance(LOST - 5)
    if sign_of_life == "heartbeat":
        data_of(await world.client.post("/services/shop/instances/a/heartbeat"))
    else:
        data_of(await world.client.delete("/services/shop/instances/a"))
        await register(world)
    await world.advance(LOST - 1)
    assert (await state(world), lost(world)) == ("processing", [])
    await world.advance(2)
    assert await state(world) == "terminated"
    assert await state(world) == "terminated"


async def test_a_policy_may_retry_it(world: World) -> None:
    """The next attempt goes to an instance that is there; the report of the first one is stale."""
    async with Target(lambda: 0) as other:
        await register(world)
        execution = await begin(world, retry=[{"errorEquals": "instance_lost"}])
        await world.advance(LOST - 5)
        await register(world, "b", other)
        await world.advance(7)
        assert len(other.at("/run")) == 1
        first = world.target.at("/run")[0].body.decode().strip('"')
        assert (await world.client.post(first, json={"status": "succeed"})).status_code == 409
        await report(world, other.at("/run")[0].body.decode())
        ended = await world.ended(execution)
    assert (ended["state"], ended["attemptCount"]) == ("succeeded", 2)
    assert ended["attempts"][0]["error"] == "instance_lost"


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


@pytest.mark.parametrize("route", ["broadcast", "shard"])
@pytest.mark.parametrize("survivors", ["", "b", "ab"])
async def test_parts_of_a_lost_instance(world: World, route: str, survivors: str) -> None:
    """Its part fails; the others go on, and a mixed end is `partial`."""
    async with Target(lambda: 0) as other:
        targets = {"a": world.target, "b": other}
        for name, target in targets.items():
            await register(world, name, target)
        execution = await begin(world, request=[STEP | {"route": route}])
        for _ in range(8):
            await world.advance(3)
            for name in survivors:
                await world.client.post(f"/services/shop/instances/{name}/heartbeat")
        for name in survivors:
            assert await state(world) == "processing"
            await report(world, targets[name].at("/run")[0].body.decode())
        ended = await world.ended(execution)
    expected = {"": "instance_lost", "b": "partial", "ab": None}
    assert ended["error"] == expected[survivors]


async def test_a_static_address_is_never_lost(world: World) -> None:
    """It sends no heartbeats."""
    await begin(world, request=[STEP | {"url": "service://jobswork/run"}])
    await world.advance(120)
    assert await state(world) == "processing"


async def test_what_has_ended_is_watched_no_more(world: World) -> None:
    """However an attempt ended: by a report, a limit, or by hand."""
    await register(world)
    execution = await begin(world)
    await report(world, world.target.at("/run")[0].body.decode())
    await world.ended(execution)
    cancelled = data_of(await world.client.post("/jobs/j/trigger"))["executionId"]
    await world.settle()
    data_of(await world.client.post(f"/executions/{cancelled}/cancel", json={}))
    data_of(await world.client.post("/jobs/j/trigger"))
    await world.settle()
    data_of(await world.client.delete("/jobs/j"))
    await world.advance(LOST + 1)
    assert [keys["executions"] for keys in lost(world)] == [0]


async def test_an_earlier_step_that_answered_200_has_done_its_work(world: World) -> None:
    """Where a later step was handed the feedback URL, too, that one is waited for."""
    async with Target(lambda: 0) as other:
        await register(world)
        path = "/services/store/instances/s"
        await world.client.put(path, json={"address": other.url})
        world.target.always("/run", Reply(200, {}))
        await begin(world, request=[STEP, STEP | {"url": "service://store/run"}])
        for _ in range(10):
            await world.advance(3)
            data_of(await world.client.post(f"{path}/heartbeat"))
        assert await state(world) == "processing"
        await world.advance(LOST + 1)
        assert await state(world) == "terminated"


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("given", [{"body": None}, {}])
async def test_an_earlier_step_that_works_on_is_watched(
    world: World, is_open: bool, given: dict[str, Any]
) -> None:
    """It accepted the work (202), or it alone can report; while a later step is open and after the chain."""
    await register(world)
    world.target.always("/run", Reply(202 if given else 200, {}))
    if is_open:
        world.target.always("/later", HELD)
    steps = [STEP | given, {"url": f"{world.target.url}/later"}]
    execution = await begin(world, request=steps)
    assert len(world.target.at("/later")) == 1
    await world.advance(LOST - 1)
    assert await state(world) == "processing"
    await world.advance(2)
    ended = await world.ended(execution)
    assert (ended["error"], len(lost(world))) == ("instance_lost", 1)
    assert "instance a of service shop" in ended["attempts"][0]["message"]
