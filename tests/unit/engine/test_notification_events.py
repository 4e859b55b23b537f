"""Notifications: events, keys, bodies, dedupe (SPEC section 7)."""

from typing import Any

from scheduler_service.domain.document import Document
from scheduler_service.domain.records import DeliveryRecord, Noted
from scheduler_service.domain.turn_events import CancelRequested, FeedbackArrived, Triggered
from scheduler_service.domain.wire import FaultKind
from scheduler_service.engine.feedback_url import feedback_token
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import Rig

EVERY = [{"url": "http://caller.test/told"}]


def triggered(**members: Any) -> Rig:
    """A job with its first execution in its first step."""
    return Rig(**members).triggered()


def test_synchronous_success() -> None:
    """The answer that ends the attempt is notified with its status, then the end."""
    rig = triggered(notification=EVERY)
    rig.answer(201, {"rows": 3})
    (answer, told), (final, last) = rig.told()
    assert (answer, final) == ("201", "finalSucceed")
    assert told["httpStatus"] == "201"
    assert (told["jobId"], told["executeNumber"], told["requestCounts"]) == ("job", 1, 1)
    assert told["response"] == {
        "status": "succeed",
        "message": None,
        "error": None,
        "progress": None,
        "datetime": "2023-11-14 22:13:20",
        "data": {"rows": 3},
    }
    assert last["response"] == {**told["response"], "status": "finalSucceed"}
    # A JSON object with a member status is passed through; of the six members none is missing
    own = {"status": "odd", "rows": [1], "message": "half done"}
    rig = triggered(notification=EVERY)
    rig.answer(200, own)
    (_, told), (_, last) = rig.told()
    assert told["response"] == NOTHING_GIVEN | own
    assert last["response"] == NOTHING_GIVEN | own | {"status": "finalSucceed"}
    # RFC 9457 says them in `detail`: they are the message, unless the target gave one (SPEC section 7)
    problem = {"type": "about:blank", "status": 503, "detail": "the warehouse is on fire"}
    for own, message in ((problem, problem["detail"]), (problem | {"message": "fire"}, "fire")):
        rig = triggered(notification=[{"url": "http://caller.test/"}])
        rig.answer(503, own)
        assert rig.told()[0][1]["response"] == NOTHING_GIVEN | own | {"message": message}


NOTHING_GIVEN = dict.fromkeys(("status", "message", "error", "progress", "datetime", "data"))


def test_a_report_without_members_is_told_with_all_six() -> None:
    """A check or a feedback gives what it likes; what it leaves out is null (SPEC section 7)."""
    members: dict[str, Any] = {"async": True, "notification": EVERY, "timeoutSeconds": 600}
    rig = triggered(**members)
    rig.answer(200)
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {}))
    polled = triggered(**members, checkUrl="http://target.test/state")
    polled.answer(200)
    polled.pass_time(1_000)
    polled.answer(200, {"status": "succeed", "rows": 7})
    running, done = rig.told()[0][1]["response"], [told["response"] for _, told in polled.told()]
    assert running == NOTHING_GIVEN | {"status": ""}
    assert done == [NOTHING_GIVEN | {"status": status, "rows": 7} for status in ("succeed", "finalSucceed")]


def test_failure_is_told_by_its_status() -> None:
    """A failing answer is notified with its status, a missing one as 500; finalFailed follows."""
    rig = triggered(notification=EVERY)
    rig.answer(404, b"gone")
    assert [event for event, _ in rig.told()] == ["404", "finalFailed"]
    response = rig.told()[0][1]["response"]
    assert (response["status"], response["error"], response["data"]) == ("failed", "404", "gone")
    other = triggered(notification=EVERY)
    other.fault()
    assert [event for event, _ in other.told()] == ["500", "finalFailed"]
    # The end of each attempt is notified; the final event only when the execution ends
    rig = triggered(notification=EVERY, retry=[{"errorEquals": "500", "maxAttempts": 1}])
    rig.answer(500)
    rig.pass_time(1_000)
    rig.answer(200)
    assert [event for event, _ in rig.told()] == ["500", "200", "finalSucceed"]
    assert [one.ordinal for one in rig.deliveries()] == [0, 1, 2]


