"""The verdict of a check or of feedback replaces an answer (SPEC section 5)."""

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.document import Report
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, CheckEnded, FeedbackSeen
from scheduler_service.domain.replies import Refusal, Taken, Unchanged
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.domain.turn_events import PartProgressed
from scheduler_service.domain.wire import Answer, FaultKind
from scheduler_service.engine.document_bytes import encode
from scheduler_service.engine.notification_events import FINAL_FAILED
from scheduler_service.engine.target_reports import (
    WAIT_MAX_SECONDS,
    UnreadableReport,
    find_header,
    read_report,
    read_retry_after,
)
from tests.rows import each_row
from tests.unit.engine.parts.queue_rig import end, parts_of, queued
from tests.unit.engine.rig import START, feedback, polled, started


@each_row("kind", [FaultKind.CONNECT, FaultKind.TIMEOUT])
def test_verdict_stands_in_for_the_last_answer(kind: FaultKind) -> None:
    """If the last step got no answer, the verdict by feedback replaces it."""
    rig = started()
    feedback(rig, {"status": "succeed"})
    rig.fault(kind)
    assert rig.states() == [ExecutionState.SUCCEEDED]


def test_verdict_does_not_stand_in_for_an_earlier_step() -> None:
    """Only the last step's missing answer is replaced."""
    rig = started(request=[{"url": "http://target.test/1"}, {"url": "http://target.test/2"}])
    feedback(rig, {"status": "succeed"})
    rig.fault()
    assert rig.execution(1).error == "500"


THEN = "Tue, 14 Nov 2023 22:14:20 GMT"  # a minute after START
LATER = "Tue, 14 Nov 2023 22:13:50 GMT"  # half a minute after START


@each_row(
    ("headers", "wait"),
    [
        ((), None),
        ((("Retry-After", "7"),), 7_000),
        ((("RETRY-AFTER", " 0 "),), 0),
        ((("retry-after", "9" * 40),), WAIT_MAX_SECONDS * 1_000),
        ((("retry-after", "-1"),), None),
        ((("retry-after", "1.5"),), None),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "٣"),), None),
        ((("retry-after", THEN),), 60_000),
        ((("retry-after", THEN), ("Date", LATER)), 30_000),
        ((("retry-after", LATER), ("Date", THEN)), 0),
        ((("retry-after", THEN), ("Date", "nonsense")), 60_000),
        ((("retry-after", "Tue, 14 Nov 2023 22:14:20 -0000"),), None),
        ((("retry-after", "Tue, 14 Nov 9999 22:14:20 GMT"),), WAIT_MAX_SECONDS * 1_000),
        ((("retry-after", "Mon, 1 Jan 2024 00:00:00 +" + "9" * 15),), None),
        ((("retry-after", "Mon, 1 Jan " + "9" * 30 + " 00:00:00 GMT"),), None),
    ],
)
def test_retry_after(headers: tuple[tuple[str, str], ...], wait: int | None) -> None:
    """Seconds or a date, the date counted from the answer's own; what cannot be read counts as absent."""
    assert read_retry_after(Answer(503, headers), START) == wait


def test_the_first_header_of_a_name_counts() -> None:
    """Names are not case-sensitive."""
    assert find_header((("X-A", "1"), ("x-a", "2")), "x-a") == "1"
    assert find_header((), "x-a") is None


@given(
    st.text(max_size=60)
    | st.from_regex(r"[A-Z][a-z]{2}, \d{1,25} [A-Z][a-z]{2} \d{1,25} \d+:\d+ [+-]\d{1,25}")
)
@settings(deadline=None)
def test_no_header_raises(text: str) -> None:
    """A target may write what it likes."""
    wait = read_retry_after(Answer(503, (("retry-after", text),)), START)
    assert wait is None or 0 <= wait <= WAIT_MAX_SECONDS * 1_000


BAD = "a\ud800\udfff\udfffb"
KEPT = "a\U000103ff�b"
SAID = {"status": "failed", "error": BAD, "progress": BAD, "message": BAD}
TOLD = [{"url": "http://caller.test/", "dedupe": "onChange"}]


def check_kept(rig: Any) -> None:
    """The state and the records can be stored, and have the rest of the text."""
    assert encode(rig.document)
    assert msgspec.msgpack.encode(rig.records)


def check_failed(rig: Any) -> None:
    """The target's verdict counts, with its code."""
    check_kept(rig)
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.progress) == (ExecutionState.TERMINATED, KEPT, KEPT)
    assert rig.record_of(AttemptEnded).message == KEPT


@each_row("qos", [0, 1])
def test_in_checks(qos: int) -> None:
    """While the work runs, and at its end."""
    rig = polled(notification=TOLD, qos=qos, maxRetries=0)
    rig.pass_time(1_000)
    rig.answer(200, {"status": "", "progress": BAD, "message": BAD})
    assert rig.execution(1).progress == KEPT
    check_kept(rig)
    rig.pass_time(1_000)
    rig.answer(200, SAID)
    check_failed(rig)


