"""A watch of an instance: begun once, delivered once, ended without a trace (SPEC section 13)."""

import asyncio
from typing import Any

import pytest

from scheduler_service.domain.effects import WatchInstance
from scheduler_service.domain.registered_services import SILENT, Loss
from scheduler_service.domain.replies import Reply, Taken
from scheduler_service.domain.turn_events import InstanceLost
from scheduler_service.domain.wire import CallKind, Token
from scheduler_service.hosts.calls_in_flight import InstanceWatches
from scheduler_service.hosts.event_redelivery import Redelivery
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.lost_instances import Losses
from scheduler_service.services.router import MemoryRouter, Terms
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio
WATCH = WatchInstance(Token("uid", 1, 1, CallKind.WATCH, 0), "default", "shop", "a")


class Failing(MemoryRouter):
    """A router whose first watches fail, as in a worker process that does not reach its parent."""

    failures = 0
    watched = 0

    async def wait_for_loss(self, watch: WatchInstance) -> Loss:
        self.watched += 1
        if self.watched <= self.failures:
            raise StoreUnavailable("the parent process is not reached")
        return await super().wait_for_loss(watch)


class Scene:
    """One instance, which is lost after 20 s, and a job that takes events."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.taken: list[Any] = []
        self.refusals = 0
        self.lines: list[dict[str, Any]] = []
        instances = Instances()
        log = lambda event, /, **keys: self.lines.append(keys)  # noqa: E731
        losses = Losses(
            instances=instances, clock=self.clock, lost_after=10_000, complete_at=lambda: 0, log=log
        )
        self.router = Failing(
            instances=instances, terms=lambda _, __: Terms(), clock=self.clock, losses=losses
        )
        self.watches = InstanceWatches(
            router=self.router,
            redelivery=Redelivery(take=self._take, clock=self.clock),
            log=log,
        )
        instances.register(Instance("shop", "default", "a", "http://a.test", seen=self.clock.now().steady))

    async def _take(self, job_id: str, command: Command) -> Reply:
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable("the disk is full")
        self.taken.append((job_id, command.event))
        self.watches.end(WATCH.token)  # as the turn that ends the attempt does
        return Taken()

    async def advance(self, pause: int) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        self.clock.advance(pause)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_loss_is_delivered_once(scene: Scene) -> None:
    """However often the watch is begun: a job that is loaded again begins it anew."""
    scene.watches.start("j", WATCH)
    scene.watches.start("j", WATCH)
    await scene.advance(20_000)
    assert scene.taken == [("j", InstanceLost(WATCH.token, Loss(SILENT, 0)))]
    assert [line["executions"] for line in scene.lines] == [1]


async def test_a_store_that_fails_is_asked_again(scene: Scene) -> None:
    """The loss is not forgotten."""
    scene.refusals = 2
    scene.watches.start("j", WATCH)
    await scene.advance(20_000)
    assert scene.taken == []
    for _ in range(3):
        await scene.advance(5_000)
    assert len(scene.taken) == 1


@pytest.mark.parametrize("how", ["ended", "stopped"])
async def test_an_ended_watch_delivers_nothing(how: str, scene: Scene) -> None:
    """The attempt has ended, or the process does; the watch may begin again."""
    scene.watches.start("j", WATCH)
    await scene.advance(1)
    if how == "ended":
        scene.watches.end(WATCH.token)
        scene.watches.end(WATCH.token)
    else:
        await scene.watches.stop()
    await scene.advance(20_000)
    assert (scene.taken, [line["executions"] for line in scene.lines]) == ([], [0])
    scene.watches.start("j", WATCH)
    await scene.advance(1)
    assert len(scene.taken) == 1


async def test_a_watch_that_failed_begins_anew(scene: Scene) -> None:
    """A failed watch does not count as a running one: the job begins it again when it is resumed."""
    scene.router.failures = 2
    for _ in range(3):
        scene.watches.start("j", WATCH)
        await scene.advance(1)
    assert scene.router.watched == 3
    await scene.advance(20_000)
    assert scene.taken == [("j", InstanceLost(WATCH.token, Loss(SILENT, 0)))]


async def test_a_watch_that_was_ended_leaves_a_newer_one(scene: Scene) -> None:
    """The attempt was resumed before the ended watch had left the loop."""
    scene.watches.start("j", WATCH)
    await scene.advance(1)
    scene.watches.end(WATCH.token)
    scene.watches.start("j", WATCH)
    await scene.advance(1)
    scene.watches.start("j", WATCH)
    await scene.advance(1)
    assert scene.router.watched == 2
    await scene.watches.stop()
