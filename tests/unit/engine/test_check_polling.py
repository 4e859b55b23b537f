"""Asynchronous jobs: checks, Location, feedback (SPEC section 5)."""

from typing import Any

from scheduler_service.domain.document import CheckWaiting
from scheduler_service.domain.effects import Abandon, Inform
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, CheckEnded
from scheduler_service.domain.replies import Unchanged
from scheduler_service.domain.turn_events import CallEnded
from scheduler_service.domain.wire import Answer, CallKind, FaultKind
from tests.rows import each_row
from tests.unit.engine.rig import polled, started


def test_first_check_comes_after_the_pause() -> None:
    """A check is a GET, the first one `checkRateSeconds` after the chain's end."""
    rig = polled(checkRateSeconds=4)
    assert isinstance(rig.context(1).phase, CheckWaiting)
    rig.pass_time(3_999)
    assert len(rig.calls()) == 1
    rig.pass_time(1)
    assert rig.call.token.kind is CallKind.CHECK
    assert (rig.request.method, rig.request.url) == ("GET", "http://target.test/state/1")
    assert rig.header("Idempotency-Key") == "uid-1-check-1-1"


@each_row("status", ["succeed", "success", "succeeded"])
def test_check_says_done(status: str) -> None:
    """`succeed`, also `success` and `succeeded`, ends the execution; progress is kept raw."""
    rig = polled()
    rig.pass_time(1_000)
    rig.answer(200, {"progress": "10/60"})
    rig.pass_time(1_000)
    rig.answer(200, {"status": status, "progress": "100%"})
    ended = rig.execution(1)
    assert (ended.state, ended.progress) == (ExecutionState.SUCCEEDED, "100%")
    assert [one.status for one in rig.of(CheckEnded, rig.records)] == ["", "succeed"]


def test_check_says_failed() -> None:
    """`failed` fails the attempt with the business's code."""
    rig = polled()
    rig.pass_time(1_000)
    rig.answer(200, {"status": "failed", "error": "error1", "message": "disk"})
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (
        ExecutionState.TERMINATED,
        "error1",
        FailureType.BUSINESS,
    )
    assert rig.record_of(AttemptEnded).message == "disk"
    # A failed check says what the target said
    rig = polled()
    for body, error in ((None, "the check was answered 500"), (b"<title>Down</title>", "Down")):
        rig.pass_time(1_000)
        rig.answer(500, body)
        assert rig.record_of(CheckEnded).error == error
    rig.pass_time(1_000)
    rig.answer(503, {"error": {"message": "no worker"}})
    assert rig.record_of(AttemptEnded).message == "no worker"


@each_row("bad", [{"status": "odd"}, [1], b"no json", {"status": 7}])
def test_bad_checks_are_tolerated_twice(bad: Any) -> None:
    """A check that says nothing is tolerated twice in a row; the third raises `check`."""
    rig = polled()
    for _ in range(2):
        rig.pass_time(1_000)
        rig.answer(200, bad)
        assert rig.states() == [ExecutionState.PROCESSING]
    rig.pass_time(1_000)
    rig.answer(200, bad)
    assert rig.execution(1).error == "check"


def test_good_check_forgives_bad_ones() -> None:
    """The count starts anew after a check that was answered well."""
    rig = polled()
    for outcome in ("fault", "status", "good", "fault", "status"):
        rig.pass_time(1_000)
        match outcome:
            case "fault":
                rig.fault(FaultKind.TIMEOUT)
            case "status":
                rig.answer(500)
            case _:
                rig.answer(200, {})
    assert rig.states() == [ExecutionState.PROCESSING]


def test_check_refused_by_the_guard_ends_at_once() -> None:
    """An address that the guard refuses will not be allowed by asking again."""
    rig = polled()
    rig.pass_time(1_000)
    rig.fault(FaultKind.EGRESS)
    assert rig.execution(1).error == "egress"
    # A check's answer that was cut is no report
    rig = polled()
    rig.pass_time(1_000)
    rig.deliver(CallEnded(rig.call.token, Answer(200, body=b'{"status":"succeed"}', truncated=True)))
    assert rig.context(1).failed_checks == 1
    # A check that cannot be rendered fails the attempt with `template`
    rig = started(checkUrl="http://target.test/${$.ticket}")
    rig.answer(200, {"other": 1})
    rig.pass_time(1_000)
    assert rig.execution(1).error == "template"


