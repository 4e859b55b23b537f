"""Half of a surrogate pair in what a target says: JSON may have it (RFC 8259, 8.2), no store can."""

from typing import Any

import msgspec

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.engine.snapshot import encode
from tests.rows import each_row
from tests.unit.engine.asynchronous import feedback, polled, started

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
