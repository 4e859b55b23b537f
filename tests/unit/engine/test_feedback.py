"""Feedback of a target: fenced by token and attempt, recorded, reported, obeyed (SPEC sections 4, 5, 7)."""

import json
from typing import Any

from scheduler_service.domain.document import FeedbackAwaited
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, FeedbackSeen, ResultKept
from scheduler_service.domain.replies import RefusalCode, Taken, Unchanged
from scheduler_service.domain.turn_events import FeedbackArrived, Triggered
from scheduler_service.domain.wire import CallKind
from scheduler_service.engine.feedback_url import feedback_token
from tests.rows import each_row
from tests.unit.engine.rig import CHECK, Rig, feedback, polled, started

TICKET = "http://target.test/state/${$.ticket}"


def test_a_check_does_not_change_the_root() -> None:
    """Checks and feedback do not change the root: a check reads what the chain left (SPEC section 4)."""
    told = {"url": "http://caller.test/${$.ticket}", "stateEquals": "inprogress"}
    rig = started(timeoutSeconds=600, checkUrl=TICKET, notification=[told])
    rig.answer(200, {"ticket": "chain"})
    rig.pass_time(1_000)
    rig.answer(200, {"ticket": "check"})
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"ticket": "feedback"}))
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/state/chain"
    assert [one.request.url for one in rig.deliveries()] == ["http://caller.test/chain"] * 2


def test_the_pause_counts_from_the_end_of_a_check() -> None:
    """`checkRateSeconds` is the pause between the end of a check and the next one (SPEC section 2)."""
    rig = started(timeoutSeconds=600, checkUrl=TICKET, checkRateSeconds=4)
    rig.answer(200, {"ticket": 1})
    rig.pass_time(4_000)
    rig.pass_time(3_000)
    rig.answer(200, {})
    rig.pass_time(3_999)
    assert len(rig.calls()) == 2
    rig.pass_time(1)
    assert len(rig.calls()) == 3


def test_progress_is_kept_as_it_was_given() -> None:
    """`20/60` and `30%` are kept raw; a report without one leaves the last one (SPEC section 5)."""
    rig = started(timeoutSeconds=600)
    rig.answer(200)
    token = feedback_token(b"key", "uid", 1)
    for given, kept in (("20/60", "20/60"), (None, "20/60"), ("30%", "30%")):
        rig.deliver(FeedbackArrived(1, token, {"progress": given}))
        assert rig.execution(1).progress == kept


def test_feedback_during_the_chain_is_told_at_once() -> None:
    """Recorded and notified at once, though its verdict waits for the chain's end (SPEC section 5)."""
    rig = started(timeoutSeconds=600, notification=[{"url": "http://caller.test/"}])
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"status": "failed", "error": "e"}))
    assert [event for event, _ in rig.told()] == ["e"]
    assert len(rig.of(FeedbackSeen, rig.records)) == 1
    assert rig.states() == [ExecutionState.PROCESSING]
    rig.answer(200)
    assert rig.execution(1).error == "e"


@each_row("by", ["feedback", "check"])
def test_a_token_that_the_target_repeats_is_not_made_known(by: str) -> None:
    """In whatever text or member it stands, alone or in another one, and in an answer that is refused."""
    token = feedback_token(b"key", "uid", 1)
    told = [{"url": "http://caller.test/"}]
    rig = started(timeoutSeconds=600, notification=told, **({"checkUrl": TICKET} if by == "check" else {}))
    said = {"error": token, "message": f"bad {token}!", "progress": f"token={token}", token: [{"a": token}]}
    rig.answer(200, {"ticket": 1})
    for status in (f"odd {token}", "failed"):
        if by == "feedback":
            rig.deliver(FeedbackArrived(1, token, said | {"status": status}))
        else:
            rig.pass_time(rig.wait() or 0)
            rig.answer(200, said | {"status": status}, headers={"x-given": token})
        assert token not in repr(rig.reply)
    assert rig.execution(1).error == "***"
    assert rig.execution(1).progress == "token=***"
    assert rig.record_of(AttemptEnded).message == "bad ***!"
    assert token not in repr([*rig.records, rig.told()])
    rig = started()
    rig.answer(500, f"no {token} here".encode())
    assert rig.record_of(AttemptEnded).message == "no *** here"


