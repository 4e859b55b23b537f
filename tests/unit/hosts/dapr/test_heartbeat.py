"""Nodes with a fresh heartbeat, and those without (SPEC section 14)."""

import asyncio
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.moments import Now, rfc3339
from scheduler_service.domain.replies import Started
from scheduler_service.domain.turn_events import Triggered
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.heartbeat import (
    CUT_OFF,
    HEARTBEAT_INTERVAL_MS,
    OFF,
    OFFLINE_AFTER_MS,
    OWN_LAPSE_AFTER_MS,
    POLL_MS,
    RUNNING,
    Liveness,
    Membership,
)
from scheduler_service.ports.cluster import Node
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreUnavailable
from tests.conformance.hosts.houses import DaprHouse, freeze
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio


async def test_a_node_past_its_heartbeat_commits_nothing(cluster: DaprHouse) -> None:
    """The others take it for dead: whatever it had in hand is left as they made it."""
    await cluster.create_by_actor()
    gate = await freeze(cluster)
    frozen = asyncio.create_task(cluster.trigger())
    await cluster.settle()
    first = cluster.node
    await first.host.heartbeat.cancel()
    cluster.world.kill("one")
    second = await cluster.add("two")
    await cluster.advance(12_000)
    assert isinstance(await second.host("job", Command(Triggered())), Started)
    await cluster.settle()
    before = await second.shared.sequence("job")
    gate.set_result(None)
    with pytest.raises(StoreError):
        await frozen
    assert await second.shared.sequence("job") == before
    cluster.nodes["one"] = first


async def test_a_dead_node_is_seen_when_its_time_is_over(cluster: DaprHouse) -> None:
    """What it had in hand waits for that: it is not known only with this node's next heartbeat."""
    heartbeat = cluster.node.host.heartbeat
    await cluster.advance(HEARTBEAT_INTERVAL_MS - POLL_MS)  # the two write at different moments
    second = await cluster.add("two")
    await heartbeat.report(RUNNING)
    assert heartbeat.others
    await second.host.heartbeat.cancel()
    cluster.world.kill("two")
    await cluster.advance(OFFLINE_AFTER_MS - POLL_MS)
    assert heartbeat.others
    await cluster.advance(2 * POLL_MS)
    assert not heartbeat.others


async def test_a_second_node_of_a_name_refuses_to_start(cluster: DaprHouse) -> None:
    """`node.id` is unique among the living (SPEC section 14)."""
    adding = asyncio.create_task(cluster.add("one"))
    await cluster.advance(5_000)
    with pytest.raises(StoreUnavailable, match=r"node\.id"):
        await adding


@pytest.mark.parametrize("ends", ["stops", "dies"])
async def test_a_node_waits_for_those_of_older_programs(cluster: DaprHouse, ends: str) -> None:
    """They make turns durable in another way: it takes none beside them, and they cannot come back."""
    old = Node("old", "0", "http://old", "0", "running", 0, cluster.clock.now().steady, 0, 0)
    assert await cluster.node.nodes.enter(old, alive_since=0)
    joining = asyncio.create_task(cluster.add("two"))
    await cluster.advance(5_000)
    assert not joining.done()
    assert ("older_nodes_awaited", ["old"]) in [(event, keys.get("nodes")) for event, keys in cluster.log]
    if ends == "stops":
        assert await cluster.node.nodes.beat(msgspec.structs.replace(old, state=OFF))
    await cluster.advance(1_000 if ends == "stops" else OFFLINE_AFTER_MS)
    await joining
    assert not await cluster.node.nodes.beat(old)


WALL, STEADY = 1_767_225_600_000, 1_000_000
OWN = Holder("one", "1")


