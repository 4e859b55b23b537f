"""The router: who gets a step, who waits, who is left out (SPEC section 13)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from scheduler_service.domain.effects import CallPart, ResolveInstances
from scheduler_service.domain.parts import Chosen
from scheduler_service.domain.services import RateLimit
from scheduler_service.domain.wire import CallKind, OutboundRequest, Token
from scheduler_service.hosts.clock import ManualClock
from scheduler_service.services.instances import Instance, Instances
from scheduler_service.services.router import AVOID_MS, MemoryRouter, Terms

pytestmark = pytest.mark.anyio
Found = tuple[tuple[Chosen, ...], str]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Scene:
    """A router over instances that the test names."""

    def __init__(self) -> None:
        self.clock = ManualClock(wall=1_000_000)
        self.instances = Instances()
        self.terms = Terms()
        self.router = MemoryRouter(instances=self.instances, terms=lambda _, __: self.terms, clock=self.clock)
        self.serial = 0
        self.tasks: list[asyncio.Task[Any]] = []

    def announce(self, name: str, **members: Any) -> None:
        """It has just been heard of."""
        seen = self.clock.now().steady
        self.instances.register(
            Instance("shop", "default", name, f"http://{name}.test", seen=seen, **members)
        )

    def search(self, **members: Any) -> ResolveInstances:
        """What a new execution asks."""
        self.serial += 1
        token = Token("uid", self.serial, self.serial, CallKind.RESOLVE, 0)
        given = {"key": "job", "seed": str(self.serial), "route": "failover"} | members
        return ResolveInstances(token, "default", "shop", **given)

    def call(self, search: ResolveInstances, instance: str) -> CallPart:
        """The call to which a search led."""
        one = search.token
        token = Token(one.uid, one.execute_number, one.request_counts, CallKind.PART, ord(instance[0]))
        return CallPart(token, "default", "shop", instance, OutboundRequest("POST", "service://shop/", ()))

    async def find(self, **members: Any) -> list[str]:
        """Who gets the step, at once."""
        chosen, _ = await asyncio.wait_for(self.router.resolve(self.search(**members)), 1)
        return [one.instance for one in chosen]

    async def begin(self, work: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Starts what may have to wait."""
        task = asyncio.ensure_future(work)
        self.tasks.append(task)
        await self.settle()
        return task

    async def settle(self) -> None:
        """Returns when nothing goes on any more without the clock."""
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    for task in made.tasks:
        task.cancel()
    await asyncio.gather(*made.tasks, return_exceptions=True)


async def test_draining_and_offline_ones_get_nothing(scene: Scene) -> None:
    """Only who was heard of within the limit, and does not say that it stops."""
    scene.announce("old")
    scene.clock.advance(10_000)
    scene.announce("stopping", draining=True)
    scene.announce("there")
    assert await scene.find(route="broadcast") == ["there"]


async def test_claimers_without_an_address_are_not_called(scene: Scene) -> None:
    """An instance that only claims from queues is no target."""
    scene.instances.register(Instance("shop", "default", "w", "", seen=scene.clock.now().steady))
    assert await scene.find() == []


async def test_tags_and_exclusions_narrow(scene: Scene) -> None:
    """The step's tags, else the service's; and never one that has refused already."""
    scene.announce("a", tags=("eu",))
    scene.announce("b", tags=("eu", "gpu"))
    scene.announce("c")
    assert await scene.find(tags=("gpu",)) == ["b"]
    assert await scene.find(excluded=("a",)) == ["b"]
    assert await scene.find(tags=("us",)) == []
    scene.terms = Terms(tags=("eu",))
    assert await scene.find(route="broadcast") == ["a", "b"]


async def test_the_step_wins_over_the_service(scene: Scene) -> None:
    """A service says how it is routed, a step that names a policy wins, and else it is random."""
    scene.announce("a")
    assert (await scene.router.resolve(scene.search(route=None)))[1] == "random"
    scene.terms = Terms(route="hash")
    assert (await scene.router.resolve(scene.search(route=None)))[1] == "hash"
    assert (await scene.router.resolve(scene.search(route="failover")))[1] == "failover"


async def test_round_robin_goes_on_over_executions(scene: Scene) -> None:
    """The router remembers who came last."""
    for name in ("a", "b", "c"):
        scene.announce(name)
    found = [(await scene.find(route="round_robin"))[0] for _ in range(7)]
    assert "".join(found) == "abcabca"


async def test_a_full_instance_gets_nothing(scene: Scene) -> None:
    """Capacity counts the calls in flight and what the instance says of itself."""
    scene.announce("a", capacity=1)
    scene.announce("b", capacity=3, load=2.0)
    first = scene.search()
    assert (await scene.router.resolve(first))[0][0].instance == "a"
    assert await scene.find() == ["b"]
    waiting = await scene.begin(scene.router.resolve(scene.search()))
    assert not waiting.done()
    scene.router.leave(first.token)
    await scene.settle()
    assert waiting.result()[0] == (Chosen("a", "http://a.test"),)


async def test_after_a_start_a_step_waits_for_those_that_are_not_back(scene: Scene) -> None:
    """Nobody with the tags yet is not nobody: the step goes to the first one that registers anew."""
    scene.terms = Terms(awaits_instances=True)
    scene.announce("plain")
    waiting = await scene.begin(scene.router.resolve(scene.search(tags=("eu",))))
    assert not waiting.done()
    scene.announce("back", tags=("eu",))
    scene.clock.advance(250)
    await scene.settle()
    assert waiting.result()[0] == (Chosen("back", "http://back.test"),)


