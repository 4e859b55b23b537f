"""How an attempt begins and ends, and how an execution ends with it (SPEC sections 5, 6, 10)."""

from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded
from scheduler_service.domain.turn_events import FeedbackArrived, Replay, Triggered
from scheduler_service.engine.scope import feedback_token
from tests.unit.engine.rig import TWO, Rig, retried


def test_a_retry_repeats_the_chain() -> None:
    """A new attempt, the whole chain, the same keys (SPEC section 6)."""
    rig = retried(TWO)
    rig.answer(200, {"x": 1})
    rig.answer(500)
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/one"
    assert (rig.header("Idempotency-Key"), rig.header("X-Scheduling-Request-Counts")) == ("uid-1-0", "2")
    assert rig.execution(1).attempt_count == 2


def test_counters_are_kept_over_the_attempts_of_an_execution() -> None:
    """Per policy and per execution: one that is spent leaves the others what they have."""
    policies = [
        {"errorEquals": "500", "maxAttempts": 2, "backoffRate": 3},
        {"errorEquals": "timeout", "maxAttempts": 1},
        {"errorEquals": "404", "maxAttempts": 1, "intervalSeconds": 7},
    ]
    rig = Rig(retry=policies).create()
    waits: list[int | None] = []
    for number in (1, 2):
        rig.deliver(Triggered())
        for status in (500, 404, 500, 500):
            rig.answer(status)
            waits.append(rig.record_of(AttemptEnded).retry_in)
            rig.pass_time(waits[-1] or 0)
        assert rig.execution(number).state is ExecutionState.TERMINATED
    assert waits == [1_000, 7_000, 3_000, None] * 2


def test_retry_from_the_step() -> None:
    """`retryFrom: step` goes on at the failed step, with the earlier responses kept."""
    rig = retried([TWO[0], {**TWO[1], "retryFrom": "step"}])
    rig.answer(200, {"x": 1})
    rig.answer(500)
    rig.pass_time(1_000)
    assert (rig.request.url, rig.sent_body()) == ("http://target.test/two?x=1", {"all": {"x": 1}, "x": "1"})
    rig.answer(200)
    assert rig.states() == [ExecutionState.SUCCEEDED]
    # What feedback fails is repeated from the last step where that one says so
    rig = retried([TWO[0], {**TWO[1], "retryFrom": "step"}], **{"async": True})
    rig.answer(200, {"x": 1})
    rig.answer(200)
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"status": "failed"}))
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=1"
    # What the replay left out stays left out in its retries, and its responses stay
    rig = Rig(request=TWO, retry=[{"errorEquals": "*"}]).create()
    rig.deliver(Triggered(replay=Replay(1, 1, (b'{"x":7}',))))
    rig.answer(500)
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=7"


def test_a_waiting_retry_shows_its_error() -> None:
    """While it waits the execution is `failed` with its error, also when another process takes it over."""
    rig = retried([TWO[0]], qos=1)
    rig.answer(503)
    rig.restart()
    waiting = rig.execution(1)
    assert (waiting.state, waiting.error, waiting.failure_type) == (
        ExecutionState.FAILED,
        "503",
        FailureType.HTTP,
    )
    rig.pass_time(1_000)
    assert (rig.execution(1).state, rig.execution(1).error) == (ExecutionState.PROCESSING, None)
