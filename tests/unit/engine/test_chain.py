"""The chain, its answers and its retries (SPEC sections 4, 5 and 6)."""

from typing import Any

import pytest

from scheduler_service.domain.events import FeedbackArrived, Replay, Triggered
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, StepEnded
from scheduler_service.domain.replies import Started
from scheduler_service.domain.wire import FaultKind
from scheduler_service.engine.scope import feedback_token
from tests.unit.engine.rig import Rig

TWO: list[dict[str, Any]] = [
    {"url": "http://target.test/one", "respEnvName": "ONE"},
    {"url": "http://target.test/two?x=${ONE.x}", "body": {"all": "${ONE}|json", "x": "${$.x}"}},
]


def test_one_step_succeeds() -> None:
    """A 2xx ends a one-step job as succeeded, with one attempt."""
    rig = Rig().create()
    rig.deliver(Triggered())
    assert rig.reply == Started(1, ExecutionState.PROCESSING, "uid")
    assert rig.request.method == "POST"
    rig.answer(204)
    ended = rig.execution(1)
    assert (ended.state, ended.attempt_count, ended.error) == (ExecutionState.SUCCEEDED, 1, None)
    assert rig.summary.live == 0


def test_steps_use_earlier_answers() -> None:
    """Steps run in order; named responses and the latest one fill templates with real JSON types."""
    rig = Rig(request=TWO).create()
    rig.deliver(Triggered())
    rig.answer(200, {"x": 5, "deep": [1, None]})
    assert rig.request.url == "http://target.test/two?x=5"
    assert rig.sent_body() == {"all": {"x": 5, "deep": [1, None]}, "x": "5"}
    rig.answer()
    assert [one.index for one in rig.of(StepEnded, rig.records)] == [0, 1]
    assert rig.states() == [ExecutionState.SUCCEEDED]


def test_parameters_are_the_first_response() -> None:
    """For the first step the trigger's parameters are the latest response, and `trigger` names them."""
    step = {"url": "http://target.test/${$.who}", "body": {"p": "${trigger}|json"}}
    rig = Rig(request=[step]).create()
    rig.deliver(Triggered(params=b'{"who":"a/b","n":1}'))
    assert rig.request.url == "http://target.test/a%2Fb"
    assert rig.sent_body() == {"p": {"who": "a/b", "n": 1}}


def test_chain_stops_at_the_first_failure() -> None:
    """A non-success status is the error code, and no later step is sent."""
    rig = Rig(request=TWO).create()
    rig.deliver(Triggered())
    rig.answer(404)
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (
        ExecutionState.TERMINATED,
        "404",
        FailureType.HTTP,
    )
    assert len(rig.calls()) == 1


@pytest.mark.parametrize(
    ("kind", "error", "failure_type"),
    [
        (FaultKind.CONNECT, "500", FailureType.CONNECT),
        (FaultKind.TIMEOUT, "500", FailureType.TIMEOUT),
        (FaultKind.EGRESS, "egress", FailureType.EGRESS),
        (FaultKind.NO_INSTANCE, "no_instance", FailureType.NO_INSTANCE),
    ],
)
def test_no_answer_is_an_error_code(kind: FaultKind, error: str, failure_type: FailureType) -> None:
    """A connection failure or timeout raises 500; egress and no_instance are codes of their own."""
    rig = Rig().create()
    rig.deliver(Triggered())
    rig.fault(kind, "why")
    ended = rig.execution(1)
    assert (ended.error, ended.failure_type) == (error, failure_type)
    assert rig.record_of(AttemptEnded).message == "why"


def test_missing_value_fails_with_template() -> None:
    """An expression that finds nothing fails the attempt with error `template`, naming the expression."""
    rig = Rig(request=[{"url": "http://target.test/${$.absent}"}]).create()
    rig.deliver(Triggered())
    ended = rig.execution(1)
    assert (ended.state, ended.error) == (ExecutionState.TERMINATED, "template")
    assert "$.absent" in (rig.record_of(AttemptEnded).message or "")
    assert rig.calls() == []


def retried(steps: list[dict[str, Any]], **members: Any) -> Rig:
    """A chain that is retried once, after a second."""
    rig = Rig(request=steps, retry=[{"errorEquals": "*", "maxAttempts": 1}], **members).create()
    rig.deliver(Triggered())
    return rig


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


def test_a_failure_after_the_chain_is_the_last_steps() -> None:
    """What feedback fails is repeated from the last step where that one says so."""
    rig = retried([TWO[0], {**TWO[1], "retryFrom": "step"}], **{"async": True})
    rig.answer(200, {"x": 1})
    rig.answer(200)
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"status": "failed"}))
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=1"


def test_a_replay_from_a_step_is_retried_from_there() -> None:
    """What the replay left out stays left out in its retries, and its responses stay."""
    rig = Rig(request=TWO, retry=[{"errorEquals": "*"}]).create()
    rig.deliver(Triggered(replay=Replay(1, 1, (b'{"x":7}',))))
    rig.answer(500)
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=7"


@pytest.mark.parametrize("replay", [Replay(1, 5, (b"{}",) * 5), Replay(1, 2, (b'{"x":7}',))])
def test_a_replay_stays_within_the_chain(replay: Replay) -> None:
    """A step that is gone, or whose earlier responses are: the last one that can be sent."""
    rig = Rig(request=[TWO[0], {"url": "http://target.test/two"}]).create()
    rig.deliver(Triggered(replay=replay))
    assert rig.request.url == "http://target.test/two"


def test_retry_after_lengthens_the_wait() -> None:
    """The target's own wish counts, never less than the policy (SPEC section 6)."""
    for asked, wait in (("5", 5_000), ("0", 1_000)):
        rig = retried([TWO[0]])
        rig.answer(503, headers={"Retry-After": asked})
        assert rig.record_of(AttemptEnded).retry_in == wait


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


def test_an_attempt_over_its_limit_in_a_step() -> None:
    """A synchronous attempt over `timeoutSeconds` is a 500 of the step in flight (SPEC section 5)."""
    rig = retried([TWO[0], {**TWO[1], "retryFrom": "step"}], timeoutSeconds=5)
    rig.answer(200, {"x": 1})
    rig.pass_time(5_000)
    step = rig.record_of(StepEnded)
    assert (step.index, step.error, step.exchange.status) == (1, "timeout", None)
    assert rig.execution(1).error == "500"
    rig.pass_time(1_000)
    assert rig.request.url == "http://target.test/two?x=1"
