"""One registry at all nodes of a cluster: what one knows, all know within two seconds (SPEC section 13)."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from scheduler_service.domain.effects import ResolveInstances
from scheduler_service.domain.moments import DAY, SECOND
from scheduler_service.domain.registered_services import RateLimit, Service
from scheduler_service.domain.wire import CallKind, Token
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.shared_registry import Changes, ServiceNotice, SharedInstance
from scheduler_service.services.instances import Instance
from scheduler_service.services.registry import TimerDeclaration, digest_of
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.services.shared_registry_view import FORMAT, RowUnreadable, instance_of, row_of
from tests.rows import each_row
from tests.unit.services.shared_table import SHOP, TENANT, ViewedCluster, ViewedNode

WITHIN = 2 * SECOND
PLACE = (TENANT, SHOP, "a")


async def test_who_registers_at_one_node_is_known_at_the_other(cluster: ViewedCluster) -> None:
    """With all that it said of itself."""
    one, two = cluster.nodes.values()
    await one.register("a", capacity=3, tags=("eu",), description="till")
    assert two.online() == []
    await cluster.go_on(WITHIN)
    assert two.instances.get(*PLACE) == one.instances.get(*PLACE)
    assert two.online() == ["a"]


async def test_a_heartbeat_to_either_node_counts_at_both(cluster: ViewedCluster) -> None:
    """With the load that it reports; one that falls silent is offline at both."""
    one, two = cluster.nodes.values()
    await one.register("a")
    await cluster.go_on(WITHIN)
    for number in range(10):
        assert cluster.nodes["two" if number % 2 else "one"].beat("a", load=number)
        await cluster.go_on(3 * SECOND)
        assert one.online() == two.online() == ["a"]
        assert [node.instances.get(*PLACE).load for node in (one, two)] == [number] * 2  # type: ignore[union-attr]
    await cluster.go_on(8 * SECOND)
    assert one.online() == two.online() == []


async def test_a_thousand_heartbeats_are_one_write_a_second(cluster: ViewedCluster) -> None:
    """And where nobody is heard of, nothing is written."""
    one = cluster.nodes["one"]
    for number in range(1_000):
        await one.register(f"i{number}")
    await cluster.go_on(15 * SECOND)
    cluster.shared.writes = 0
    for second in range(9):
        for number in range(second % 3, 1_000, 3):
            one.beat(f"i{number}", load=1)
        await cluster.go_on(SECOND)
    assert cluster.shared.writes <= 10
    await cluster.go_on(15 * SECOND)
    cluster.shared.writes = 0
    await cluster.go_on(60 * SECOND)
    assert cluster.shared.writes == 0


async def test_drains_and_leavings_count_at_all_nodes(cluster: ViewedCluster) -> None:
    """By word, by an answer, taken back at the other node, and for good."""
    one, two = cluster.nodes.values()
    await one.register("a")
    await cluster.go_on(WITHIN)
    two.beat("a", draining=True)
    await cluster.go_on(WITHIN)
    assert one.online() == []
    one.beat("a", draining=False)
    await cluster.go_on(WITHIN)
    assert two.online() == ["a"]
    one.instances.mark_draining(*PLACE)
    await cluster.go_on(WITHIN)
    assert two.online() == []
    two.beat("a", draining=False)
    await two.registry.deregister(*PLACE)
    await cluster.go_on(WITHIN)
    assert one.instances.get(*PLACE) is None
    assert one.instances.left_at(*PLACE) is not None
    assert not one.beat("a")


async def test_who_is_asked_for_nobody_knows_asks_the_table(cluster: ViewedCluster) -> None:
    """A heartbeat or leaving right after a registration elsewhere does not wait for the next look."""
    one, two = cluster.nodes.values()
    await one.register("a")
    assert await two.registry.deregister(*PLACE)
    await one.register("b")
    await two.view.ask()
    assert two.online() == ["b"]
    # Before a search finds nobody, the node asks for what the others were told
    one, two = cluster.nodes.values()
    await cluster.go_on(15 * SECOND)
    router = MemoryRouter(
        instances=two.instances, terms=lambda _, __: Terms(), clock=cluster.clock, others=two.view
    )
    await one.register("a")
    search = ResolveInstances(Token("uid", 1, 1, CallKind.RESOLVE, 0), TENANT, SHOP, "job", "1")
    chosen, *_ = await router.resolve(search)
    assert [found.instance for found in chosen] == ["a"]


async def test_services_and_their_limits_count_at_all_nodes(cluster: ViewedCluster) -> None:
    """A change at either, and a removal."""
    one, two = cluster.nodes.values()
    said = Service(tenant=TENANT, name=SHOP, rate_limit=RateLimit(5), vouched=False)
    await one.registry.register(said, None)
    await cluster.go_on(WITHIN)
    assert two.registry.find(TENANT, SHOP).vouched is False  # type: ignore[union-attr]
    assert two.registry.find(TENANT, SHOP).rate_limit == RateLimit(5)  # type: ignore[union-attr]
    await two.registry.register(msgspec.structs.replace(said, rate_limit=RateLimit(7)), None)
    await cluster.go_on(WITHIN)
    assert one.registry.find(TENANT, SHOP).rate_limit == RateLimit(7)  # type: ignore[union-attr]
    await one.register("a")
    await cluster.go_on(WITHIN)
    await two.registry.remove(TENANT, SHOP)
    await cluster.go_on(WITHIN)
    assert one.registry.find(TENANT, SHOP) is None
    assert one.online() == []


async def test_jobs_declared_anew_at_one_node_are_so_for_the_scan_of_any(cluster: ViewedCluster) -> None:
    """And for one scan alone, wherever that is."""
    one, two = cluster.nodes.values()
    text = b'[{"jobId":"a"}]'
    await one.registry.register(Service(tenant=TENANT, name=SHOP), TimerDeclaration(digest_of(text), text))
    await cluster.go_on(WITHIN)
    assert two.registry.take_anew(TENANT, SHOP)
    two.registry.settle_anew(TENANT, SHOP)
    await cluster.go_on(WITHIN)
    assert not one.registry.take_anew(TENANT, SHOP)


async def test_registrations_outlive_every_node(cluster: ViewedCluster) -> None:
    """Those of a node that is gone, and of all nodes."""
    await cluster.nodes["one"].register("a", capacity=2)
    await cluster.stop("one")
    await cluster.stop("two")
    again = await cluster.start("three")
    assert again.online() == ["a"]
    assert again.instances.get(*PLACE).capacity == 2  # type: ignore[union-attr]
    assert again.beat("a")


async def test_calls_from_other_nodes_count_while_these_live(cluster: ViewedCluster) -> None:
    """A full instance is full at all nodes; the calls of a node that is gone are over."""
    one, two = cluster.nodes.values()
    two.calls[PLACE] = 4
    await cluster.go_on(WITHIN)
    assert one.view.calls_to(PLACE) == 4
    two.calls.clear()
    await cluster.go_on(WITHIN)
    assert one.view.calls_to(PLACE) == 0
    two.calls[PLACE] = 1
    await cluster.go_on(WITHIN)
    await cluster.stop("two")
    await cluster.go_on(WITHIN)
    assert one.view.calls_to(PLACE) == 0


async def test_silence_says_nothing_while_the_database_is_away(cluster: ViewedCluster) -> None:
    """A change that cannot be written is refused, and the log says when it began and ended."""
    one = cluster.nodes["one"]
    await cluster.go_on(15 * SECOND)
    before = one.view.complete_at
    assert before < cluster.clock.now().steady
    cluster.shared.is_down = True
    with pytest.raises(StoreUnavailable):
        await one.register("a")
    assert one.online() == []
    await cluster.go_on(20 * SECOND)
    assert one.view.complete_at == cluster.clock.now().steady + 10 * SECOND
    cluster.shared.is_down = False
    await cluster.go_on(WITHIN)
    back = one.view.complete_at
    assert cluster.clock.now().steady < back <= cluster.clock.now().steady + 10 * SECOND
    await cluster.go_on(10 * SECOND)
    assert one.view.complete_at == back
    assert one.lines == ["registry_not_shared", "registry_shared_again"]


async def test_who_spoke_to_a_node_that_is_gone_has_time_to_find_another(cluster: ViewedCluster) -> None:
    """Meanwhile a step for a known service waits instead of ending as `no_instance`."""
    one = cluster.nodes["one"]
    await one.register("a")
    await cluster.go_on(20 * SECOND)
    assert not one.registry.awaits_instances(TENANT, SHOP)
    await cluster.stop("two")
    await cluster.go_on(WITHIN)
    assert one.registry.awaits_instances(TENANT, SHOP)
    await cluster.go_on(10 * SECOND)
    assert not one.registry.awaits_instances(TENANT, SHOP)


async def scan(cluster: ViewedCluster, name: str) -> Changes:
    """A scan runs at this node. Returns what the shared tables have then."""
    await cluster.nodes[name].registry.forget_instances(cluster.clock.now().steady - DAY)
    return await cluster.shared.after(0, "")


async def test_instances_that_left_leave_the_table_a_day_later(cluster: ViewedCluster) -> None:
    """Until then those that were away hear of their leaving; one that is there stays."""
    one = cluster.nodes["one"]
    for name in ("pod1", "pod2", "a"):
        await one.register(name)
    for name in ("pod1", "pod2"):
        await one.registry.deregister(TENANT, SHOP, name)
    await cluster.go_on(WITHIN)
    cluster.clock.advance(DAY - 10 * SECOND)
    one.beat("a")
    await cluster.go_on(WITHIN)
    assert len((await scan(cluster, "two")).instances) == 3
    cluster.clock.advance(20 * SECOND)
    assert [row.instance_id for row in (await scan(cluster, "two")).instances] == ["a"]


async def test_silent_instances_are_forgotten_at_every_node(cluster: ViewedCluster) -> None:
    """Also where no scan runs, and whatever failed before."""
    one, two = cluster.nodes.values()
    await one.register("a")
    await cluster.go_on(WITHIN)
    cluster.clock.advance(DAY + SECOND)
    await cluster.go_on(WITHIN)
    assert [node.instances.known(TENANT, SHOP) for node in (one, two)] == [(), ()]
    cluster.shared.is_down = True
    with pytest.raises(StoreUnavailable):
        await scan(cluster, "two")
    cluster.shared.is_down = False
    assert (await scan(cluster, "two")).instances == ()


async def test_reports_of_nodes_that_are_gone_leave_the_table(cluster: ViewedCluster) -> None:
    """Not those of nodes that live and have no news."""
    one, two = cluster.nodes.values()
    one.calls[TENANT, SHOP, "a"] = two.calls[TENANT, SHOP, "a"] = 1
    await cluster.go_on(WITHIN)
    await cluster.stop("two")
    cluster.clock.advance(DAY + SECOND)
    assert [report.node for report in (await scan(cluster, "one")).reports] == ["one"]


async def test_notices_leave_the_table_once_all_have_read_them(cluster: ViewedCluster) -> None:
    """One of jobs that are declared anew stays until a scan has taken them."""
    one = cluster.nodes["one"]
    await one.registry.register(Service(tenant=TENANT, name="old"), None)
    one.registry.note_anew(TENANT, SHOP)
    await cluster.go_on(WITHIN)
    one.registry.take_anew(TENANT, "old")
    one.registry.settle_anew(TENANT, "old")
    await cluster.go_on(WITHIN)
    assert len((await scan(cluster, "two")).services) == 2
    for _ in range(2):
        cluster.clock.advance(DAY + SECOND)
        await cluster.go_on(WITHIN)
        found = await scan(cluster, "two")
    assert [notice.name for notice in found.services] == [SHOP]


async def test_a_removal_that_cannot_be_shared_may_be_repeated(cluster: ViewedCluster) -> None:
    """The service stays until its instances have left."""
    one, two = cluster.nodes.values()
    await one.register("a")
    await cluster.go_on(WITHIN)
    cluster.shared.fails_writes = True
    with pytest.raises(StoreUnavailable):
        await one.registry.remove(TENANT, SHOP)
    assert one.registry.find(TENANT, SHOP) is not None
    assert one.online() == ["a"]
    cluster.shared.fails_writes = False
    assert await one.registry.remove(TENANT, SHOP)
    await cluster.go_on(WITHIN)
    assert two.registry.find(TENANT, SHOP) is None
    assert one.online() == two.online() == []
    # Its service is stored; the instance is known at no node before it is known at all
    one, two = cluster.nodes.values()
    cluster.shared.fails_writes = True
    with pytest.raises(StoreUnavailable):
        await one.register("a")
    assert one.registry.find(TENANT, SHOP) is not None
    assert one.online() == []
    cluster.shared.fails_writes = False
    await one.register("a")
    await cluster.go_on(WITHIN)
    assert one.online() == two.online() == ["a"]
    assert two.registry.find(TENANT, SHOP) is not None


async def test_a_service_of_a_node_that_died_before_it_told_of_it(cluster: ViewedCluster) -> None:
    """Between the table and the notice: the others read the table when a node is gone."""
    two = cluster.nodes["two"]
    await cluster.go_on(WITHIN)
    cluster.shared.fails_writes = True
    said = Service(tenant=TENANT, name=SHOP, rate_limit=RateLimit(5))
    await cluster.nodes["one"].registry.register(said, None)
    await cluster.stop("one")
    cluster.shared.fails_writes = False
    await cluster.go_on(WITHIN)
    found = two.registry.find(TENANT, SHOP)
    assert found is not None
    assert found.rate_limit == RateLimit(5)


async def test_the_later_word_counts_whichever_is_written_first(cluster: ViewedCluster) -> None:
    """It drains, says so to one node, and takes it back at the other, which does not know of it yet."""
    one, two = cluster.nodes.values()
    await one.register("a")
    await cluster.go_on(WITHIN)
    one.beat("a", draining=True)
    cluster.clock.advance(50)
    two.beat("a", draining=False)
    await cluster.go_on(WITHIN)
    assert one.online() == two.online() == ["a"]


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
