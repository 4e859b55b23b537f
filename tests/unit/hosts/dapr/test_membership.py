"""Nodes that come and go are one line each."""

from typing import Any

from scheduler_service.domain.moments import Now, rfc3339
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.liveness import CUT_OFF, OFF, OFFLINE_AFTER_MS, RUNNING
from scheduler_service.hosts.dapr.membership import Membership
from scheduler_service.ports.cluster import Node

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


def test_the_first_look_writes_nothing() -> None:
    """Who is there at the start was there before; and this node is no other one."""
    world = World()
    assert world.look(world.node("two", "2")) == []
    assert world.look(world.node("two", "2")) == []


def test_a_node_that_joins_is_one_line() -> None:
    """With its address; a node that starts anew is a new one."""
    world = World()
    world.look()
    two = world.node("two", "2")
    joined = ("node_joined", {"node": "two", "address": "http://two.test", "version": "1.0"})
    assert world.look(two) == [joined]
    assert world.look(two) == []
    assert [event for event, _ in world.look(world.node("two", "3"))] == ["node_lost", "node_joined"]


def test_a_node_that_was_stopped_has_left() -> None:
    """Once."""
    world = World()
    world.look(world.node("two", "2"))
    assert world.look(world.node("two", "2", OFF)) == [("node_left", {"node": "two"})]
    assert world.look(world.node("two", "2", OFF)) == []


def test_a_node_without_heartbeat_or_sidecar_is_lost() -> None:
    """With the moment of its last heartbeat; it joins when it comes back."""
    world = World()
    world.look(world.node("two", "2"), world.node("three", "3"))
    gone = world.look(world.node("two", "2", silent_for=OFFLINE_AFTER_MS), world.node("three", "3", CUT_OFF))
    since = rfc3339(WALL - OFFLINE_AFTER_MS)
    assert gone == [
        ("node_lost", {"node": "two", "since": since, "reason": "silent"}),
        ("node_lost", {"node": "three", "since": rfc3339(WALL), "reason": CUT_OFF}),
    ]
    back = world.look(world.node("two", "2"), world.node("three", "3"))
    assert [event for event, _ in back] == ["node_joined", "node_joined"]
