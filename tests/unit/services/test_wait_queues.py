"""Steps that wait for capacity, in order (SPEC section 13)."""

from tests.unit.services.routing_rig import Scene


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
