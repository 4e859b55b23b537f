"""What daprd says to a write of state that belongs to no turn of its own (decision 51).

A turn that a node takes without daprd writes like that. Refused is refused for certain: daprd looks before
it writes.
"""

import threading
import time

import pytest

from tests.sidecar.behaviours.bare import Gate, Node, World
from tests.sidecar.stage import until

WRITTEN, REFUSED = 204, 400
KEY = {"key": "key", "value": 1}
HELD_SECONDS = 1.0
CONFIG = {"entities": ["Local"], "actorIdleTimeout": "1h"}
ACTORS = [f"Local/{number}" for number in range(12)]


def write(node: Node, actor: str) -> int:
    """The status of one write."""
    reply = node.save(actor, KEY)
    assert reply.status == WRITTEN or reply.json["errorCode"] == "ERR_ACTOR_INSTANCE_MISSING", reply.body
    return reply.status


def wake(node: Node, actor: str) -> None:
    """Makes it active, wherever it lives."""
    assert node.ask("PUT", f"{actor}/method/wake").status == 200


def test_an_active_actor_is_written_without_a_turn(node: Node) -> None:
    """Also while daprd runs a turn of it, and at no other time of its life."""
    gate = Gate()
    actor = "Plain/local"
    assert write(node, actor) == REFUSED
    wake(node, actor)
    assert write(node, actor) == WRITTEN
    node.app.works[actor] = gate
    turn = threading.Thread(target=wake, args=(node, actor))
    turn.start()
    gate.await_entry()
    assert write(node, actor) == WRITTEN
    gate.open()
    turn.join()
    wake(node, "Brief/local")
    assert write(node, "Brief/local") == WRITTEN
    assert until(lambda: len(node.app.heard("Brief/local")) == 2, 15)
    assert write(node, "Brief/local") == REFUSED


def test_the_idle_time_takes_no_notice_of_writes(node: Node) -> None:
    """An actor that is only written is idle, and goes; its reads go on."""
    wake(node, "Brief/written")
    began = time.monotonic()
    statuses = []
    while time.monotonic() - began < 4:
        statuses.append(write(node, "Brief/written"))
        time.sleep(0.05)
    assert statuses == sorted(statuses)
    assert {statuses[0], statuses[-1]} == {WRITTEN, REFUSED}
    assert node.ask("GET", "Brief/written/state/key").json == 1


def test_a_sidecar_that_starts_anew_has_no_actor(world: World) -> None:
    """Nothing is written until a turn has come through it."""
    node = world.join("restarted", CONFIG)
    wake(node, "Local/0")
    assert write(node, "Local/0") == WRITTEN
    node.sidecar.kill()
    world.wake(node)
    assert write(node, "Local/0") == REFUSED
    wake(node, "Local/0")
    assert write(node, "Local/0") == WRITTEN
    node.stop()


class Writers:
    """Twelve actors of one node are written without a pause, each by a thread of its own."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.written: dict[str, list[tuple[float, float, int]]] = {actor: [] for actor in ACTORS}
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(actor,)) for actor in ACTORS]
        for actor in ACTORS:
            wake(node, actor)
        for thread in self._threads:
            thread.start()
        assert until(lambda: all(self.written.values()), 10)

    def _write(self, actor: str) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            status = write(self.node, actor)
            self.written[actor].append((began, time.monotonic(), status))
            time.sleep(0.01)

    def stop(self) -> None:
        """They end."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def let_go(self) -> dict[str, float]:
        """When the node was told to let each actor go."""
        calls = {actor: self.node.app.heard(actor) for actor in ACTORS}
        return {actor: call.began for actor in ACTORS for call in calls[actor] if call.verb == "DELETE"}

    def longest(self, actor: str) -> float:
        """The longest write."""
        return max(end - began for began, end, _ in self.written[actor])


@pytest.mark.parametrize("held_by", ["nothing", "a turn", "a deactivation"])
def test_what_moves_is_not_written_any_more(world: World, held_by: str) -> None:
    """From the word that it goes an actor's writes are refused; those of actors that stay are written.

    While a turn that runs is waited for (2 s), and while any node still lets an actor go, all writes wait:
    none is refused before its actor has gone, and none is written after.
    """
    old, new = (world.add(f"moving-{held_by.split()[-1]}", CONFIG) for _ in range(2))
    world.wake(old)
    gate = Gate()
    if held_by == "a turn":
        old.app.works["Local/held"] = gate
        threading.Thread(target=old.ask, args=("PUT", "Local/held/method/turn")).start()
        gate.await_entry()
    if held_by == "a deactivation":
        old.app.lingers = 1.5 * HELD_SECONDS
    writers = Writers(old)
    try:
        world.wake(new)
        assert until(lambda: any(rows[-1][2] == REFUSED for rows in writers.written.values()), 20)
        time.sleep(HELD_SECONDS)
    finally:
        gate.open()
        writers.stop()
    gone = writers.let_go()
    assert 0 < len(gone) < len(ACTORS)
    for actor in ACTORS:
        statuses = [status for *_, status in writers.written[actor]]
        assert statuses == sorted(statuses)
        assert statuses[-1] == (REFUSED if actor in gone else WRITTEN)
        begun = [began for began, _, status in writers.written[actor] if status == WRITTEN]
        assert all(one < gone.get(actor, one + 1) for one in begun)
        assert (writers.longest(actor) > HELD_SECONDS) == (held_by != "nothing")
        if actor in gone:
            assert write(new, actor) == REFUSED
            wake(new, actor)
            assert write(new, actor) == WRITTEN
    new.stop()
    old.stop()


def test_an_application_that_is_ill_loses_its_actors_without_a_word(world: World) -> None:
    """daprd calls it no more, not even to let go; writes wait until it is well, and are refused then."""
    node = world.join("ill", CONFIG)
    wake(node, "Local/0")
    assert write(node, "Local/0") == WRITTEN
    node.app.is_well = False
    assert until(lambda: is_held(node), 20)
    node.app.is_well = True
    assert until(lambda: not is_held(node), 20)
    assert write(node, "Local/0") == REFUSED
    assert [call.verb for call in node.app.heard("Local/0")] == ["PUT"]
    assert [call.path for call in node.app.calls].count("/dapr/config") == 1
    wake(node, "Local/0")
    assert write(node, "Local/0") == WRITTEN
    node.stop()


def is_held(node: Node) -> bool:
    """Whether a write waits for longer than a second."""
    try:
        node.ask("GET", "Local/0/state/key", patience=1)
    except TimeoutError:
        return True
    return False