@each_row("qos", [0, 1])
def test_in_feedback(qos: int) -> None:
    """Of a caller that sends what the API would refuse: the decision itself holds it."""
    rig = started(notification=TOLD, qos=qos, maxRetries=0)
    rig.answer(200)
    feedback(rig, SAID)
    check_failed(rig)


def test_in_an_answer_whose_status_is_unknown() -> None:
    """The message that names it can be stored."""
    rig = polled(notification=TOLD, maxRetries=0)
    rig.pass_time(1_000)
    rig.answer(200, {"status": BAD})
    check_kept(rig)


LONG = "x" * 300_000
SAID_TEXTS = {"status": "failed", "error": LONG, "progress": LONG, "message": LONG}
ERROR, PROGRESS, MESSAGE = "x" * 255 + "…", "x" * 63 + "…", "x" * 4_095 + "…"
SMALL = 64 * 1024
TOKEN = "0123456789abcdef" * 4


def check_ended(rig: Any) -> None:
    """The execution has failed by its target's own error, and everything that is kept of it is cut."""
    ended = rig.execution(1)
    assert (ended.error, ended.progress) == (ERROR, PROGRESS)
    assert rig.record_of(AttemptEnded).message == MESSAGE
    check_told(rig)


def check_told(rig: Any) -> None:
    """So is what the notifications say, and the state."""
    for _, body in rig.told():
        said = body["response"]
        assert (said["error"], said["progress"], said["message"]) == (ERROR, PROGRESS, MESSAGE)
    assert len(encode(rig.document)) < SMALL


def test_in_a_report() -> None:
    """Cut before anything is made of it; its body, which is compared and notified, has the same texts."""
    report = read_report(SAID_TEXTS | {"data": [1]}, TOKEN)
    assert isinstance(report, Report)
    assert (report.error, report.progress, report.message) == (ERROR, PROGRESS, MESSAGE)
    assert json.loads(report.body) == {
        "status": "failed", "error": ERROR, "progress": PROGRESS, "message": MESSAGE, "data": [1],
    }  # fmt: skip
    # Nothing is changed, whatever its types
    said = {"status": "failed", "error": 7, "progress": "1/2", "message": ["a"]}
    report = read_report(said, TOKEN)
    assert isinstance(report, Report)
    assert (report.error, report.progress, report.message) == ("7", "1/2", '["a"]')
    assert json.loads(report.body) == said
    # A long array as `message` is kept as its JSON, cut
    report = read_report({"message": [1] * 10_000}, TOKEN)
    assert isinstance(report, Report)
    assert report.message == ("[1" + ",1" * 10_000)[:4_095] + "…"
    # The message of a report that cannot be read does not repeat all of it
    wrong = read_report({"status": LONG}, TOKEN)
    assert isinstance(wrong, UnreadableReport)
    assert len(wrong.message) < 200


def test_long_texts_in_checks() -> None:
    """While the work runs, and at its end."""
    rig = polled(notification=TOLD)
    rig.pass_time(1_000)
    rig.answer(200, SAID_TEXTS | {"status": ""})
    assert rig.execution(1).progress == PROGRESS
    check_told(rig)
    rig.pass_time(1_000)
    rig.answer(200, SAID_TEXTS)
    check_ended(rig)
    assert {one.progress for one in rig.of(CheckEnded, rig.records)} == {PROGRESS}
    # A repetition of what was cut is recognised
    rig = started(notification=TOLD)
    rig.answer(200)
    assert isinstance(feedback(rig, SAID_TEXTS), Taken)
    check_ended(rig)
    assert len(rig.record_of(FeedbackSeen).body) < SMALL
    assert isinstance(feedback(rig, SAID_TEXTS), Unchanged)
    assert isinstance(feedback(rig, SAID_TEXTS | {"message": "another"}), Refusal)
    # In completions of parts: and in the progress of a lease
    rig = queued(notification=TOLD)
    rig.deliver(PartProgressed(parts_of(rig)[0].name, LONG, LONG))
    assert rig.execution(1).progress == PROGRESS
    end(rig, said=PartEnd(error=LONG, failure_type=FailureType.BUSINESS, message=LONG, instance="w"))
    assert rig.execution(1).error == ERROR
    assert rig.record_of(AttemptEnded).message == MESSAGE
    assert len(encode(rig.document)) < SMALL


def test_an_answer_that_ends_a_synchronous_attempt_leaves_no_long_mark() -> None:
    """What entries with `onChange` compare is kept small, though nothing of the answer itself is cut."""
    rig = started(**{"async": False}, notification=TOLD, retry=[{"errorEquals": "*", "maxAttempts": 3}])
    rig.answer(500, {"status": "odd", "error": LONG})
    rig.pass_time(1_000)
    assert all(len(mark) <= 512 for mark in rig.context(1).seen)
    rig.answer(500, {"status": "odd", "error": LONG})
    assert [event for event, _ in rig.told()] == ["500"]
    rig.pass_time(2_000)
    rig.answer(500, {"status": "odd", "error": LONG + "y"})
    assert [event for event, _ in rig.told()] == ["500", "500"]
    assert FINAL_FAILED not in {event for event, _ in rig.told()}
