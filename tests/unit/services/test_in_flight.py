"""The load of each instance: calls in flight and what it reports (SPEC section 13)."""

import pytest

from scheduler_service.domain.parts import Chosen
from tests.unit.services.routing_rig import Scene

pytestmark = pytest.mark.anyio


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
    chosen, *_ = await scene.router.resolve(spread)
    assert [one.instance for one in chosen] == ["a", "b"]
    assert scene.router.take_place(scene.call(spread, "b"))
    assert not scene.router.take_place(scene.call(spread, "a"))
    waiting = await scene.begin(scene.router.enter(scene.call(spread, "a")))
    scene.router.leave(busy.token)
    await scene.settle()
    assert waiting.done()
