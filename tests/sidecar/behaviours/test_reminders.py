"""Reminders of the scheduler service: what is taken, what is refused, when and how often they come."""

import base64
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pytest
from dapr.proto import api_v1

from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE, ALARM, Sidecar
from scheduler_service.hosts.dapr.sidecar_client import SidecarClient
from tests.shown import shows
from tests.sidecar.behaviours.bare import Gate, Node
from tests.sidecar.stage import until

# What is registered → the moments (s after registration) at which it must come.
SCHEDULES: Mapping[str, tuple[Mapping[str, str], tuple[float, ...]]] = {
    "0ms": ({"dueTime": "0ms"}, (0,)),
    "0s": ({"dueTime": "0s"}, (0,)),
    "five": ({"dueTime": "1s", "period": "R5/PT1S"}, (1, 2, 3, 4, 5)),
    "two": ({"period": "R2/PT1S"}, (1, 2)),
    "living": ({"dueTime": "1s", "period": "R6/PT1S", "ttl": "20s"}, (1, 2, 3, 4, 5, 6)),
    "dying": ({"dueTime": "3s", "period": "1s", "ttl": "2500ms"}, (3, 4, 5)),
}
LAST = 8.0

# What is registered → a word of the refusal.
REFUSED: Mapping[str, tuple[Mapping[str, str], str]] = {
    "no-period": ({"period": "invalid"}, ""),
    "a-day": ({"period": "P1D"}, "unsupported"),
    "a-week": ({"period": "P1W"}, "unsupported"),
    "a-month": ({"period": "P1M"}, "unsupported"),
    "over": ({"dueTime": "2s", "period": "1s", "ttl": "2000-01-01T00:00:00Z"}, "ttl"),
}


@pytest.fixture(scope="module")
def began(node: Node) -> float:
    """When all the schedules were registered."""
    start = time.monotonic()
    for name, (reminder, _) in SCHEDULES.items():
        node.remind(f"Plain/schedule-{name}", "tick", **reminder)
    return start


@shows("da-00007", "da-00009")
def test_data_arrive_as_they_were_given(node: Node) -> None:
    """JSON as JSON, bytes in base64; without data there is no such member."""
    node.remind("Plain/data", "bare", dueTime="0s")
    node.remind("Plain/data", "json", dueTime="0s", data={"a": [1]})
    data = base64.b64encode(b"\x00\xff").decode()
    node.over_grpc(lambda client: _remind(client, "Plain", "data", "bytes", data=data))
    assert until(lambda: len(node.app.heard("Plain/data")) == 3, 20)
    found = {call.what.rsplit("/", 1)[1]: call.json for call in node.app.heard("Plain/data")}
    assert "data" not in found["bare"]
    assert (found["json"]["data"], found["bytes"]["data"]) == ({"a": [1]}, data)
    assert {(one["dueTime"], one["period"]) for one in found.values()} == {("", "")}


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


@shows("da-00049", "da-00051", "da-00053", "da-00054", "da-00061")
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_kept(node: Node, began: float, name: str) -> None:
    """Each moment once, none early; repetitions end by count, or by a ttl, which runs from the due time."""
    moments = SCHEDULES[name][1]
    assert until(lambda: len(node.app.heard(f"Plain/schedule-{name}")) >= len(moments), 25)
    assert until(lambda: time.monotonic() > began + LAST, LAST)
    calls = node.app.heard(f"Plain/schedule-{name}")
    assert len(calls) == len(moments)
    assert all(call.began >= began + moment - 0.005 for call, moment in zip(calls, moments, strict=True))


@shows("da-00056", "da-00057", "da-00060")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_refused(node: Node, name: str) -> None:
    """An error that says why, and nothing stored: which is why the product computes every moment itself."""
    reminder, word = REFUSED[name]
    reply = node.ask("POST", f"Plain/refused-{name}/reminders/tick", reminder)
    assert reply.status >= 400
    assert word in reply.json["message"]
    assert _names(node, "Plain", f"refused-{name}") == []
    assert node.app.heard(f"Plain/refused-{name}") == []


