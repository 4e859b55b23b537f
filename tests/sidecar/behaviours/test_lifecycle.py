"""When actors come and go: idle times, and what a node that joins does to turns that run."""

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from tests.http_program import Said
from tests.shown import shows
from tests.sidecar.behaviours.bare import Call, Gate, Node, World
from tests.sidecar.stage import until

ACTORS = 12


@shows("da-00100")
def test_each_type_has_its_own_idle_time(node: Node) -> None:
    """One type goes after the second that counts for all, another after the four of its own."""
    for kind in ("Brief", "Lasting"):
        assert node.ask("PUT", f"{kind}/idle/method/wake").status == 200
    for kind, least, most in (("Brief", 1, 3), ("Lasting", 4, 7)):
        assert until(lambda kind=kind: len(node.app.heard(f"{kind}/idle")) == 2, 15)  # type: ignore[misc]
        woken, gone = node.app.heard(f"{kind}/idle")
        assert (gone.verb, gone.path) == ("DELETE", f"/actors/{kind}/idle")
        assert least - 0.2 <= gone.began - woken.ended <= most


@shows("da-00103")
def test_the_idle_time_counts_from_the_beginning_of_a_turn(node: Node) -> None:
    """daprd 1.18.3 lets an actor go in the middle of a turn that outlasts its idle time.

    The caller is told so, the application is not: the next turn runs beside the old one. It should not be so,
    and it is why a job's idle time is a day.
    """
    gate = Gate()
    node.app.works["Brief/long"] = lambda call: gate(call) if call.what == "method/long" else Said()
    reply = node.ask("PUT", "Brief/long/method/long")
    assert (reply.status, "context canceled" in reply.json["message"]) == (500, True)
    assert node.ask("PUT", "Brief/long/method/next").status == 200
    turn, gone, following = node.app.heard("Brief/long")[:3]
    assert ((gone.verb, following.what), turn.ended) == (("DELETE", "method/next"), 0)
    gate.open()
    assert until(lambda: turn.ended > following.began, 10)


@shows("da-00104")
def test_an_actor_that_went_comes_back_with_its_state(node: Node) -> None:
    """After its deactivation the next call finds what was saved."""
    assert node.ask("PUT", "Brief/again/method/wake").status == 200
    assert node.save("Brief/again", {"key": "key", "value": 7}).status == 204
    assert until(lambda: [call.verb for call in node.app.heard("Brief/again")] == ["PUT", "DELETE"], 15)
    assert node.save("Brief/again", {"key": "key", "value": 8}).status == 400
    assert node.ask("PUT", "Brief/again/method/wake").status == 200
    assert node.ask("GET", "Brief/again/state/key").json == 7


class Moving:
    """Twelve actors in the middle of their first turn on one node, when a second node joins."""

    def __init__(self, world: World, drain: Mapping[str, Any], kind: str = "Moving") -> None:
        config = {"entities": [kind], "actorIdleTimeout": "1h", **drain}
        self.gate = Gate()
        self.replies: dict[str, bytes] = {}
        self.old, self.new = (world.add("moving", config) for _ in range(2))
        world.wake(self.old)
        self.actors = [f"{kind}/{number}" for number in range(ACTORS)]
        self.old.app.works |= dict.fromkeys(self.actors, self._work)
        self._callers = [threading.Thread(target=self._call, args=(one,)) for one in self.actors]
        for caller in self._callers:
            caller.start()
            self.gate.await_entry()
        self._joiner = threading.Thread(target=world.wake, args=(self.new,))
        self._joiner.start()
        assert until(lambda: bool(self.new.app.calls), 30)
        self.joined = self.new.app.calls[0].began

    def _work(self, call: Call) -> Said:
        again = len(self.old.app.heard(call.actor, "method/foo")) > 1
        return Said(body=b"again") if again else self.gate(call)

    def _call(self, actor: str) -> None:
        self.replies[actor] = self.old.ask("PUT", f"{actor}/method/foo").body

    def cut_off(self) -> list[float]:
        """When each turn was taken anew, on either node, in seconds after the second joined."""
        calls = [self._turns(actor)[1:] for actor in self.actors]
        return [one.began - self.joined for turns in calls for one in turns]

    def _turns(self, actor: str) -> list[Call]:
        return [*self.old.app.heard(actor, "method/foo"), *self.new.app.heard(actor, "method/foo")]

    def moved(self) -> list[str]:
        """The actors that the old node was told to let go."""
        return [one for one in self.actors if any(call.verb == "DELETE" for call in self.old.app.heard(one))]

    def end(self) -> None:
        """Lets the turns end, and both nodes go."""
        self.gate.open()
        for thread in (*self._callers, self._joiner):
            thread.join()
        self.new.stop()
        self.old.stop()


@shows("da-00107", "da-00110")
@pytest.mark.parametrize("kind", ["Moving", "Bound"])
def test_a_node_that_joins_cuts_turns_off_after_two_seconds(world: World, kind: str) -> None:
    """All turns of the type, also of actors that stay, are drained, cut off and taken anew.

    So it is by standard, and under the policy of `resiliency.yaml`.

    The application does not hear of it: the old turn still runs beside the new one, which is why a job has a
    lock of its own. An actor that moves is let go by its old node before the new one is called.
    """
    moving = Moving(world, {}, kind)
    try:
        assert until(lambda: len(moving.cut_off()) == ACTORS, 20)
        assert all(1.5 <= moment <= 8 for moment in moving.cut_off())
        assert not any(call.ended for one in moving.actors for call in moving.old.app.heard(one)[:1])
        gone = moving.moved()
        assert 0 < len(gone) < ACTORS
        for actor in gone:
            let_go = next(call for call in moving.old.app.heard(actor) if call.verb == "DELETE")
            assert all(call.began >= let_go.began for call in moving.new.app.heard(actor))
        assert [bool(moving.new.app.heard(one)) for one in moving.actors] == [
            one in gone for one in moving.actors
        ]
    finally:
        moving.end()


@shows("da-00108")
def test_a_turn_within_the_drain_time_ends(world: World) -> None:
    """Five seconds of drain, and turns that end after one: no turn is taken anew."""
    moving = Moving(world, {"drainRebalancedActors": True, "drainOngoingCallTimeout": "5s"})
    try:
        assert not until(lambda: bool(moving.cut_off()), 1)
        moving.gate.open()
        assert until(lambda: len(moving.replies) == ACTORS, 20)
        assert moving.cut_off() == []
        assert until(lambda: bool(moving.moved()), 20)
    finally:
        moving.end()


@shows("da-00109")
def test_without_drain_turns_are_cut_off_at_once(world: World) -> None:
    """Also where a long time is configured."""
    moving = Moving(world, {"drainRebalancedActors": False, "drainOngoingCallTimeout": "20s"})
    try:
        assert until(lambda: len(moving.cut_off()) == ACTORS, 15)
        assert all(moment <= 10 for moment in moving.cut_off())
    finally:
        moving.end()
