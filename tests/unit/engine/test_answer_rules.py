"""Answers that are judged by their body: `successWhen`, `errorFrom`, `messageFrom` (SPEC section 4)."""

from typing import Any

import pytest

from client_sdk.models import parse_definition
from scheduler_service.domain.effects import Call
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, CheckEnded, StepEnded
from scheduler_service.domain.turn_events import CallEnded, Replay, Triggered
from scheduler_service.domain.wire import Answer, FaultKind
from scheduler_service.engine.answer_rules import NO_JSON_TEXT
from scheduler_service.engine.compile import compile_stored
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.parts.service_rig import BROADCAST, answer, parted, steps_of
from tests.unit.engine.rig import Rig, definition, feedback, polled, program, started

URL = "http://target.test/run"
RULE = {"successWhen": "@.code == 0", "errorFrom": "$.code", "messageFrom": "$.info.text"}


def judged(status: int, body: Any, **step: Any) -> tuple[str | None, str | None, str]:
    """(error, failure type, message) of an execution whose only step is answered so."""
    rig = Rig(request=[{"url": URL, **step}]).triggered()
    rig.answer(status, body)
    ended = rig.execution(1)
    message = rig.record_of(AttemptEnded).message
    kind = None if ended.failure_type is None else ended.failure_type.value
    return ended.error, kind, message or ""


@each_row(
    ("status", "body", "ended"),
    [
        (200, {"code": 0}, (None, None, "")),
        (200, {"code": 500, "msg": "no stock"}, ("500", "business", "no stock")),
        (200, {"code": "E42", "info": {"text": "sold\nout"}}, ("E42", "business", "sold out")),
        (200, {"code": 42.0, "info": {"text": 7}}, ("42", "business", "7")),
        (200, {"code": True, "msg": "odd"}, ("unsuccessful", "business", "odd")),
        (200, {}, ("unsuccessful", "business", "successWhen is not true of the answer: @.code == 0")),
        (200, [], ("unsuccessful", "business", "successWhen is not true of the answer: @.code == 0")),
        (204, None, ("unsuccessful", "business", NO_JSON_TEXT)),
        (200, b"OK", ("unsuccessful", "business", f"OK; {NO_JSON_TEXT}")),
        (400, {"code": "E7", "msg": "bad"}, ("E7", "http", "bad")),
        (400, {"code": " ", "msg": "bad"}, ("400", "http", "bad")),
        (500, b"<html>", ("500", "http", "the target answered 500")),
        (500, {"code": 0}, ("0", "http", "the target answered 500")),
    ],
)
def test_the_body_decides_and_says_why(
    status: int, body: Any, ended: tuple[str | None, str | None, str]
) -> None:
    """A success status whose body is none fails with the code of the body, else `unsuccessful`."""
    assert judged(status, body, **RULE) == ended


def test_a_code_and_a_message_are_cut() -> None:
    """As those of feedback (SPEC section 5)."""
    error, _, message = judged(200, {"code": "x" * 300, "info": {"text": "y" * 5_000}}, **RULE)
    assert (len(error or ""), len(message)) == (256, 4_096)
    # `errorFrom` and `messageFrom` read an answer whose status fails; one of success counts as ever
    rule = {"errorFrom": "$.code", "messageFrom": "$.why"}
    assert judged(503, {"code": "E1", "why": "busy"}, **rule) == ("E1", "http", "busy")
    assert judged(200, {"code": "E1"}, **rule) == (None, None, "")
    # The condition needs the whole body; without one a cut answer is a success
    for rule, error in ((RULE, "response_too_large"), ({}, None)):
        rig = Rig(request=[{"url": URL, **rule}]).triggered()
        rig.deliver(CallEnded(rig.call.token, Answer(200, (), b'{"code": 0', truncated=True)))
        assert rig.execution(1).error == error
    # Later steps are not sent; the step's record has the code beside the status
    rig = Rig(request=[{"url": URL, **RULE}, {"url": URL}]).triggered()
    rig.answer(200, {"code": 7})
    assert len(rig.calls()) == 1
    step = rig.record_of(StepEnded)
    assert (step.exchange.status, step.error) == (200, "7")