def test_a_failing_request_of_an_asynchronous_chain_is_told_by_its_status() -> None:
    """Its key is the HTTP status, `500` where there is none; what succeeds is not told (SPEC section 7)."""
    steps = [{"url": "http://target.test/1"}, {"url": "http://target.test/2"}]
    rig = started(timeoutSeconds=600, request=steps, notification=[{"url": "http://caller.test/"}])
    rig.answer(200)
    rig.answer(503, {"status": "failed", "error": "full"})
    assert [event for event, _ in rig.told()] == ["503", "finalFailed"]
    assert rig.told()[0][1]["response"]["error"] == "full"
    assert rig.record_of(AttemptEnded).error == "503"
    other = started(timeoutSeconds=600, notification=[{"url": "http://caller.test/"}])
    other.fault()
    assert [(event, body["httpStatus"]) for event, body in other.told()] == [
        ("500", "500"),
        ("finalFailed", "500"),
    ]


def test_webhook_id_is_the_same_on_every_try() -> None:
    """A delivery names itself, once for each event and entry; an entry's own name wins (SPEC section 7)."""
    entries = [
        {"url": "http://caller.test/1"},
        {"url": "http://caller.test/2", "headers": {"Webhook-Id": "own"}},
    ]
    rig = Rig(notification=entries).triggered()
    rig.answer(200)
    names = [
        [value for name, value in one.request.headers if name.lower() == "webhook-id"]
        for one in rig.deliveries()
    ]
    assert names == [["uid-1-0-n"], ["own"], ["uid-1-2-n"], ["own"]]


def test_feedback_decides() -> None:
    """Without a check, feedback is the outcome; the deciding one repeated is 200, another one stale."""
    rig = started()
    rig.answer(200)
    assert isinstance(rig.context(1).phase, FeedbackAwaited)
    assert feedback(rig, {"progress": "30%"}) == Taken()
    assert rig.execution(1).progress == "30%"
    assert feedback(rig, {"status": "succeed"}) == Taken()
    assert rig.states() == [ExecutionState.SUCCEEDED]
    assert feedback(rig, {"status": "succeed"}) == Unchanged()
    stale = feedback(rig, {"status": "failed"})
    assert stale.code is RefusalCode.STALE
    assert [one.stale for one in rig.of(FeedbackSeen, rig.records)] == [False, False, True]
    assert rig.states() == [ExecutionState.SUCCEEDED]
    # `failed` raises the business's code, and the policy that names it retries
    rig = started(retry=[{"errorEquals": "error1", "intervalSeconds": 3}])
    rig.answer(200)
    feedback(rig, {"status": "failed", "error": "error1"})
    assert rig.execution(1).state is ExecutionState.FAILED
    rig.pass_time(3_000)
    assert rig.call.token.request_counts == 2


@each_row(
    ("code", "policy", "is_retried"),
    [
        ("timeout", "timeout", True),
        ("instance_lost", "instance_lost", True),
        ("503", "5xx", True),
        ("check", "*", True),
        ("egress", "*", False),
        ("egress", "egress", True),
        ("lost", "lost", False),
        ("cancelled", "*", False),
    ],
)
def test_a_code_of_the_platform_counts_as_that_code(code: str, policy: str, *, is_retried: bool) -> None:
    """A target may report each of them: its policies hold, `failureType` tells whose it is (section 5.8)."""
    rig = started(retry=[{"errorEquals": policy, "intervalSeconds": 3}])
    rig.answer(200)
    assert feedback(rig, {"status": "failed", "error": code}) == Taken()
    expected = ExecutionState.FAILED if is_retried else ExecutionState.TERMINATED
    assert (rig.execution(1).state, rig.execution(1).error) == (expected, code)
    (ended,) = rig.of(AttemptEnded, rig.records)
    assert (ended.error, ended.failure_type) == (code, FailureType.BUSINESS)


@each_row(
    ("body", "pointer"), [([], ""), ({"status": "done"}, "/status"), ({"status": {}}, "/status"), (None, "")]
)
def test_feedback_that_is_no_report(body: Any, pointer: str) -> None:
    """A feedback of no known form is refused with the place that is wrong, and nothing is recorded."""
    rig = started()
    refusal = feedback(rig, body)
    assert (refusal.code, refusal.pointer) == (RefusalCode.INVALID, pointer)
    assert rig.of(FeedbackSeen, rig.records) == []


