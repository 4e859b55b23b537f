"""The chain of a synchronous job (SPEC sections 4 and 5)."""

import pytest

from scheduler_service.domain.events import Triggered
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, StepEnded
from scheduler_service.domain.replies import Started
from scheduler_service.domain.wire import FaultKind
from tests.unit.engine.rig import Rig

TWO = [
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