def test_retry_policies_match_the_code_of_the_business() -> None:
    """SPEC section 6: a number is its text, and `5xx` takes a code that looks like a status."""
    policies = [
        {"errorEquals": "E42", "intervalSeconds": 3, "maxAttempts": 1},
        {"errorEquals": "unsuccessful", "maxAttempts": 0},
        {"errorEquals": "5xx", "intervalSeconds": 5, "maxAttempts": 1},
    ]
    for code, wait in (("E42", 3_000), (None, None), (500, 5_000), (501.0, 5_000), ("E43", None)):
        rig = Rig(request=[{"url": URL, **RULE}], retry=policies).triggered()
        rig.answer(200, {"code": code})
        assert rig.record_of(AttemptEnded).retry_in == wait, code
        rig.pass_time(10_000)
        assert len(rig.calls()) == (1 if wait is None else 2)


def test_a_notification_of_it_has_the_code_as_its_key() -> None:
    """A status of success would tell the opposite; `httpStatus` stays what was answered (SPEC section 7)."""
    rig = Rig(request=[{"url": URL, **RULE}], notification=[{"url": "http://caller.test/"}]).triggered()
    rig.answer(200, {"code": "E42", "info": {"text": "sold out"}})
    (event, body), (final, last) = rig.told()
    assert (event, final) == ("E42", "finalFailed")
    assert body["httpStatus"] == "200"
    assert body["response"] | {"datetime": ""} == {
        "status": "failed",
        "message": "sold out",
        "error": "E42",
        "progress": None,
        "datetime": "",
        "data": {"code": "E42", "info": {"text": "sold out"}},
    }
    assert last["response"]["status"] == "finalFailed"
    rig.deliver(Triggered())
    rig.answer(400, {"code": "E42"})
    assert rig.told()[2][0] == "400"


def test_an_asynchronous_chain_fails_by_its_body_too() -> None:
    """An answer that fails the chain wins over feedback, which stands in for a missing answer alone."""
    rig = started(request=[{"url": URL, **RULE}])
    feedback(rig, {"status": "succeed"})
    rig.answer(200, {"code": 9})
    assert rig.execution(1).error == "9"
    rig = started(request=[{"url": URL, **RULE}])
    feedback(rig, {"status": "succeed"})
    rig.fault(FaultKind.TIMEOUT)
    assert rig.states() == [ExecutionState.SUCCEEDED]


def test_a_check_whose_body_is_none_is_tolerated_twice() -> None:
    """SPEC section 5: the third one in a row raises `check`, or what `errorFrom` finds."""
    for rule, error in (({"successWhen": "@.ok == true"}, "check"), (RULE, "E9")):
        rig = polled(checkUrl={"url": URL, **rule})
        for _ in range(3):
            rig.pass_time(1_000)
            rig.answer(200, {"code": "E9", "status": "succeed", "msg": "not yet"})
        ended = rig.execution(1)
        assert (ended.error, ended.failure_type) == (error, FailureType.CHECK)
        assert [one.error for one in rig.of(CheckEnded, rig.records)] == ["not yet"] * 3
    rig = polled(checkUrl={"url": URL, "successWhen": "@.code == 0"})
    rig.pass_time(1_000)
    rig.answer(200, {"code": 1, "status": "failed"})
    rig.pass_time(1_000)
    rig.answer(200, {"code": 0, "status": "succeed"})
    assert rig.states() == [ExecutionState.SUCCEEDED]


def test_each_part_is_judged_by_its_own_answer() -> None:
    """A broadcast is `partial` where one instance's body is none; all alike give their code."""
    rig = parted(BROADCAST | RULE, "a", "b", route="broadcast")
    answer(rig, 0, 200, {"code": 0})
    answer(rig, 1, 200, {"code": "E1", "msg": "full"})
    assert rig.execution(1).error == "partial"
    assert [one.error for one in steps_of(rig)] == [None, "E1", "partial"]
    assert rig.record_of(AttemptEnded).message == "full (E1); 1 of 2 parts failed"
    rig = parted(BROADCAST | RULE, "a", "b", route="broadcast")
    answer(rig, 0, 200, {"code": 3})
    answer(rig, 1, 200, {"code": 3})
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("3", FailureType.BUSINESS)
    # SPEC section 13: `service://` to one instance
    rig = Rig(request=[{"url": "service://shop/run", **RULE}]).triggered()
    rig.answer(200, {"code": 5})
    assert rig.execution(1).error == "5"


