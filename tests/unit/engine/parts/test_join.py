"""What the ends of a step's parts come to: an array, a partial failure, a retry (SPEC section 13)."""

import msgspec

from scheduler_service.domain.effects import AbandonPart, Inform, ResolveInstances
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, ResultKept
from scheduler_service.domain.replies import Taken, Unchanged
from scheduler_service.domain.turn_events import CallEnded, InstancesResolved
from scheduler_service.domain.wire import Answer, Fault, FaultKind, Token
from scheduler_service.engine.program import Surroundings
from tests.unit.engine.parts.service_rig import (
    SHARDED,
    answer,
    asynchronous,
    parted,
    parts_of,
    report,
    steps_of,
)
from tests.unit.engine.rig import Rig

S = ExecutionState


def test_the_array_feeds_the_next_step() -> None:
    """Later templates see the parts' responses in part order; what is no JSON is text, nothing is null."""
    reader = {"url": "http://target.test/", "body": "${A}|json"}
    rig = parted(
        SHARDED | {"respEnvName": "A"}, "a", "b", "c", request=[SHARDED | {"respEnvName": "A"}, reader]
    )
    answer(rig, 1, 200, b"plain")
    answer(rig, 2, 204)
    answer(rig, 0, 200, {"x": 1})
    assert rig.sent_body() == [{"x": 1}, "plain", ""]


def test_a_mixed_end_is_partial() -> None:
    """Some parts succeed and some fail: error `partial`, said when all have ended."""
    rig = parted(SHARDED, "a", "b", "c", notification=[{"url": "http://caller.test/"}])
    answer(rig, 0, 500)
    answer(rig, 1)
    assert rig.states() == [S.PROCESSING]
    answer(rig, 2)
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (S.TERMINATED, "partial", FailureType.PARTIAL)
    assert [event for event, _ in rig.told()] == ["partial", "finalFailed"]
    # A mixed end leads with what a part said
    rig = parted(SHARDED, "a", "b")
    answer(rig, 0, 500, {"message": "no stock"})
    answer(rig, 1)
    assert rig.record_of(AttemptEnded).message == "no stock (500); 1 of 2 parts failed"
    mixed = asynchronous("a", "b")
    report(mixed, 1, status="succeed")
    report(mixed, 0, status="failed", error="e1", message="x" * 5_000)
    assert mixed.record_of(AttemptEnded).message == "x" * 4_095 + "…"
    # Some succeed and some fail; where all fail the first one's code is the error
    mixed = asynchronous("a", "b")
    report(mixed, 1, status="succeed")
    report(mixed, 0, status="failed", error="e1")
    assert (mixed.execution(1).error, mixed.execution(1).failure_type) == ("partial", FailureType.PARTIAL)
    failed = asynchronous("a", "b", route="broadcast")
    report(failed, 1, status="failed", error="e2")
    report(failed, 0, status="failed", error="e1")
    assert (failed.execution(1).error, failed.execution(1).failure_type) == ("e1", FailureType.BUSINESS)


def test_where_all_fail_the_first_one_says_why() -> None:
    """Nothing succeeded, so nothing is partial: the code of the first part that failed is the step's."""
    rig = parted(SHARDED, "a", "b")
    answer(rig, 1, 500)
    answer(rig, 0, 404)
    assert rig.execution(1).error == "404"
    # The longest one that any part asks for
    rig = parted(SHARDED, "a", "b", retry=[{"errorEquals": "503"}])
    answer(rig, 0, 503, headers={"Retry-After": "5"})
    answer(rig, 1, 503, headers={"Retry-After": "9"})
    assert rig.wait() == 9_000


