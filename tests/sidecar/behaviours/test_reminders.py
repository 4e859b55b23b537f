"""Reminders of the scheduler service: what is taken, what is refused, when and how often they come."""

from urllib.parse import quote

from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE, ALARM, Sidecar
from tests.shown import shows
from tests.sidecar.behaviours.bare import Gate, Node
from tests.sidecar.stage import until


@shows("da-00007")
def test_the_alarm_of_a_job_brings_what_the_stand_in_brings(node: Node) -> None:
    """The product's own registration, as it rings: no data, no times."""
    node.over_grpc(lambda client: Sidecar(client=client).remind("ringing", 100))
    assert until(lambda: bool(node.app.heard(f"{ACTOR_TYPE}/ringing", f"method/remind/{ALARM}")), 20)
    (call,) = node.app.heard(f"{ACTOR_TYPE}/ringing")
    assert call.json == {"dueTime": "", "period": ""}


@shows("da-00027")
def test_a_reminder_waits_for_the_turn_before_it(node: Node) -> None:
    """Two seconds behind a slow callback: no second delivery, then exactly one."""
    gate = Gate()
    node.app.works["Plain/busy"] = gate
    node.remind("Plain/busy", "first", dueTime="0s")
    gate.await_entry()
    node.remind("Plain/busy", "second", dueTime="0s")
    assert not until(lambda: len(node.app.heard("Plain/busy")) > 1, 2)
    gate.open()
    assert until(lambda: len(node.app.heard("Plain/busy")) == 2, 10)
    first, second = node.app.heard("Plain/busy")
    assert second.began >= first.ended
    assert not until(lambda: len(node.app.heard("Plain/busy")) > 2, 1)


@shows("da-00082")
def test_a_reminder_wakes_its_actor(node: Node) -> None:
    """Nobody has called it before: the first call is the reminder's."""
    node.remind("Plain/asleep", "tick", dueTime="100ms")
    assert until(lambda: bool(node.app.heard("Plain/asleep")), 20)
    assert [call.what for call in node.app.heard("Plain/asleep")] == ["method/remind/tick"]


@shows("da-00084")
def test_odd_names_arrive_whole(node: Node) -> None:
    """Names and ids with the signs that Dapr itself puts between parts of a key."""
    name, actor = "remind|me@now", "a||b"
    node.remind(f"Plain/{quote(actor)}", quote(name), dueTime="0s")
    assert until(lambda: bool(node.app.heard(f"Plain/{actor}")), 20)
    assert [call.what for call in node.app.heard(f"Plain/{actor}")] == [f"method/remind/{name}"]
