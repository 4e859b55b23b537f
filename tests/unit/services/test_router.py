"""The router: who gets a step, who waits and in which order, who is left out (SPEC section 13)."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.registered_services import RateLimit
from scheduler_service.domain.step_parts import Chosen
from scheduler_service.services.instances import Instance
from scheduler_service.services.rate_windows import RateWindow
from scheduler_service.services.router import AVOID_MS, Terms
from tests.unit.services.routing_rig import Scene


async def test_draining_and_offline_ones_get_nothing(scene: Scene) -> None:
    """Only who was heard of within the limit, does not say that it stops, and has an address."""
    scene.announce("old")
    scene.clock.advance(10_000)
    scene.announce("stopping", draining=True)
    scene.announce("there")
    scene.instances.register(Instance("shop", "default", "claims", "", seen=scene.clock.now().steady))
    assert await scene.find(route="broadcast") == ["there"]


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


async def test_who_vouches_for_an_address_is_said_with_it(scene: Scene) -> None:
    """Of an instance what it registered with, of a service's own address the service (SPEC section 9)."""
    for vouched in (True, False, None):
        scene.terms = Terms(address="http://own.test", vouched=vouched)
        ((own,), *_) = await scene.router.resolve(scene.search())
        assert (own.address, own.vouched) == ("http://own.test", vouched)
    for vouched in (True, False, None):
        scene.instances.register(
            Instance("shop", "default", "a", "http://a.test", seen=scene.clock.now().steady, vouched=vouched)
        )
        ((one,), *_) = await scene.router.resolve(scene.search())
        assert (one.address, one.vouched) == ("http://a.test", vouched)


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


async def test_who_takes_no_more_work_is_not_called(scene: Scene) -> None:
    """A call that was chosen before, as one that is sent again after a crash: it has drained, or left."""
    scene.announce("a")
    search = scene.search()
    await scene.router.resolve(search)
    call = scene.call(search, "a")
    scene.instances.mark_draining("default", "shop", "a")
    assert not scene.router.take_place(call)
    assert not await scene.router.enter(call)
    scene.announce("a")
    assert scene.router.take_place(call)
    scene.instances.remove("default", "shop", "a", left_at=scene.clock.now().steady)
    assert not await scene.router.enter(scene.call(scene.search(), "a"))


async def test_a_call_that_waits_for_one_who_leaves_waits_no_more(scene: Scene) -> None:
    """It goes elsewhere, within its attempt."""
    scene.announce("a", capacity=1)
    first, second = (scene.call(scene.search(), "a") for _ in range(2))
    assert scene.router.take_place(first)
    waiting = await scene.begin(scene.router.enter(second))
    assert not waiting.done()
    scene.instances.remove("default", "shop", "a", left_at=scene.clock.now().steady)
    scene.clock.advance(250)
    await scene.settle()
    assert waiting.result() is False


async def test_a_search_that_waits(scene: Scene) -> None:
    """Each goes on with the first instance that fits, as soon as it registers, without a tick."""
    scene.terms = Terms(wait=30_000)
    assert (await scene.router.resolve(scene.search()))[2] == 30_000
    searches = [scene.search(waits=True, **more) for more in ({}, {"route": "shard"}, {"tags": ("eu",)})]
    waiting = [await scene.begin(scene.router.resolve(search)) for search in searches]
    assert [task.done() for task in waiting] == [False] * 3
    scene.announce("a")
    await scene.settle()
    assert [task.done() for task in waiting] == [True, True, False]
    scene.clock.advance(29_999)
    await scene.settle()
    assert not waiting[2].done()
    scene.clock.advance(1)
    assert await asyncio.wait_for(waiting[2], 30) == ((), "failover", 0, False)


@pytest.mark.parametrize("mark", ["mark_refused", "mark_draining"])
async def test_a_search_waits_for_one_that_has_refused(scene: Scene, mark: str) -> None:
    """Until its next sign of life."""
    scene.terms = Terms(wait=30_000)
    scene.announce("a")
    getattr(scene.router, mark)("default", "shop", "a")
    waiting = await scene.begin(scene.router.resolve(scene.search(waits=True)))
    assert not waiting.done()
    scene.instances.renew("default", "shop", "a", scene.clock.now().steady, draining=False)
    assert [one.instance for one in (await asyncio.wait_for(waiting, 30))[0]] == ["a"]