def test_one_part_hangs() -> None:
    """The attempt's limit ends the step: what is open is given up, and history says which part that was."""
    rig = parted(SHARDED, "a", "b", cancelUrl={"url": "service://shop/stop"})
    answer(rig, 0)
    rig.pass_time(60_000)
    assert (rig.execution(1).error, rig.execution(1).failure_type) == ("500", FailureType.TIMEOUT)
    assert [one.token for one in rig.of(AbandonPart, rig.effects)] == [parts_of(rig)[1].token]
    assert len(rig.of(Inform, rig.effects)) == 1
    assert [(step.part, step.error) for step in steps_of(rig)] == [(0, None), (1, "timeout")]
    # The HTTP timeout of one call ends that part alone
    rig = parted(SHARDED, "a", "b")
    answer(rig, 0)
    rig.deliver(CallEnded(parts_of(rig)[1].token, Fault(FaultKind.TIMEOUT, "slow")))
    assert rig.execution(1).error == "partial"


def test_late_doubled_and_foreign_answers_change_nothing() -> None:
    """Each answer counts once, for the call that awaits it."""
    rig = parted(SHARDED, "a", "b")
    first = parts_of(rig)[0].token
    found = rig.of(ResolveInstances, rig.effects)[0]
    assert isinstance(rig.deliver(InstancesResolved(found.token, ())).reply, Unchanged)
    assert isinstance(rig.deliver(CallEnded(first, Answer(200))).reply, Taken)
    for token in (
        first,
        msgspec.structs.replace(first, uid="else"),
        msgspec.structs.replace(first, request_counts=2),
        Token("uid", 1, 1, found.token.kind, first.serial),
        found.token,
    ):
        assert isinstance(rig.deliver(CallEnded(token, Answer(500))).reply, Unchanged)
    assert rig.states() == [S.PROCESSING]


def test_bodies_beyond_the_limit() -> None:
    """All parts together keep no more than one response may have; where a later step needs them it fails."""
    reader = {"url": "http://target.test/", "body": "${A}|json"}
    step = SHARDED | {"respEnvName": "A"}
    for request, end in (([step], S.SUCCEEDED), ([step, reader], S.TERMINATED)):
        rig = parted(None, "a", "b", request=request)
        answer(rig, 0, 200, "x" * 600_000)
        answer(rig, 1, 200, "y" * 600_000)
        assert rig.states() == [end]
    assert rig.execution(1).error == "response_too_large"
    # A part is kept without its body then; where a later step needs it, the step fails
    reader = {"url": "http://target.test/", "body": "${A}|json"}
    step = SHARDED | {"respEnvName": "A"}
    for request, end in (([step], S.SUCCEEDED), ([step, reader], S.TERMINATED)):
        rig = parted(None, "a", "b", request=request)
        answer(rig, 0, 200, "x" * 4_990)
        rig.is_full = True
        answer(rig, 1, 200, "y" * 4_990)
        assert rig.states() == [end]
    assert rig.execution(1).error == "response_too_large"
    # What parts leave for later steps counts with the rest
    names = [{"url": "http://target.test/", "respEnvName": f"r{n}"} for n in range(4)]
    reader = {"url": "http://target.test/", "body": [*(f"${{r{n}}}|json" for n in range(4)), "${A}|json"]}
    steps = [*names, SHARDED | {"respEnvName": "A"}, reader]
    rig = Rig(Surroundings(response_bytes=100), request=steps).without_instances().triggered()
    for _ in names:
        rig.answer(200, "x" * 90)
    rig.resolve("a", "b", route="shard")
    answer(rig, 0, 200, "y" * 20)
    answer(rig, 1, 200, "y" * 20)
    assert (rig.execution(1).error, rig.states()) == ("response_too_large", [S.TERMINATED])


def test_the_array_is_the_result() -> None:
    """Of a step that goes to several instances, also where one's answer is no text, and of their reports."""
    rig = parted(SHARDED, "a", "b", "c", keepResult=True)
    answer(rig, 1, 200, b"\xff")
    answer(rig, 2, 200, b"text")
    answer(rig, 0, 200, {"x": 1})
    assert rig.record_of(ResultKept) == ResultKept(1, b'[{"x":1},null,"text"]', 200, "application/json")
    reported = asynchronous("a", "b", keepResult=True)
    report(reported, 1, status="succeed", data=1)
    report(reported, 0, status="succeed", data=0)
    assert (
        reported.record_of(ResultKept).body
        == b'[{"status":"succeed","data":0},{"status":"succeed","data":1}]'
    )