def test_a_verdict_outlives_the_process() -> None:
    """A step whose answer was none waits for its retry after a crash; one that was sent is judged later."""
    rig = Rig(
        qos=1,
        request=[{"url": URL}, {"url": URL, **RULE, "retryFrom": "step"}],
        retry=[{"errorEquals": "E1"}],
    )
    rig.triggered().answer(200)
    rig.answer(200, {"code": "E1"})
    rig.restart()
    rig.pass_time(1_000)
    assert rig.call.token.serial == 1
    rig.restart()
    rig.answer(200, {"code": 0}, call=rig.of(Call, rig.effects)[-1])
    assert rig.states() == [ExecutionState.SUCCEEDED]


def test_a_replay_takes_earlier_answers_as_they_counted() -> None:
    """What comes before `fromStep` is not judged again."""
    rig = Rig(request=[{"url": URL, **RULE}, {"url": URL}]).create()
    rig.deliver(Triggered(replay=Replay(1, 1, (b'{"code": 7}',))))
    rig.answer(200)
    assert rig.states() == [ExecutionState.SUCCEEDED]


@each_row(
    ("members", "pointer", "words"),
    [
        ({"request": [{"url": URL, "successWhen": "@.a = 1"}]}, "/request/0/successWhen", "write =="),
        ({"request": [{"url": URL, "errorFrom": "@.code"}]}, "/request/0/errorFrom", "write $.code"),
        ({"request": [{"url": URL, "errorFrom": "$..code"}]}, "/request/0/errorFrom", "a path to one"),
        ({"request": [{"url": URL, "messageFrom": "msg"}]}, "/request/0/messageFrom", "not a JSONPath"),
        ({"checkUrl": {"url": URL, "successWhen": "ok"}, "async": True}, "/checkUrl/successWhen", "@ is"),
        (
            {"notification": [{"url": URL, "successWhen": "@.errcode == 0;"}]},
            "/notification/0/successWhen",
            "not a condition",
        ),
        (
            {"request": [{"url": "queue://q", "successWhen": "@.a == 1"}]},
            "/request/0/successWhen",
            "reports itself",
        ),
        ({"cancelUrl": {"url": URL, "errorFrom": "$.a"}}, "/cancelUrl/errorFrom", "nobody waits"),
        (
            {"notification": [{"url": "topic://p/t", "messageFrom": "$.a"}]},
            "/notification/0/messageFrom",
            "daprd publishes",
        ),
    ],
)
def test_what_cannot_judge_is_refused_with_its_place(
    members: dict[str, Any], pointer: str, words: str
) -> None:
    """When the job is created (SPEC section 4)."""
    with pytest.raises(DefinitionError) as caught:
        program(Surroundings(topics=True), **members)
    found = {problem.pointer: problem.message for problem in caught.value.problems}
    assert words in found[pointer]


def test_conditions_count_among_the_expressions_of_a_definition() -> None:
    """All together are bounded, as those of templates are."""
    step = {"url": URL, "successWhen": "@.code == 0" + " || @.code == 0" * 60}
    with pytest.raises(DefinitionError, match="characters in its expressions"):
        program(request=[step] * 500)
    # A plain one is not: it looks at single values
    plain = program(request=[{"url": URL, **RULE}])
    wide = program(request=[{"url": URL, "successWhen": "!@.items[?@.ok != true]"}])
    assert plain.short_bytes == program().short_bytes
    assert wide.short_bytes < plain.short_bytes
    # SPEC section 2: an accepted definition stays a job, and says why it cannot run
    given = definition(request=[{"url": URL, "successWhen": "@.a =! 1"}])
    compiled = compile_stored(parse_definition(given), Surroundings())
    assert "successWhen" in compiled.program.steps[0].target.refused
    assert [one.pointer for one in compiled.program.problems] == ["/request/0"]