@each_row(
    ("wanted", "events"),
    [("", 2), ("200", 1), (["finalSucceed", "404"], 1), ("404", 0), ([], 2)],
)
def test_state_equals_chooses(wanted: Any, events: int) -> None:
    """Empty or absent `stateEquals` matches every event; a list any of its members."""
    rig = triggered(notification=[{"url": "http://caller.test/", "stateEquals": wanted}])
    rig.answer(200)
    assert len(rig.told()) == events


def test_checks_and_feedback_are_told() -> None:
    """running: inprogress; failed: its error, else failed; succeed: succeed."""
    members: dict[str, Any] = {"async": True, "notification": EVERY, "timeoutSeconds": 600}
    rig = triggered(**members)
    rig.answer(200)
    token = feedback_token(b"key", "uid", 1)
    for body in ({"progress": "1/2"}, {"status": "failed", "error": "e1"}):
        rig.deliver(FeedbackArrived(1, token, body))
    assert [event for event, _ in rig.told()] == ["inprogress", "e1", "finalFailed"]
    assert rig.told()[0][1]["httpStatus"] == "200"
    assert rig.told()[2][1]["response"] == NOTHING_GIVEN | {"status": "finalFailed", "error": "e1"}
    polled = triggered(**members, checkUrl="http://target.test/state")
    polled.answer(200)
    polled.pass_time(1_000)
    polled.answer(200, {"status": "succeed", "message": "done"})
    assert [event for event, _ in polled.told()] == ["succeed", "finalSucceed"]


def test_on_change_is_told_once() -> None:
    """`dedupe: onChange` sends only when status, error or progress changed; the end is always notified."""
    entry = {"url": "http://caller.test/", "dedupe": "onChange"}
    rig = triggered(**{"async": True}, notification=[entry, EVERY[0]], checkUrl="http://target.test/s")
    rig.answer(200)
    for progress in ("1/3", "1/3", "2/3"):
        rig.pass_time(1_000)
        rig.answer(200, {"progress": progress})
    rig.pass_time(1_000)
    rig.answer(200, {"status": "succeed", "progress": "2/3"})
    told = [one.event for one in rig.deliveries() if one.request.url == "http://caller.test/"]
    assert told == ["inprogress", "inprogress", "succeed", "finalSucceed"]
    assert len(rig.deliveries()) == 4 + 5


def test_timeouts_are_told() -> None:
    """An asynchronous attempt over its limit is notified as timeout, a synchronous one as 500."""
    asynchronous = triggered(**{"async": True}, notification=EVERY, timeoutSeconds=5)
    asynchronous.pass_time(5_000)
    assert [event for event, _ in asynchronous.told()] == ["timeout", "finalFailed"]
    synchronous = triggered(notification=EVERY, timeoutSeconds=5)
    synchronous.pass_time(5_000)
    assert [event for event, _ in synchronous.told()] == ["500", "finalFailed"]
    # A connection failure is no timeout: only a timeout goes to an entry that names `timeout`
    rig = triggered(notification=[{"url": "http://caller.test/", "stateEquals": "timeout"}])
    rig.fault(FaultKind.CONNECT)
    assert rig.told() == []


def test_cancelled_is_told_as_failed() -> None:
    """An execution that is cancelled ends with finalFailed and the error cancelled, also while it waits."""
    rig = triggered(notification=EVERY, overlapPolicy="queue")
    rig.deliver(Triggered())
    rig.deliver(CancelRequested(2, "not wanted"))
    rig.deliver(CancelRequested(1))
    assert [event for event, _ in rig.told()] == ["finalFailed", "finalFailed"]
    assert {body["response"]["error"] for _, body in rig.told()} == {"cancelled"}
    assert {one.execute_number for one in rig.deliveries()} == {1, 2}
    # With its own status, and with the error that ended it
    rig = triggered(notification=EVERY, retry=[{"errorEquals": "500", "intervalSeconds": 60}])
    rig.answer(500, b"down")
    rig.deliver(CancelRequested(1))
    (_, told), (final, last) = rig.told()
    assert final == "finalFailed"
    assert last["response"] == {**told["response"], "status": "finalFailed", "error": "cancelled"}


