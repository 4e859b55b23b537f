"""What checks, feedback and a failing chain leave alone, and when the next check comes
(SPEC sections 4, 5, 7)."""

from typing import Any

from scheduler_service.domain.events import FeedbackArrived, Triggered
from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.records import AttemptEnded, FeedbackSeen
from scheduler_service.engine.scope import feedback_token
from tests.unit.engine.rig import Rig

CHECK = "http://target.test/state/${$.ticket}"


def started(**members: Any) -> Rig:
    """An asynchronous job whose first execution is in its first step."""
    rig = Rig(**{"async": True, "timeoutSeconds": 600, **members}).create()
    rig.deliver(Triggered())
    return rig


def test_a_check_does_not_change_the_root() -> None:
    """Checks and feedback do not change the root: a check reads what the chain left (SPEC section 4)."""
    told = {"url": "http://caller.test/${$.ticket}", "stateEquals": "inprogress"}
    rig = started(checkUrl=CHECK, notification=[told])
    rig.answer(200, {"ticket": "chain"})
    rig.pass_time(1_000)
    rig.answer(200, {"ticket": "check"})
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"ticket": "feedback"}))
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/state/chain"
    assert [one.request.url for one in rig.deliveries()] == ["http://caller.test/chain"] * 2


def test_the_pause_counts_from_the_end_of_a_check() -> None:
    """`checkRateSeconds` is the pause between the end of a check and the next one (SPEC section 2)."""
    rig = started(checkUrl=CHECK, checkRateSeconds=4)
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
    rig = started()
    rig.answer(200)
    token = feedback_token(b"key", "uid", 1)
    for given, kept in (("20/60", "20/60"), (None, "20/60"), ("30%", "30%")):
        rig.deliver(FeedbackArrived(1, token, {"progress": given}))
        assert rig.execution(1).progress == kept


def test_feedback_during_the_chain_is_told_at_once() -> None:
    """Recorded and notified at once, though its verdict waits for the chain's end (SPEC section 5)."""
    rig = started(notification=[{"url": "http://caller.test/"}])
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"status": "failed", "error": "e"}))
    assert [event for event, _ in rig.told()] == ["e"]
    assert len(rig.of(FeedbackSeen, rig.records)) == 1
    assert rig.states() == [ExecutionState.PROCESSING]
    rig.answer(200)
    assert rig.execution(1).error == "e"


def test_a_feedback_token_fits_one_life_and_one_attempt() -> None:
    """An HMAC over uid and `requestCounts` under the job's own key: change one, and it is another."""
    tokens = {
        feedback_token(b"key", "uid", 1),
        feedback_token(b"key", "uid", 2),
        feedback_token(b"key", "next", 1),
        feedback_token(b"other", "uid", 1),
        feedback_token(b"key", "uid:1", 1),
    }
    assert len(tokens) == 5
    assert all(len(token) == 64 for token in tokens)


def test_a_failing_request_of_an_asynchronous_chain_is_told_by_its_status() -> None:
    """Its key is the HTTP status code, `500` where there is none; what succeeds is not told
    (SPEC section 7)."""
    steps = [{"url": "http://target.test/1"}, {"url": "http://target.test/2"}]
    rig = started(request=steps, notification=[{"url": "http://caller.test/"}])
    rig.answer(200)
    rig.answer(503, {"status": "failed", "error": "full"})
    assert [event for event, _ in rig.told()] == ["503", "finalFailed"]
    assert rig.told()[0][1]["response"]["error"] == "full"
    assert rig.record_of(AttemptEnded).error == "503"
    other = started(notification=[{"url": "http://caller.test/"}])
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
    rig = Rig(notification=entries).create()
    rig.deliver(Triggered())
    rig.answer(200)
    names = [
        [value for name, value in one.request.headers if name.lower() == "webhook-id"]
        for one in rig.deliveries()
    ]
    assert names == [["uid-1-0-n"], ["own"], ["uid-1-2-n"], ["own"]]
