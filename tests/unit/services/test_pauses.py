"""What is paused: durable, the same at all nodes, and once (SPEC section 13)."""

import pytest

from scheduler_service.domain.registered_services import Kind
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.services.registry import Registry
from tests.unit.services.shared_table import ViewedCluster
from tests.unit.services.tables import MemoryTable, StandingClock

WORK = (Kind.QUEUE, "default", "work")
SHOP = (Kind.SERVICE, "default", "work")


async def test_a_pause_stands_since_it_began(
    registry: Registry, clock: StandingClock, table: MemoryTable
) -> None:
    """Of one kind, tenant and name; who subscribes hears once of its begin, and once of its end."""
    heard: list[tuple[Kind, str, str]] = []
    registry.pauses.subscribe(lambda *place: heard.append(place))
    clock.steady = 5
    for _ in "ab":
        await registry.pause_queue(*WORK[1:])
        clock.steady += 1
    assert registry.pauses.since(*WORK) == 5
    assert registry.pauses.since(*SHOP) is None
    assert registry.pauses.since(Kind.QUEUE, "other", "work") is None
    for _ in "ab":
        await registry.pauses.resume(*WORK)
    assert heard == [WORK, WORK]
    # Neither a pause nor its end; the call may be repeated
    table.is_down = True
    with pytest.raises(StoreUnavailable):
        await registry.pause_queue(*WORK[1:])
    assert registry.pauses.since(*WORK) is None
    table.is_down = False
    await registry.pause_queue(*WORK[1:])
    table.is_down = True
    with pytest.raises(StoreUnavailable):
        await registry.pauses.resume(*WORK)
    assert registry.pauses.since(*WORK) is not None


async def test_what_one_node_pauses_is_paused_at_the_others() -> None:
    """Within a second, and for a node that starts; so is its end. Jobs declared anew stay so."""
    cluster = ViewedCluster()
    one, two = [await cluster.start(name) for name in ("one", "two")]
    await one.register("a")
    await cluster.go_on(1_000)
    await one.registry.pause_queue(*WORK[1:])
    await cluster.go_on(1_000)
    assert two.registry.pauses.since(*WORK) is not None
    one.registry.note_anew("default", "work")
    await one.registry.pauses.resume(*WORK)
    await one.registry.pause_queue(*WORK[1:])
    await cluster.go_on(1_000)
    three = await cluster.start("three")
    assert two.registry.pauses.since(*WORK) == three.registry.pauses.since(*WORK) is not None
    assert two.registry.take_anew("default", "work")
    await two.registry.pauses.resume(*WORK)
    await cluster.go_on(1_000)
    assert one.registry.pauses.since(*WORK) is None
    await cluster.close()