def test_feedback_token_is_checked_first() -> None:
    """A wrong token is refused whatever else is wrong, and for other requestCounts it is a wrong one."""
    rig = started()
    for counts, token in [(1, ""), (1, "x" * 64), (2, feedback_token(b"key", "uid", 1)), (1, "\udc80")]:
        refusal = feedback(rig, [], counts, token)
        assert refusal.code is RefusalCode.FORBIDDEN
    # requestCounts that never were: stale, recorded, no effect
    rig = started()
    refusal = feedback(rig, {}, 99)
    assert refusal.code is RefusalCode.STALE
    # An HMAC over uid and `requestCounts` under the job's own key: change one, and it is another
    tokens = {
        feedback_token(b"key", "uid", 1),
        feedback_token(b"key", "uid", 2),
        feedback_token(b"key", "next", 1),
        feedback_token(b"other", "uid", 1),
        feedback_token(b"key", "uid:1", 1),
    }
    assert len(tokens) == 5
    assert all(len(token) == 64 for token in tokens)


def test_feedback_during_the_chain_waits() -> None:
    """A verdict that comes while the chain runs waits for its end; an answer that fails the chain wins."""
    rig = started(request=[{"url": "http://target.test/1"}, {"url": "http://target.test/2"}])
    feedback(rig, {"status": "failed", "error": "early"})
    feedback(rig, {"status": "succeed"})
    assert rig.states() == [ExecutionState.PROCESSING]
    rig.answer(200)
    rig.answer(200)
    assert rig.states() == [ExecutionState.SUCCEEDED]
    other = started()
    feedback(other, {"status": "succeed"})
    other.answer(500)
    assert other.execution(1).error == "500"


def test_feedback_with_a_check_only_hastens_it() -> None:
    """With a checkUrl feedback is recorded and brings the next check forward, but does not decide."""
    rig = polled(checkRateSeconds=30)
    feedback(rig, {"status": "succeed"})
    assert rig.states() == [ExecutionState.PROCESSING]
    rig.pass_time(0)
    assert rig.call.token.kind is CallKind.CHECK
    feedback(rig, {"status": "succeed"})
    assert rig.states() == [ExecutionState.PROCESSING]
    # The check in flight may have been answered before: the next one follows at once, and just that one
    rig = polled(checkRateSeconds=10)
    rig.pass_time(10_000)
    feedback(rig, {"status": "succeed"})
    rig.answer(200, {})
    rig.pass_time(0)
    assert len(rig.calls()) == 3
    rig.answer(200, {})
    rig.pass_time(9_999)
    assert len(rig.calls()) == 3
    # Feedback decides nothing where the chain's end is the outcome
    rig = Rig().triggered()
    assert feedback(rig, {"status": "failed"}) == Taken()
    assert len(rig.of(FeedbackSeen, rig.records)) == 1
    rig.answer(200)
    assert rig.states() == [ExecutionState.SUCCEEDED]
    # Feedback during the chain brings the first check forward
    cases: list[tuple[dict[str, Any], dict[str, str]]] = [({"checkUrl": CHECK}, {}), ({}, {"location": "/s"})]
    for members, headers in cases:
        rig = started(**members, checkRateSeconds=30)
        feedback(rig, {"status": "failed"})
        rig.answer(202, headers=headers)
        assert rig.states() == [ExecutionState.PROCESSING]
        rig.pass_time(0)
        assert rig.call.token.kind is CallKind.CHECK


def test_the_report_that_decides_is_the_result() -> None:
    """Of an asynchronous job: a check's answer or a feedback, one after the other (SPEC section 5)."""
    rig = started(keepResult=True)
    rig.answer(200, {"accepted": True})
    feedback(rig, {"progress": "30%"})
    feedback(rig, {"status": "failed"})
    assert rig.of(ResultKept, rig.records) == []
    rig.deliver(Triggered())
    rig.answer(200, {"accepted": True})
    feedback(rig, {"status": "succeed", "data": {"rows": 7}}, 2)
    (kept,) = rig.of(ResultKept, rig.records)
    assert (json.loads(kept.body), kept.status, kept.content_type) == (
        {"status": "succeed", "data": {"rows": 7}},
        None,
        "application/json",
    )