def test_own_body_and_headers() -> None:
    """An entry's own body and headers are templates like a step's."""
    entry = {
        "url": "http://caller.test/${schedulingJobId}?executeNumber=${schedulingExecuteNumber}",
        "method": "PUT",
        "headers": {"X-Name": "${$.name}"},
        "body": {"said": "${schedulingNotifyBody}|json"},
        "stateEquals": "finalSucceed",
    }
    rig = triggered(notification=[entry])
    rig.answer(200, {"name": "n"})
    request = rig.deliveries()[0].request
    assert (request.method, request.url) == ("PUT", "http://caller.test/job?executeNumber=1")
    assert ("X-Name", "n") in request.headers
    assert rig.told()[0][1]["said"]["response"]["status"] == "finalSucceed"
    # A notification whose template finds nothing is not sent, and the log says so
    rig = triggered(notification=[{"url": "http://caller.test/${$.nobody}"}])
    rig.answer(200, {})
    assert rig.told() == []
    assert "template" in rig.of(Noted, rig.records)[0].text
    failed = rig.of(DeliveryRecord, rig.records)
    assert [(one.event, one.state) for one in failed] == [("200", "failed"), ("finalSucceed", "failed")]
    assert "${$.nobody}" in (failed[0].tries[0].fault or "")


@each_row(("qos", "guarantee", "durable"), [(0, "none", False), (0, "outbox", True), (1, "none", True)])
def test_durability_of_a_delivery(qos: int, guarantee: str, durable: bool) -> None:
    """With qos 1, or an outbox of its own, a delivery is durable and ends in the outbox."""
    rig = triggered(qos=qos, notification=[{"url": "http://caller.test/", "guarantee": guarantee}])
    rig.answer(200)
    assert {(one.durable, one.outbox) for one in rig.deliveries()} == {(durable, durable)}


def test_a_delivery_names_the_tenant_of_its_job() -> None:
    """Everything belongs to exactly one tenant (SPEC section 1)."""
    rig = Rig(Surroundings(tenant="acme"), notification=[{"url": "http://caller.test/"}]).triggered()
    rig.answer(200)
    assert {one.tenant for one in rig.deliveries()} == {"acme"}


@each_row(
    ("wanted", "events"),
    [
        (["timeout"], 1),
        ([["timeout", "finalFailed"]], 2),
        (["500"], 1),
        ([["500", "timeout"]], 1),
        (["timeout", "500"], 1),
        (["", "timeout"], 3),
        (["404"], 0),
    ],
)
@each_row("how", ["limit", "call"])
def test_a_timeout_that_is_500_finds_who_names_timeout(wanted: list[Any], events: int, how: str) -> None:
    """Where none names 500, those that name `timeout` are told, one without keys once (SPEC section 5)."""
    entries = [{"url": "http://caller.test/", "stateEquals": keys} for keys in wanted]
    rig = triggered(notification=entries, timeoutSeconds=5)
    if how == "limit":
        rig.pass_time(5_000)
    else:
        rig.fault(FaultKind.TIMEOUT)
    assert len(rig.told()) == events
    assert {body["httpStatus"] for _, body in rig.told()} <= {"500"}


def test_http_status_is_the_checks() -> None:
    """`httpStatus` is the answer's, the check's, 200 for feedback, 500 where there was none."""
    rig = triggered(**{"async": True}, notification=EVERY, checkUrl="http://target.test/s")
    rig.answer(200)
    rig.pass_time(1_000)
    rig.answer(206, {"progress": "1/2"})
    for _ in range(3):
        rig.pass_time(1_000)
        rig.answer(503, b"busy")
    told = rig.told()
    assert [(event, body["httpStatus"]) for event, body in told] == [
        ("inprogress", "206"),
        ("check", "503"),
        ("finalFailed", "503"),
    ]
    assert told[1][1]["response"]["error"] == "check"


def test_status_is_one_of_the_known_words() -> None:
    """`success` is notified as `succeed`, running as an empty status; the rest is unchanged."""
    rig = triggered(**{"async": True}, notification=EVERY, checkUrl="http://target.test/s")
    rig.answer(200)
    for body in ({"progress": "1/2", "own": 1}, {"status": "success", "datetime": "then"}):
        rig.pass_time(1_000)
        rig.answer(200, body)
    responses = [body["response"] for _, body in rig.told()]
    assert responses == [
        NOTHING_GIVEN | {"progress": "1/2", "own": 1, "status": ""},
        NOTHING_GIVEN | {"status": "succeed", "datetime": "then"},
        NOTHING_GIVEN | {"status": "finalSucceed", "datetime": "then"},
    ]