async def test_who_does_not_come_back_in_time_is_not_there(scene: Scene) -> None:
    """Whoever lives has said so by then: the step finds nobody, as ever."""
    scene.terms = Terms(awaits_instances=True)
    waiting = await scene.begin(scene.router.resolve(scene.search()))
    scene.terms = Terms()
    scene.clock.advance(250)
    await scene.settle()
    assert waiting.result()[0] == ()


async def test_a_service_with_an_address_is_called_there_at_once(scene: Scene) -> None:
    """After a start too: an address that takes calls waits for no instance."""
    scene.terms = Terms(address="http://front.test", awaits_instances=True)
    assert await scene.find() == ["http://front.test"]


async def test_those_who_wait_come_in_order(scene: Scene) -> None:
    """Where all are full the steps wait in line, and nobody overtakes."""
    scene.announce("a", capacity=1)
    held = scene.search()
    await scene.router.resolve(held)
    searches = [scene.search() for _ in range(3)]
    tasks = [await scene.begin(scene.router.resolve(search)) for search in searches]
    served: list[int] = []
    for _ in range(3):
        scene.router.leave(held.token)
        await scene.settle()
        done = [place for place, task in enumerate(tasks) if task.done() and place not in served]
        assert len(done) == 1
        served += done
        held = searches[done[0]]
    assert served == [0, 1, 2]


async def test_a_heartbeat_makes_room(scene: Scene) -> None:
    """A lower load is seen within a quarter of a second, though nobody tells those who wait."""
    scene.announce("a", capacity=2, load=2.0)
    waiting = await scene.begin(scene.router.resolve(scene.search()))
    scene.instances.renew("default", "shop", "a", scene.clock.now().steady, load=1.0)
    scene.clock.advance(250)
    await scene.settle()
    assert waiting.done()


async def test_one_who_leaves_the_line_holds_nobody_up(scene: Scene) -> None:
    """A step that is cancelled while it waits lets the next one come first."""
    scene.announce("a", capacity=1)
    held = scene.search()
    await scene.router.resolve(held)
    first = await scene.begin(scene.router.resolve(scene.search()))
    second = await scene.begin(scene.router.resolve(scene.search()))
    first.cancel()
    await scene.settle()
    scene.router.leave(held.token)
    await scene.settle()
    assert second.done()


async def test_a_call_takes_over_the_place_of_its_search(scene: Scene) -> None:
    """The place is held from the choice to the end of the call, and counted once."""
    scene.announce("a", capacity=1)
    search = scene.search()
    await scene.router.resolve(search)
    call = scene.call(search, "a")
    assert scene.router.take_place(call)
    scene.router.leave(search.token)
    waiting = await scene.begin(scene.router.resolve(scene.search()))
    assert not waiting.done()
    scene.router.leave(call.token)
    await scene.settle()
    assert waiting.done()


async def test_a_part_waits_for_its_own_instance(scene: Scene) -> None:
    """The parts of a spread go to all; one whose instance is full waits, the others do not."""
    scene.announce("a", capacity=1)
    scene.announce("b", capacity=1)
    busy = scene.search()
    await scene.router.resolve(busy)
    spread = scene.search(route="shard")
    chosen, _ = await scene.router.resolve(spread)
    assert [one.instance for one in chosen] == ["a", "b"]
    assert scene.router.take_place(scene.call(spread, "b"))
    assert not scene.router.take_place(scene.call(spread, "a"))
    waiting = await scene.begin(scene.router.enter(scene.call(spread, "a")))
    scene.router.leave(busy.token)
    await scene.settle()
    assert waiting.done()


async def test_the_rate_limit_of_a_service(scene: Scene) -> None:
    """No more than `count` calls within `perSeconds`, over all its instances."""
    scene.terms = Terms(rate=RateLimit(2, 1_000))
    for name in ("a", "b", "c"):
        scene.announce(name)
    spread = scene.search(route="broadcast")
    await scene.router.resolve(spread)
    calls = [scene.call(spread, name) for name in ("a", "b", "c")]
    assert [scene.router.take_place(call) for call in calls] == [True, True, False]
    waiting = await scene.begin(scene.router.enter(calls[2]))
    scene.clock.advance(900)
    await scene.settle()
    assert not waiting.done()
    scene.clock.advance(350)
    await scene.settle()
    assert waiting.done()


async def test_static_addresses_are_instances_and_the_only_ones(scene: Scene) -> None:
    """What settings name counts alone: whoever may register cannot draw its calls elsewhere."""
    scene.announce("a")
    scene.terms = Terms(fixed=("http://two.test", "http://one.test"))
    assert await scene.find(route="broadcast") == ["http://one.test", "http://two.test"]


async def test_the_service_address_stands_in(scene: Scene) -> None:
    """Where no instance takes work the address that the service named is asked."""
    scene.terms = Terms(address="http://front.test")
    assert await scene.find() == ["http://front.test"]
    scene.announce("a")
    assert await scene.find() == ["a"]


async def test_a_marked_instance_gets_nothing(scene: Scene) -> None:
    """A registered one until it says otherwise, an address of the settings for ten seconds."""
    scene.announce("a")
    scene.announce("b")
    scene.router.mark_draining("default", "shop", "a")
    assert await scene.find(route="broadcast") == ["b"]
    scene.terms = Terms(fixed=("http://one.test",))
    scene.router.mark_draining("default", "shop", "http://one.test")
    assert await scene.find() == []
    scene.clock.advance(AVOID_MS)
    assert await scene.find() == ["http://one.test"]
