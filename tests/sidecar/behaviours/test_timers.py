"""Timers of the sidecar. The product sets none: its own wait in its process (DAPR)."""

import time
from itertools import pairwise

from tests.shown import shows
from tests.sidecar.behaviours.bare import Answer, Call, Gate, Node
from tests.sidecar.stage import until

EARLY = 0.005


@shows("da-00004", "da-00005", "da-00007")
def test_a_timer_calls_by_its_own_name(node: Node) -> None:
    """The path has its name; callback, times and data are in the body, data only where there are any."""
    node.time("Plain/timed", "bare", dueTime="100ms", period="60s")
    node.time("Plain/timed", "full", dueTime="100ms", period="60s", callback="mycallback", data={"a": 1})
    assert until(lambda: len(node.app.heard("Plain/timed")) == 4, 20)
    (bare,) = node.app.heard("Plain/timed", "method/timer/bare")
    (full,) = node.app.heard("Plain/timed", "method/timer/full")
    assert (bare.verb, bare.path) == ("PUT", "/actors/Plain/timed/method/timer/bare")
    assert bare.json == {"callback": "", "dueTime": "100ms", "period": "60s"}
    assert full.json == {"callback": "mycallback", "data": {"a": 1}, "dueTime": "100ms", "period": "60s"}
    for name in ("bare", "full"):
        assert node.ask("DELETE", f"Plain/timed/timers/{name}").status == 204


@shows("da-00026")
def test_a_timer_waits_for_the_turn_before_it(node: Node) -> None:
    """Two timers of one actor: the second is neither dropped nor early."""
    gate = Gate()
    node.app.works["Plain/queue"] = lambda call: gate(call) if call.what.endswith("/first") else Answer()
    assert node.ask("PUT", "Plain/queue/method/wake").status == 200
    for name, due in (("first", "0s"), ("second", "200ms")):
        assert node.ask("POST", f"Plain/queue/timers/{name}", {"dueTime": due}).status == 204
    gate.await_entry()
    assert not until(lambda: bool(node.app.heard("Plain/queue", "method/timer/second")), 1.5)
    gate.open()
    assert until(lambda: len(node.app.heard("Plain/queue", "method/timer/second")) == 1, 10)
    _, first, second = node.app.heard("Plain/queue")
    assert second.began >= first.ended
    assert not until(lambda: len(node.app.heard("Plain/queue")) > 3, 0.5)


@shows("da-00040")
def test_a_removed_timer_is_silent(node: Node) -> None:
    """204, and no call in two seconds."""
    node.time("Plain/removed", "tick", dueTime="0s", period="200ms")
    assert until(lambda: len(node.app.heard("Plain/removed", "method/timer/tick")) >= 2, 10)
    assert node.ask("DELETE", "Plain/removed/timers/tick").status == 204
    count = len(node.app.heard("Plain/removed"))
    assert not until(lambda: len(node.app.heard("Plain/removed")) > count + 1, 2)


@shows("da-00043")
def test_a_slow_callback_never_meets_itself(node: Node) -> None:
    """The next tick comes when the callback has returned; ticks keep to the schedule, not to its end."""

    def work(call: Call) -> Answer:
        time.sleep(0.7)
        return Answer()

    node.time("Plain/slow", "tick", dueTime="500ms", period="500ms")
    node.app.works["Plain/slow"] = work
    assert until(lambda: len(node.app.heard("Plain/slow", "method/timer/tick")) >= 5, 20)
    node.ask("DELETE", "Plain/slow/timers/tick")
    calls = node.app.heard("Plain/slow", "method/timer/tick")[:4]
    assert all(after.began >= before.ended > 0 for before, after in pairwise(calls))
    assert calls[3].began - calls[0].began < 3 * 1.2  # a period after each callback's end would be later


@shows("da-00044", "da-00045")
def test_a_parked_tick_goes_with_its_timer(node: Node) -> None:
    """A tick that waits behind a slow turn is dropped when its timer is replaced or removed meanwhile."""
    gate = Gate()
    actor = "Plain/parked"
    assert node.ask("PUT", f"{actor}/method/wake").status == 200
    node.app.works[actor] = lambda call: gate(call) if call.what.endswith("/first") else Answer()
    for name, due in (("first", "0s"), ("replaced", "100ms"), ("removed", "100ms")):
        assert node.ask("POST", f"{actor}/timers/{name}", {"dueTime": due, "data": "old"}).status == 204
    gate.await_entry()
    assert not until(lambda: len(node.app.heard(actor)) > 2, 0.6)
    assert node.ask("POST", f"{actor}/timers/replaced", {"dueTime": "1s", "data": "new"}).status == 204
    assert node.ask("DELETE", f"{actor}/timers/removed").status == 204
    gate.open()
    assert until(lambda: bool(node.app.heard(actor, "method/timer/replaced")), 10)
    assert not until(lambda: len(node.app.heard(actor)) > 3, 0.5)
    assert [call.json["data"] for call in node.app.heard(actor, "method/timer/replaced")] == ["new"]
    assert node.app.heard(actor, "method/timer/removed") == []


@shows("da-00047")
def test_parts_of_a_second_count(node: Node) -> None:
    """Timers and reminders of 1.5 s and 2.5 s, late in a second: never early, not by a part of a second."""
    assert node.ask("PUT", "Plain/parts/method/wake").status == 200
    assert until(lambda: time.time() % 1 > 0.8, 2)
    began = time.monotonic()
    for due in ("1500ms", "2.5s"):
        node.remind("Plain/parts", f"r{due}", dueTime=due)
        assert node.ask("POST", f"Plain/parts/timers/t{due}", {"dueTime": due}).status == 204
    assert until(lambda: len(node.app.heard("Plain/parts")) == 5, 20)
    for due, length in (("1500ms", 1.5), ("2.5s", 2.5)):
        for what in (f"method/remind/r{due}", f"method/timer/t{due}"):
            (call,) = node.app.heard("Plain/parts", what)
            assert call.began - began >= length - EARLY
