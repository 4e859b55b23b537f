"""When an instance is lost, who is told, and what the log says (SPEC section 13)."""

import asyncio
from typing import Any

import pytest

from scheduler_service.domain.effects import WatchInstance
from scheduler_service.domain.registered_services import LEFT, SILENT, UNKNOWN, Loss
from scheduler_service.domain.wire import CallKind, Token
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.lost_instances import Losses
from tests.manual_clock import ManualClock

TENANT, SHOP = "default", "shop"


class Scene:
    """Instances that are offline after 10 s and lost after 5 more."""

    def __init__(self, *, lost_after: int = 5_000, complete_at: int = 10_000) -> None:
        self.complete_at = complete_at
        self.clock = ManualClock()
        self.instances = Instances(offline_after=10_000)
        self.start = self.clock.now().wall
        self.lines: list[tuple[str, int]] = []
        self.returned: list[str] = []
        self.losses = Losses(
            instances=self.instances,
            clock=self.clock,
            lost_after=lost_after,
            complete_at=lambda: self.complete_at,
            log=self._write,
        )

    def _write(self, event: str, /, **keys: Any) -> None:
        assert keys["service"] == SHOP
        if event == "instance_returned":
            self.returned.append(keys["instance"])
            return
        assert event == "instance_lost"
        self.lines.append((keys["instance"], keys["executions"]))

    def wall(self, since: int) -> int:
        """The wall moment so many ms after the start."""
        return self.start + since

    def register(self, name: str) -> None:
        self.instances.register(
            Instance(SHOP, TENANT, name, f"http://{name}.test", seen=self.clock.now().steady)
        )

    def beat(self, name: str) -> None:
        self.instances.renew(TENANT, SHOP, name, self.clock.now().steady)

    async def watch(self, name: str, execution: int = 1, serial: int = 0) -> "asyncio.Task[Loss]":
        token = Token("uid", execution, 1, CallKind.WATCH, serial)
        task = asyncio.create_task(self.losses.wait_for(WatchInstance(token, TENANT, SHOP, name)))
        await asyncio.sleep(0)
        return task

    async def advance(self, pause: int) -> None:
        self.clock.advance(pause)
        for _ in range(3):
            await asyncio.sleep(0)


@pytest.fixture
async def scene() -> Scene:
    return Scene()


async def test_silence_is_loss_and_heartbeats_are_life(scene: Scene) -> None:
    """10 s without a sign of life, then 5 s; a heartbeat begins it anew."""
    scene.register("a")
    watch = await scene.watch("a")
    await scene.advance(14_999)
    scene.beat("a")
    await scene.advance(14_999)
    assert not watch.done()
    await scene.advance(1)
    assert (watch.done(), scene.lines) == (True, [("a", 1)])
    assert watch.result() == Loss(SILENT, scene.wall(14_999))
    await scene.advance(100_000)
    assert scene.lines == [("a", 1)]


async def test_one_that_is_back_may_be_lost_again(scene: Scene) -> None:
    """With a line for each time, and one when it is there again."""
    for _ in range(2):
        scene.register("a")
        await scene.advance(20_000)
    assert scene.lines == [("a", 0)] * 2
    assert scene.returned == ["a"]


async def test_a_heartbeat_brings_a_lost_one_back(scene: Scene) -> None:
    """One that stood still is known all the time, and does not register again."""
    scene.register("a")
    await scene.advance(20_000)
    for _ in range(3):
        scene.beat("a")
        await scene.advance(1_000)
    assert (scene.lines, scene.returned) == ([("a", 0)], ["a"])
    await scene.advance(20_000)
    assert scene.lines == [("a", 0)] * 2


async def test_one_that_only_takes_its_leave_is_not_back(scene: Scene) -> None:
    """It was lost, and stays so."""
    scene.register("a")
    await scene.advance(20_000)
    scene.instances.remove(TENANT, SHOP, "a", scene.clock.now().steady)
    assert scene.returned == []


async def test_a_departure_counts_from_its_moment(scene: Scene) -> None:
    """Nobody is told of one without work; one that registers again is back."""
    for name in ("a", "b", "c"):
        scene.register(name)
    a, c = await scene.watch("a"), await scene.watch("c")
    await scene.advance(1_000)
    for name in ("a", "b", "c"):
        scene.instances.remove(TENANT, SHOP, name, scene.clock.now().steady)
    scene.register("c")
    await scene.advance(4_999)
    assert not a.done()
    await scene.advance(1)
    assert (a.done(), c.done(), scene.lines) == (True, False, [("a", 1)])
    assert a.result() == Loss(LEFT, scene.wall(1_000))
    c.cancel()
    # Gone once all that live have registered
    scene = Scene()
    watch = await scene.watch("a")
    await scene.advance(14_999)
    assert not watch.done()
    await scene.advance(1)
    assert watch.result() == Loss(UNKNOWN, scene.wall(0))
    await scene.advance(100_000)
    assert scene.lines == [("a", 1)]


async def test_silence_in_a_time_in_which_nobody_could_be_heard(scene: Scene) -> None:
    """It does not count, whether the instance is known or not; what follows does."""
    scene.register("a")
    known, unknown = await scene.watch("a"), await scene.watch("b")
    scene.complete_at = 30_000
    await scene.advance(34_999)
    assert not known.done()
    assert not unknown.done()
    await scene.advance(1)
    assert (known.result().how, unknown.result().how) == (SILENT, UNKNOWN)
    assert known.result().since == scene.wall(0)


async def test_it_is_told_to_all_who_wait_and_to_those_who_come_later(scene: Scene) -> None:
    """One line; a watch that ended before is not counted."""
    scene.register("a")
    first, second, ended = [await scene.watch("a", number) for number in range(3)]
    ended.cancel()
    await scene.advance(0)
    await scene.advance(15_000)
    late = await scene.watch("a")
    await scene.advance(0)
    assert (first.done(), second.done(), late.done(), scene.lines) == (True, True, True, [("a", 2)])
    # Only `timeoutSeconds` ends it then
    scene = Scene(lost_after=0)
    scene.register("a")
    watch = await scene.watch("a")
    await scene.advance(100_000)
    assert (watch.done(), scene.lines) == (False, [("a", 0)])
    watch.cancel()
    # However many of its steps the instance has in hand
    scene = Scene()
    scene.register("a")
    both = [await scene.watch("a", 1, serial) for serial in (0, 1)]
    await scene.advance(15_000)
    assert ([one.done() for one in both], scene.lines) == ([True, True], [("a", 1)])


async def test_heartbeats_plan_nothing(scene: Scene) -> None:
    """A thousand instances that live have one look planned, however often they send a heartbeat."""
    for number in range(1_000):
        scene.register(f"i{number}")
    looks = 0
    for _ in range(20):
        await scene.advance(3_000)
        for number in range(1_000):
            scene.beat(f"i{number}")
        looks += scene.clock.next_call() is not None
    assert (looks, scene.lines) == (20, [])
    scene.losses.close()
    assert scene.clock.next_call() is None
    # Neither at those that are known nor at those that come
    scene = Scene()
    scene.register("a")
    scene.losses.close()
    scene.register("b")
    await scene.advance(100_000)
    assert scene.lines == []
