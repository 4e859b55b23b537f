"""Reminders whose callback fails, and what becomes of reminders while programs are away."""

from itertools import pairwise

import pytest

from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE, ALARM, Sidecar
from tests.http_program import Said
from tests.shown import shows
from tests.sidecar.behaviours.bare import Call, Node, Work, World
from tests.sidecar.stage import until

EXACT = 0.3


@pytest.fixture(scope="module")
def failing(node: Node) -> Node:
    """All the reminders that fail, registered at once, so that their waits run side by side."""
    node.app.works["Plain/standard"] = lambda _: Said(500)
    node.app.works["Plain/nowhere"] = lambda _: Said(404)
    node.app.works[f"{ACTOR_TYPE}/stubborn"] = fail_first(2)
    for name in ("standard", "nowhere"):
        node.remind(f"Plain/{name}", "tick", dueTime="0s")

    node.over_grpc(lambda client: Sidecar(client=client).remind("stubborn", 0))
    return node


@shows("da-00071")
@pytest.mark.parametrize("name", ["standard", "nowhere"])
def test_a_failure_is_tried_three_times_more(failing: Node, name: str) -> None:
    """Whatever the status, 404 too: a second apart, then the tick of a one-shot is gone for good."""
    assert until(lambda: len(failing.app.heard(f"Plain/{name}")) == 4, 20)
    assert not until(lambda: len(failing.app.heard(f"Plain/{name}")) > 4, 2)
    gaps = _gaps(failing.app.heard(f"Plain/{name}"))
    assert all(gap > 1 - EXACT for gap in gaps), gaps


@shows("da-00071")
def test_the_alarm_of_a_job_is_tried_again_every_five_seconds(failing: Node) -> None:
    """The policy with which the product registers; after a success there is no more of it."""
    heard = f"{ACTOR_TYPE}/stubborn"
    assert until(lambda: len(failing.app.heard(heard, f"method/remind/{ALARM}")) == 3, 30)
    gaps = _gaps(failing.app.heard(heard))
    assert all(gap > 5 - EXACT for gap in gaps), gaps
    assert failing.ask("GET", f"{heard}/reminders/{ALARM}").status >= 400


@shows("da-00078", "da-00080", "da-00081")
def test_reminders_outlive_their_host(world: World) -> None:
    """A host goes after the first of two ticks (3 s), another one comes after the second was due (6 s).

    Each second tick is delivered once, a reminder that became due while nobody served its type too; one that
    was removed never comes.
    """
    old = world.join("fleeting", {"entities": ["Fleeting"]})
    for number in range(20):
        old.remind(f"Fleeting/{number}", "tick", period="R2/PT3S")
    for name in ("due", "removed"):
        old.remind(f"Fleeting/{name}", "tick", dueTime="5s")
    assert old.ask("DELETE", "Fleeting/removed/reminders/tick").status == 204
    assert until(lambda: all(old.app.heard(f"Fleeting/{number}") for number in range(20)), 20)
    old.stop()
    assert not until(lambda: False, 3.5)
    new = world.join("fleeting", {"entities": ["Fleeting"]})
    actors = [f"Fleeting/{number}" for number in range(20)]
    assert until(lambda: all(new.app.heard(actor) for actor in [*actors, "Fleeting/due"]), 30)
    assert not until(lambda: False, 3.5)
    for host in (old, new):
        assert [len(host.app.heard(actor, "method/remind/tick")) for actor in actors] == [1] * 20
    assert (len(new.app.heard("Fleeting/due")), old.app.heard("Fleeting/due")) == (1, [])
    assert old.app.heard("Fleeting/removed") == new.app.heard("Fleeting/removed") == []
    new.stop()


@shows("da-00079")
def test_reminders_go_on_after_the_scheduler_service(world: World, node: Node) -> None:
    """It stops and starts again: within 15 s the reminders come."""
    node.remind("Plain/going-on", "tick", dueTime="0s", period="1s")
    assert until(lambda: len(node.app.heard("Plain/going-on")) >= 2, 20)
    world.cluster.scheduler.stop()
    world.cluster.scheduler.start()
    assert world.cluster.scheduler.wait()
    count = len(node.app.heard("Plain/going-on"))
    assert until(lambda: len(node.app.heard("Plain/going-on")) >= count + 2, 15)
    assert until(lambda: node.ask("DELETE", "Plain/going-on/reminders/tick").status == 204, 20)


def fail_first(times: int) -> Work:
    """Work that fails so often, and then succeeds."""
    left = [500] * times

    def work(call: Call) -> Said:
        return Said(left.pop() if left else 200)

    return work


def _gaps(calls: list[Call]) -> list[float]:
    """Seconds from the end of each call to the beginning of the next."""
    return [after.began - before.ended for before, after in pairwise(calls)]