def test_retry_after_of_a_check_is_honoured() -> None:
    """`Retry-After` lengthens the pause to the next check, and of the last check that to the retry."""
    rig = polled()
    rig.pass_time(1_000)
    rig.answer(200, {}, headers={"retry-after": "7"})
    rig.pass_time(6_999)
    assert len(rig.calls()) == 2
    rig.pass_time(1)
    assert len(rig.calls()) == 3
    rig = polled(retry=[{"errorEquals": "check"}], timeoutSeconds=600)
    for wait in (1_000, 9_000, 9_000):
        rig.pass_time(wait)
        rig.answer(503, headers={"Retry-After": "9"})
    assert rig.record_of(AttemptEnded).retry_in == 9_000


def test_location_is_polled() -> None:
    """202 with Location and no checkUrl: it is polled; 202 runs on, another 2xx without status succeeds."""
    rig = started()
    rig.answer(202, headers={"location": "/jobs/7"})
    rig.pass_time(1_000)
    assert (rig.request.method, rig.request.url) == ("GET", "http://target.test/jobs/7")
    assert (rig.header("X-Scheduling-Job-Id"), rig.header("Idempotency-Key")) == ("job", "uid-1-check-1-1")
    rig.answer(202, {"progress": "1/2"})
    assert rig.states() == [ExecutionState.PROCESSING]
    rig.pass_time(1_000)
    rig.answer(200)
    assert rig.states() == [ExecutionState.SUCCEEDED]
    # Another 2xx of a Location counts by its `status` where it has one; nonsense is a failed check
    rig = started()
    rig.answer(202, headers={"location": "http://target.test/x"})
    rig.pass_time(1_000)
    rig.answer(200, {"status": "odd"})
    assert rig.context(1).failed_checks == 1
    rig.pass_time(1_000)
    rig.answer(200, {"status": "failed"})
    assert rig.execution(1).error == "failed"
    # A Location leads only where a whole URL from a response may
    rig = started()
    rig.answer(202, headers={"location": "http://elsewhere.test/x"})
    assert rig.execution(1).error == "egress"
    # It fails with `egress` and is not sent
    rig = started(checkUrl="${$.state}")
    rig.answer(200, {"state": "http://elsewhere.test/"})
    rig.pass_time(1_000)
    assert rig.execution(1).error == "egress"
    assert len(rig.calls()) == 1


def test_attempt_over_its_limit() -> None:
    """An asynchronous attempt over timeoutSeconds raises `timeout`, and calls cancelUrl."""
    cancel = {"url": "http://target.test/stop/${schedulingExecuteNumber}"}
    rig = started(timeoutSeconds=15, cancelUrl=cancel)
    rig.answer(200)
    rig.pass_time(15_000)
    ended = rig.execution(1)
    assert (ended.error, ended.failure_type) == ("timeout", FailureType.TIMEOUT)
    assert [one.request.url for one in rig.of(Inform, rig.effects)] == ["http://target.test/stop/1"]
    # A check that is in flight when the attempt runs out is stopped and recorded
    rig = polled(timeoutSeconds=3)
    rig.pass_time(3_000)
    assert rig.of(Abandon, rig.effects)[-1].token == rig.call.token
    assert rig.record_of(CheckEnded).error is not None
    rig.answer(200, {"status": "succeed"})
    assert rig.reply == Unchanged()


@each_row("body", [{"status": "Running"}, {"status": "succeed"}, b"accepted", None])
def test_a_location_that_answers_202_is_running(body: Any) -> None:
    """202 is running, whatever its body says."""
    rig = started()
    rig.answer(202, headers={"location": "/state"})
    rig.pass_time(1_000)
    rig.answer(202, body)
    assert rig.states() == [ExecutionState.PROCESSING]
    assert rig.context(1).failed_checks == 0