PAUSED = ((), "failover", 0, True)


async def test_nothing_is_chosen_while_the_service_is_paused(scene: Scene) -> None:
    """Who asks is told so; who is held waits for the end, in order, and then for room."""
    scene.announce("a", capacity=1)
    await scene.pause()
    assert await scene.router.resolve(scene.search()) == PAUSED
    searches = [scene.search(held=True) for _ in range(3)]
    found = [await scene.begin(scene.router.resolve(search)) for search in searches]
    await scene.pause(is_paused=False)
    assert [one.done() for one in found] == [True, False, False]
    for number, search in enumerate(searches):
        assert [one.instance for one in (await found[number])[0]] == ["a"]
        scene.router.leave(search.token)
        await scene.settle()


async def test_a_pause_reaches_those_that_wait_already(scene: Scene) -> None:
    """For room, for an instance that may come, and for the rate limit: none of them is sent."""
    scene.announce("a", capacity=1)
    first = scene.search()
    await scene.router.resolve(first)
    for_room = [await scene.begin(scene.router.resolve(scene.search())) for _ in "ab"]
    scene.terms = Terms(wait=30_000)
    for_one = await scene.begin(scene.router.resolve(scene.search(tags=("gpu",), waits=True)))
    call = scene.call(first, "a")
    assert scene.router.take_place(call)
    scene.terms = Terms(rate=RateLimit(1, 60_000))
    waiting = [scene.call(scene.search(), "b") for _ in "ab"]
    assert await scene.router.enter(waiting[0])
    calling = await scene.begin(scene.router.enter(waiting[1]))
    await scene.pause()
    assert [await one for one in (*for_room, for_one)] == [PAUSED] * 3
    assert await calling is None
    assert not scene.router.take_place(scene.call(scene.search(), "b"))


async def test_a_search_for_one_instance_finds_no_other(scene: Scene) -> None:
    """A part of a broadcast goes to its own, also where others have room."""
    scene.announce("a")
    scene.announce("b")
    assert await scene.find(only="b", single=True, route="broadcast") == ["b"]
    assert await scene.find(only="c", single=True, route="broadcast") == []


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


@given(
    count=st.integers(1, 5),
    per=st.integers(1, 50),
    pauses=st.lists(st.integers(0, 30), min_size=1, max_size=60),
)
def test_no_window_has_more_than_the_limit(count: int, per: int, pauses: list[int]) -> None:
    """Whoever waits as long as he is told: no stretch of `perSeconds` has more than `count` calls."""
    limit, window, now = RateLimit(count, per), RateWindow(), 0
    calls: list[int] = []
    for pause in pauses:
        now += pause
        wait = window.wait(limit, now)
        assert wait >= 0
        assert wait == 0 or window.wait(limit, now + wait - 1) > 0, "not a moment longer than needed"
        now += wait
        assert window.wait(limit, now) == 0
        window.take(now)
        calls.append(now)
    for at in calls:
        assert sum(at <= other < at + per for other in calls) <= count


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


async def test_a_call_takes_no_place_before_those_in_line(scene: Scene) -> None:
    """Nor one that a heartbeat has made and those in line have not seen yet."""
    scene.announce("a", capacity=2, load=2.0)
    waiting = await scene.begin(scene.router.enter(scene.call(scene.search(), "a")))
    scene.instances.renew("default", "shop", "a", scene.clock.now().steady, load=1.0)
    assert not scene.router.take_place(scene.call(scene.search(), "a"))
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


def test_a_new_limit_counts_what_was_called() -> None:
    """A service that lowers its limit is spared at once."""
    window = RateWindow()
    for _ in range(10):
        window.take(0)
    assert window.wait(RateLimit(20, 1_000), 1) == 0
    assert window.wait(RateLimit(5, 1_000), 1) == 999
