"""`error`, `progress` and `message` of a target are cut and marked, however they come (SPEC section 5.3)."""

import json
from typing import Any

from scheduler_service.domain.document import Report
from scheduler_service.domain.events import PartProgressed
from scheduler_service.domain.execution import FailureType
from scheduler_service.domain.parts import PartEnd
from scheduler_service.domain.records import AttemptEnded, CheckEnded, FeedbackSeen
from scheduler_service.domain.replies import Refusal, Taken, Unchanged
from scheduler_service.engine.notification_events import FINAL_FAILED
from scheduler_service.engine.snapshot import encode
from scheduler_service.engine.verdicts import Unreadable, read_report
from tests.unit.engine.asynchronous import feedback, polled, started
from tests.unit.engine.parts.queue_rig import end, parts_of, queued

LONG = "x" * 300_000
SAID = {"status": "failed", "error": LONG, "progress": LONG, "message": LONG}
ERROR, PROGRESS, MESSAGE = "x" * 255 + "…", "x" * 63 + "…", "x" * 4_095 + "…"
SMALL = 64 * 1024
TOLD = [{"url": "http://caller.test/", "dedupe": "onChange"}]

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
    report = read_report(SAID | {"data": [1]}, TOKEN)
    assert isinstance(report, Report)
    assert (report.error, report.progress, report.message) == (ERROR, PROGRESS, MESSAGE)
    assert json.loads(report.body) == {
        "status": "failed", "error": ERROR, "progress": PROGRESS, "message": MESSAGE, "data": [1],
    }  # fmt: skip


def test_in_a_report_that_is_short() -> None:
    """Nothing is changed, whatever its types."""
    said = {"status": "failed", "error": 7, "progress": "1/2", "message": ["a"]}
    report = read_report(said, TOKEN)
    assert isinstance(report, Report)
    assert (report.error, report.progress, report.message) == ("7", "1/2", '["a"]')
    assert json.loads(report.body) == said


def test_values_that_are_no_texts_are_cut_as_text() -> None:
    """A long array as `message` is kept as its JSON, cut."""
    report = read_report({"message": [1] * 10_000}, TOKEN)
    assert isinstance(report, Report)
    assert report.message == ("[1" + ",1" * 10_000)[:4_095] + "…"


def test_an_unknown_status_is_named_short() -> None:
    """The message of a report that cannot be read does not repeat all of it."""
    wrong = read_report({"status": LONG}, TOKEN)
    assert isinstance(wrong, Unreadable)
    assert len(wrong.message) < 200


def test_in_checks() -> None:
    """While the work runs, and at its end."""
    rig = polled(notification=TOLD)
    rig.pass_time(1_000)
    rig.answer(200, SAID | {"status": ""})
    assert rig.execution(1).progress == PROGRESS
    check_told(rig)
    rig.pass_time(1_000)
    rig.answer(200, SAID)
    check_ended(rig)
    assert {one.progress for one in rig.of(CheckEnded, rig.records)} == {PROGRESS}


def test_in_feedback() -> None:
    """A repetition of what was cut is recognised."""
    rig = started(notification=TOLD)
    rig.answer(200)
    assert isinstance(feedback(rig, SAID), Taken)
    check_ended(rig)
    assert len(rig.record_of(FeedbackSeen).body) < SMALL
    assert isinstance(feedback(rig, SAID), Unchanged)
    assert isinstance(feedback(rig, SAID | {"message": "another"}), Refusal)


def test_in_completions_of_parts() -> None:
    """And in the progress of a lease."""
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
