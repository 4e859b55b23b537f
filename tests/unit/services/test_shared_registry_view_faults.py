"""What one node cannot read or do, and what two write at one moment: the others and the rest go on."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.shared_registry import ServiceNotice, SharedInstance
from scheduler_service.services.instances import Instance
from scheduler_service.services.shared_registry_view import FORMAT, RowUnreadable, instance_of, row_of
from tests.rows import each_row
from tests.unit.services.shared_table import SHOP, TENANT, ViewedCluster, ViewedNode

WITHIN = 2 * SECOND
PLACE = (TENANT, SHOP, "a")
FULL = Instance(
    SHOP, TENANT, "a", "http://a.test", ("eu",), 3, "till", draining=True, seen=7, declares=b"d", said=6
)


def test_a_row_has_all_that_an_instance_said_of_itself() -> None:
    """Its load comes with the reports, and whether it refuses is each node's own finding."""
    assert instance_of(row_of(FULL)) == FULL
    assert instance_of(row_of(msgspec.structs.replace(FULL, load=2, refuses=True))) == FULL


@each_row(
    "content",
    [b"", b"\xc1", msgspec.msgpack.encode({"address": 1}), msgspec.msgpack.encode({"format": FORMAT + 1})],
)
def test_what_no_program_of_today_can_have_written_is_refused(content: bytes) -> None:
    with pytest.raises(RowUnreadable):
        instance_of(SharedInstance(*PLACE, content, 0))


async def test_a_row_that_cannot_be_read_hides_no_other_one(cluster: ViewedCluster) -> None:
    """Damaged, or written by a newer program: it is said, and all else goes on."""
    one, two = cluster.nodes.values()
    newer = msgspec.msgpack.encode({"format": FORMAT + 1, "address": ["http://a.test"]})
    now = cluster.clock.now().steady
    await cluster.shared.put(instances=[SharedInstance(TENANT, SHOP, "bad", b"\xc1", now)])
    await cluster.shared.put(instances=[SharedInstance(TENANT, SHOP, "new", newer, now)])
    await two.register("a")
    await cluster.go_on(15 * SECOND)
    two.beat("a")
    await cluster.go_on(WITHIN)
    assert one.online() == ["a"]
    assert one.lines == ["registry_row_skipped"] * 2
    assert f"format {FORMAT + 1}" in one.errors[1]
    assert one.view.complete_at <= cluster.clock.now().steady


async def test_a_leaving_counts_whatever_else_its_row_says(cluster: ViewedCluster) -> None:
    one, two = cluster.nodes.values()
    await two.register("a")
    await cluster.go_on(WITHIN)
    now = cluster.clock.now().steady
    await cluster.shared.put(instances=[SharedInstance(*PLACE, b"\xc1", now, left_at=now)])
    await cluster.go_on(WITHIN)
    assert one.instances.get(*PLACE) is None
    assert one.instances.left_at(*PLACE) == now


async def test_a_defect_is_said_and_tried_again(cluster: ViewedCluster) -> None:
    """Of whatever kind: the exchange goes on, meanwhile silence proves nothing; the node stops as ever."""
    one, two = cluster.nodes.values()
    await cluster.go_on(15 * SECOND)

    async def fail(notices: Sequence[ServiceNotice]) -> None:
        raise LookupError("of the test")

    one.view.bind(open_here=list, on_notices=fail)
    await two.register("a")
    await cluster.go_on(5 * SECOND)
    assert (one.lines, one.errors) == (["registry_not_shared"], ["LookupError: of the test"])
    await one.view.ask()
    assert one.view.complete_at > cluster.clock.now().steady
    one.view.bind(open_here=list, on_notices=one.registry.take_notices)
    await cluster.go_on(WITHIN)
    assert one.lines == ["registry_not_shared", "registry_shared_again"]
    assert one.online() == ["a"]
    one.view.bind(open_here=list, on_notices=fail)
    await two.register("b")
    await two.registry.remove(TENANT, SHOP)
    await cluster.stop("one")


@pytest.fixture
async def settled() -> AsyncIterator[ViewedCluster]:
    made = ViewedCluster()
    one = await made.start("one")
    await made.start("two")
    await one.register("a")
    await one.register("z")
    await made.go_on(WITHIN)
    yield made
    await made.close()


async def hold_changes(cluster: ViewedCluster, node: ViewedNode) -> asyncio.Event:
    """What `node` has to write of `z` hangs until the event is set."""
    gate = cluster.shared.gate = asyncio.Event()
    node.beat("z", draining=True)
    await cluster.go_on(SECOND // 2)
    assert cluster.shared.gate is None
    return gate


async def test_a_leaving_is_not_undone_by_a_change_that_was_under_way(settled: ViewedCluster) -> None:
    """It drains, says so at one node, and leaves at the other before that is written."""
    one, two = settled.nodes.values()
    two.beat("a", draining=True)
    gate = await hold_changes(settled, two)
    await one.registry.deregister(*PLACE)
    gate.set()
    await settled.go_on(WITHIN)
    assert (one.instances.get(*PLACE), two.instances.get(*PLACE)) == (None, None)
    three = await settled.start("three")
    assert three.instances.get(*PLACE) is None


async def test_one_that_a_leaving_overtook_while_a_change_was_written(settled: ViewedCluster) -> None:
    """Its later sign of life revives it at all nodes."""
    one, two = settled.nodes.values()
    await one.registry.deregister(*PLACE)
    settled.clock.advance(10)
    two.beat("a")
    gate = await hold_changes(settled, two)
    await two.view.catch_up()
    gate.set()
    await settled.go_on(WITHIN)
    two.beat("a")
    await settled.go_on(WITHIN)
    assert one.online() == two.online() == ["a"]