@shows("da-00055")
def test_no_repetition_at_all_is_refused_for_a_timer_only(node: Node) -> None:
    """A timer is refused; of a reminder daprd 1.18.3 reads "no count" and repeats it without end.

    Without an interval it would be an endless loop. The product registers reminders without a period.
    """
    assert node.ask("PUT", "Plain/zero/method/wake").status == 200
    for period in ("R0/PT1S", "R0"):
        reply = node.ask("POST", "Plain/zero/timers/tick", {"period": period})
        assert (reply.status, "zero repetitions" in reply.json["message"]) == (500, True)
    node.remind("Plain/zero", "tick", dueTime="0s", period="R0/PT1S")
    assert until(lambda: len(node.app.heard("Plain/zero", "method/remind/tick")) >= 2, 10)
    assert node.ask("DELETE", "Plain/zero/reminders/tick").status == 204


@shows("da-00063")
def test_what_must_not_be_replaced_is_not(node: Node) -> None:
    """`overwrite: false` answers 409 and leaves what there is; without it the later one counts."""
    node.remind("Plain/kept", "tick", dueTime="1h", data="old")
    reply = node.ask(
        "POST", "Plain/kept/reminders/tick", {"dueTime": "0s", "data": "new", "overwrite": False}
    )
    assert (reply.status, reply.json["errorCode"]) == (409, "ERR_ACTOR_REMINDER_ALREADY_EXISTS")
    assert "tick" in reply.json["message"]
    assert node.ask("GET", "Plain/kept/reminders/tick").json["data"] == "old"
    node.remind("Plain/kept", "tick", dueTime="0s", data="newer")
    assert until(lambda: bool(node.app.heard("Plain/kept")), 20)
    assert [call.json["data"] for call in node.app.heard("Plain/kept")] == ["newer"]


@shows("da-00067")
def test_a_list_has_whole_types_and_whole_ids(node: Node) -> None:
    """Listed and removed by type, or by type and id; an id is no prefix of another."""
    for actor in ("Lasting/abc-", "Lasting/abc-1", "Chained/abc-"):
        for name in ("one", "two"):
            node.remind(actor, name, dueTime="1h")
    assert _names(node, "Lasting", "abc-") == ["one", "two"]
    assert _names(node, "Lasting", None) == ["one", "one", "two", "two"]
    _remove(node, "Lasting", "abc-")
    assert (_names(node, "Lasting", "abc-"), _names(node, "Lasting", "abc-1")) == ([], ["one", "two"])
    _remove(node, "Lasting", None)
    assert (_names(node, "Lasting", None), _names(node, "Chained", "abc-")) == ([], ["one", "two"])


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


async def _remind(client: SidecarClient, kind: str, actor_id: str, name: str, *, data: str) -> None:
    request = api_v1.RegisterActorReminderRequest(
        actor_type=kind, actor_id=actor_id, name=name, due_time="0s", data=base64.b64decode(data)
    )
    await client._stub.RegisterActorReminder(request)


def _names(node: Node, kind: str, actor_id: str | None) -> list[str]:
    """The names of the reminders that daprd lists, in order."""

    async def ask(client: SidecarClient) -> Any:
        request = api_v1.ListActorRemindersRequest(actor_type=kind, actor_id=actor_id)
        return await client._stub.ListActorReminders(request)

    return sorted(one.name for one in node.over_grpc(ask).reminders)


def _remove(node: Node, kind: str, actor_id: str | None) -> None:
    async def ask(client: SidecarClient) -> Any:
        request = api_v1.UnregisterActorRemindersByTypeRequest(actor_type=kind, actor_id=actor_id)
        return await client._stub.UnregisterActorRemindersByType(request)

    node.over_grpc(ask)