class World:
    """This node's look at a list of nodes."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.now = Now(WALL, STEADY)
        self.membership = Membership(log=self._write, own=OWN)

    def _write(self, event: str, /, **keys: object) -> None:
        self.lines.append((event, dict(keys)))

    def look(self, *nodes: Node) -> list[tuple[str, dict[str, Any]]]:
        """The lines of one look, of this node and these."""
        self.lines.clear()
        self.membership.look((self.node("one", "1"), *nodes), self.now)
        return list(self.lines)

    def node(self, name: str, boot: str, state: str = RUNNING, *, silent_for: int = 0) -> Node:
        """A node as the database lists it."""
        seen = self.now.steady - silent_for
        return Node(name, boot, f"http://{name}.test", "1.0", state, WALL, seen, 0, 0)


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_look_writes_nothing(world: World) -> None:
    """Who is there at the start was there before; this node is no other one; a stop is told once."""
    two = world.node("two", "2")
    assert world.look(two) == []
    assert world.look(two) == []
    world.membership.look((two, world.node("one", "1", silent_for=OFFLINE_AFTER_MS)), world.now)
    assert world.lines == [], "its own heartbeat is no business of its log"
    world.look(world.node("two", "2"))
    assert world.look(world.node("two", "2", OFF)) == [("node_left", {"node": "two"})]
    assert world.look(world.node("two", "2", OFF)) == []


def test_a_node_that_joins_is_one_line(world: World) -> None:
    """With its address; a node that starts anew is a new one."""
    world.look()
    two = world.node("two", "2")
    joined = ("node_joined", {"node": "two", "address": "http://two.test", "version": "1.0"})
    assert world.look(two) == [joined]
    assert world.look(two) == []
    assert [event for event, _ in world.look(world.node("two", "3"))] == ["node_lost", "node_joined"]


def test_a_node_without_heartbeat_or_sidecar_is_lost(world: World) -> None:
    """With the moment of its last heartbeat; it joins when it comes back."""
    world.look(world.node("two", "2"), world.node("three", "3"))
    gone = world.look(world.node("two", "2", silent_for=OFFLINE_AFTER_MS), world.node("three", "3", CUT_OFF))
    since = rfc3339(WALL - OFFLINE_AFTER_MS)
    assert gone == [
        ("node_lost", {"node": "two", "since": since, "reason": "silent"}),
        ("node_lost", {"node": "three", "since": rfc3339(WALL), "reason": CUT_OFF}),
    ]
    back = world.look(world.node("two", "2"), world.node("three", "3"))
    assert [event for event, _ in back] == ["node_joined", "node_joined"]


def beating() -> tuple[Liveness, ManualClock]:
    """A node whose heartbeat has just been written."""
    clock = ManualClock(wall=1_000_000)
    liveness = Liveness(clock=clock)
    liveness.extend(clock.now().steady)
    return liveness, clock


def test_a_period_lasts_from_beat_to_beat() -> None:
    """As long as none is 9 s old, which is a second before the others give the node up."""
    liveness, clock = beating()
    period = liveness.period
    for _ in range(20):
        clock.advance(HEARTBEAT_INTERVAL_MS)
        assert liveness.lasts(period)
        liveness.extend(clock.now().steady)
    clock.advance(OWN_LAPSE_AFTER_MS - 1)
    assert liveness.lasts(period)
    assert OWN_LAPSE_AFTER_MS < OFFLINE_AFTER_MS
    clock.advance(1)
    assert not liveness.is_current
    assert not liveness.lasts(period)


def test_what_was_begun_before_a_break_counts_no_more() -> None:
    """With the next heartbeat a new period begins; there is no moment at which the old one lasts."""
    liveness, clock = beating()
    period = liveness.period
    clock.advance(OWN_LAPSE_AFTER_MS)
    liveness.extend(clock.now().steady)
    assert liveness.is_current
    assert not liveness.lasts(period)
    assert liveness.lasts(liveness.period)
    # One that took 9 s to be written does not count
    liveness, clock = beating()
    before = clock.now().steady
    clock.advance(OWN_LAPSE_AFTER_MS)
    liveness.extend(before)
    assert not liveness.is_current


def test_a_node_that_says_goodbye_is_gone_at_once() -> None:
    """It begins anew when it is back; before its first beat nothing that is begun counts."""
    liveness, clock = beating()
    period = liveness.period
    liveness.end()
    assert not liveness.is_current
    assert not liveness.lasts(period)
    liveness.extend(clock.now().steady)
    assert not liveness.lasts(period)
    assert liveness.lasts(liveness.period)
    liveness = Liveness(clock=ManualClock(wall=1_000_000))
    assert not liveness.lasts(liveness.period)