def test_an_end_without_its_context_is_numbered_anew() -> None:
    """The final event of an execution whose context is gone never takes the number of one on its way."""
    rig = triggered(notification=EVERY, retry=[{"errorEquals": "500"}])
    rig.answer(500)
    before = {one.delivery_id for one in rig.deliveries()}
    rig.document = Document(rig.head, {})
    rig.deliver(CancelRequested(1))
    assert rig.deliveries()[-1].event == "finalFailed"
    assert rig.deliveries()[-1].delivery_id not in before
    # The last event is kept while its execution goes on, up to 64 KiB
    rig = polled()
    rig.deliver(CancelRequested(1))
    (_, running), (_, last) = rig.told()
    assert last["response"] == running["response"] | {"status": "finalFailed", "error": "cancelled"}
    assert last["response"]["data"] == LONG
    assert not any("last event" in one.text for one in rig.of(Noted, rig.records))


def test_datetime_is_of_the_default_zone() -> None:
    """Made by us it is `YYYY-MM-DD HH:MM:SS` in the default zone."""
    rig = Rig(Surroundings(default_zone="Asia/Shanghai"), notification=EVERY).triggered()
    rig.answer(200)
    assert rig.told()[0][1]["response"]["datetime"] == "2023-11-15 06:13:20"


LONG = "x" * 10_000


def polled(*, is_full: bool = False, **members: Any) -> Rig:
    """An asynchronous job after a check with long members that said that it runs."""
    rig = Rig(**{"async": True}, notification=EVERY, checkUrl="http://target.test/s").create()
    rig.is_full = is_full
    rig.deliver(Triggered())
    rig.answer(200)
    rig.pass_time(1_000)
    rig.answer(200, {"progress": "1/3", "data": LONG, "rows": [1]} | members)
    return rig


@each_row(("is_full", "data"), [(True, LONG), (False, "x" * 70_000)])
def test_a_large_event_is_kept_without_what_is_long(is_full: bool, data: str) -> None:
    """What is sent at once is whole; the end repeats the six that fit, and others. The log says so once."""
    more = {f"m{number}": "y" * 100 for number in range(100)}
    rig = polled(is_full=is_full, **{"a": "first", "data": data, **more})
    for _ in range(3):
        rig.pass_time(1_000)
        rig.answer(200, {"a": "first", "progress": "2/3", "message": "on its way", "data": data})
    assert rig.told()[0][1]["response"]["data"] == rig.told()[-1][1]["response"]["data"] == data
    (noted,) = [one for one in rig.of(Noted, rig.records) if "last event" in one.text]
    assert "limits.open_bytes" in noted.text
    rig.deliver(CancelRequested(1))
    assert rig.told()[-1][1]["response"] == {
        "status": "finalFailed", "message": "on its way", "error": "cancelled", "progress": "2/3",
        "datetime": None, "data": None, "a": "first",
    }  # fmt: skip


def test_what_is_kept_where_room_is_scarce_has_a_size() -> None:
    """However many members a target gives: 4 KiB in all, the six first."""
    rig = polled(is_full=True, message="said", **{f"m{number}": "y" * 100 for number in range(100)})
    told = rig.document.contexts[1].told
    assert told is not None
    assert 3_500 < len(told.response) <= 4_096
    rig.deliver(CancelRequested(1))
    response = rig.told()[-1][1]["response"]
    assert (response["message"], response["progress"]) == ("said", "1/3")
    assert "m0" in response
    assert "m99" not in response
    # Nothing of it is kept then
    rig = polled(is_full=True)
    rig.pass_time(1_000)
    rig.answer(200, {"status": "succeed", "data": LONG})
    assert rig.told()[-1][1]["response"]["status"] == "finalSucceed"
    assert rig.told()[-1][1]["response"]["data"] == LONG
    # The first request cannot be made, and the execution is cancelled before it is retried
    step = {"url": "http://target.test/", "body": "${$.gone}"}
    rig = Rig(timer={}, request=[step], notification=EVERY, retry=[{"errorEquals": "*", "maxAttempts": 2}])
    rig.create()
    ((_, failed),) = rig.told()
    assert "gone" in failed["response"]["message"]
    rig.deliver(CancelRequested(1))
    last = rig.told()[-1][1]["response"]
    assert last == failed["response"] | {"status": "finalFailed", "error": "cancelled"}
