"""After a crash: what goes on, what is sent again, what is lost (SPEC section 8)."""

from msgspec.structs import replace

from scheduler_service.domain.document import Checking, CheckWaiting, Document
from scheduler_service.domain.execution import ExecutionState, FailureType
from scheduler_service.domain.records import AttemptEnded, AttemptStarted
from scheduler_service.domain.replies import RefusalCode, Taken, Unchanged
from scheduler_service.domain.turn_events import (
    AlarmRang,
    CallEnded,
    CancelRequested,
    FeedbackArrived,
    HandedOver,
    Resumed,
    Triggered,
    Unsent,
)
from scheduler_service.domain.wire import Answer, Holder
from scheduler_service.engine.document_bytes import decode, encode, without_contexts
from scheduler_service.engine.feedback_url import feedback_token
from tests.rows import each_row
from tests.unit.engine.rig import CHAIN, START, Rig, running

S = ExecutionState


def test_qos_1_sends_the_step_in_flight_again() -> None:
    """The step in flight is sent again byte for byte with the same key; an answered one is not."""
    rig = running(1)
    before = rig.request
    rig.restart()
    assert [call.request for call in rig.calls()] == [before]
    rig.answer(200)
    assert rig.states() == [S.SUCCEEDED]
    # A call that lives is not sent again
    rig = running(1)
    token = rig.call.token
    rig.effects.clear()
    rig.deliver(Resumed((token,)))
    assert rig.calls() == []
    rig.deliver(Resumed())
    assert [call.token for call in rig.calls()] == [token]


@each_row(
    ("asynchronous", "timeout", "down", "awaited"),
    [
        (True, 600, 100_000, 500_000),
        (True, 600, 700_000, 60_000),
        (False, 30, 10_000, 30_000),
        (False, 600, 700_000, 0),
    ],
)
def test_what_is_sent_again_is_awaited_anew(
    asynchronous: bool, timeout: int, down: int, awaited: int
) -> None:
    """Its bytes are the same; its deadline is that of the new sending, which downtime does not shorten."""
    rig = Rig(**{"async": asynchronous}, timeoutSeconds=timeout, qos=1).triggered()
    before = rig.request
    rig.stand_still(down)
    rig.restart()
    [again] = [call.request for call in rig.calls()]
    assert (again.headers, again.body, again.url) == (before.headers, before.body, before.url)
    assert again.awaited == awaited


def test_qos_0_is_lost() -> None:
    """An execution of qos 0 that a crash cut off ends as lost, with a notification and without a retry."""
    rig = running(0, retry=[{"errorEquals": "*"}], notification=[{"url": "http://caller.test/"}])
    rig.restart()
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (S.TERMINATED, "lost", FailureType.LOST)
    assert [event for event, _ in rig.told()] == ["finalFailed"]
    assert rig.told()[0][1]["response"]["error"] == "lost"
    assert rig.calls() == []
    # The same for one that waited for its retry
    rig = running(0, retry=[{"errorEquals": "*", "intervalSeconds": 60}])
    rig.answer(500)
    rig.restart()
    assert rig.execution(1).error == "lost"
    # Feedback for a lost attempt is stale
    rig = Rig(**{"async": True}).triggered()
    rig.restart()
    assert rig.refusal(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {})).code is RefusalCode.STALE
    # Accepted triggers that still wait go on after a crash at qos 0 too; the line moves up
    rig = Rig(overlapPolicy="queue").create()
    for _ in range(2):
        rig.deliver(Triggered(params=b'{"n":1}'))
    rig.deliver(Triggered(planned_at=START + 9_000))
    rig.restart()
    assert rig.states() == [S.TERMINATED, S.PROCESSING, S.SCHEDULED]


def test_qos_1_whose_context_its_store_has_lost() -> None:
    """It ends as lost, with the store named; the job goes on with its numbers and its timer."""
    rig = running(1, timer={"dueTime": "0s", "period": "60s"})
    before = rig.head.execute_number
    due = rig.head.next_fire
    bare = without_contexts(encode(rig.document))
    assert bare is not None
    rig.document = decode(bare)
    rig.restart()
    ended = rig.execution(1)
    assert (ended.state, ended.error, ended.failure_type) == (S.TERMINATED, "lost", FailureType.LOST)
    attempts = [record for record in rig.records if isinstance(record, AttemptEnded)]
    assert "contexts.url" in (attempts[-1].message or "")
    assert rig.head.next_fire == due
    rig.deliver(Triggered())
    assert rig.head.execute_number == before + 1


def test_downtime_is_not_held_against_the_target() -> None:
    """After recovery a limit ends no sooner than min(timeoutSeconds, 60 s) from now."""
    rig = running(1, timeoutSeconds=300)
    rig.stand_still(3_600_000)
    rig.restart()
    assert rig.states() == [S.PROCESSING]
    rig.pass_time(59_999)
    assert rig.states() == [S.PROCESSING]
    rig.pass_time(1)
    assert rig.execution(1).error == "500"


def test_waits_are_durable() -> None:
    """A wait for a check and one for a retry go on where they stood."""
    checked = Rig(qos=1, **{"async": True}, checkUrl="http://target.test/s", checkRateSeconds=10).triggered()
    checked.answer(200)
    checked.restart()
    assert isinstance(checked.context(1).phase, CheckWaiting)
    checked.pass_time(10_000)
    assert isinstance(checked.context(1).phase, Checking)
    checked.restart()
    assert checked.header("Idempotency-Key") == "uid-1-check-1-1"
    retried = running(1, retry=[{"errorEquals": "500", "intervalSeconds": 5}])
    retried.answer(500)
    retried.restart()
    retried.pass_time(5_000)
    assert retried.call.token.request_counts == 2


def test_verdict_survives() -> None:
    """Every accepted feedback has its effect: a verdict that waits for the chain's end is durable."""
    rig = Rig(qos=1, **{"async": True}).triggered()
    rig.deliver(FeedbackArrived(1, feedback_token(b"key", "uid", 1), {"status": "failed", "error": "e"}))
    rig.restart()
    rig.answer(200)
    assert rig.execution(1).error == "e"
    # An execution whose context is gone waits for its recovery; an alarm changes nothing
    rig = running(0)
    rig.document = Document(rig.head, {})
    token = rig.call.token
    rig.deliver(AlarmRang())
    rig.deliver(CallEnded(token, Answer(200)))
    assert rig.states() == [S.PROCESSING]


def elsewhere(rig: Rig) -> Rig:
    """The same job as another node reads it: what was durable, and a holder of its own."""
    other = Rig(request=CHAIN).create()
    other.document = decode(encode(rig.document))
    other.holder = Holder("other", "boot-1")
    return other


@each_row("qos", [0, 1])
def test_what_a_node_gives_away_goes_on_with_all_that_it_knew(qos: int) -> None:
    """The context of qos 0 is nowhere but in the memory of the node that leaves (SPEC section 14)."""
    rig = running(qos)
    token = rig.call.token
    assert rig.deliver(HandedOver()).effects == ()
    other = elsewhere(rig)
    limit = other.context(1).deadline
    other.pass_time(limit - other.now.steady - 1)
    other.deliver(Resumed(alive=(token,)))
    assert (other.open(1).holder, other.calls()) == (other.holder, [])
    assert other.context(1).deadline == limit, "it lasts no longer than if the job had stayed"
    other.deliver(CallEnded(token, Answer(200)))
    assert other.execution(1).state is S.SUCCEEDED


@each_row("qos", [0, 1])
def test_a_call_that_went_on_at_a_node_that_died_is_not_sent_again_at_qos_0(qos: int) -> None:
    """Its node gave the job away; what never left, as it was stopping, is sent at either qos."""
    rig = running(qos)
    token = rig.call.token
    rig.deliver(HandedOver())
    other = elsewhere(rig)
    other.deliver(Resumed(gone=(token,)))
    assert [call.token for call in other.calls()] == [token] * qos
    assert other.states() == [S.PROCESSING if qos else S.TERMINATED]
    other = elsewhere(rig)
    other.deliver(Resumed(gone=(replace(token, serial=9),)))
    assert [call.token for call in other.calls()] == [token]


def test_what_another_node_has_taken_up_is_not_given_away() -> None:
    """A node lets go of what it holds itself."""
    rig = elsewhere(running(1))
    rig.deliver(HandedOver())
    assert rig.open(1).holder not in (None, rig.holder)


@each_row("qos", [0, 1])
def test_a_call_that_was_never_made_is_made(qos: int) -> None:
    """Byte for byte, at either qos, as often as it stayed; nothing else of the job is touched."""
    rig = running(qos)
    before = rig.call
    document = rig.document
    rig.effects.clear()
    assert rig.deliver(Unsent(before.token, Holder("other", "boot-1"))).reply == Taken()
    assert rig.effects == [before]
    assert rig.document == document


def test_a_call_that_nobody_awaits_is_not_made() -> None:
    """Of a step that was answered, an attempt that is over, an execution that ended, another life."""
    rig = running(1)
    first, second = (call.token for call in rig.calls())
    for token in (first, replace(second, request_counts=9), replace(second, execute_number=9)):
        assert rig.deliver(Unsent(token, rig.holder)).effects == ()
    assert rig.deliver(Unsent(replace(second, uid="another life"), rig.holder)).effects == ()
    rig.answer(200)
    assert rig.deliver(Unsent(second, rig.holder)).effects == ()
    assert rig.deliver(Unsent(second, rig.holder)).reply == Unchanged()
    # A call of an execution that another node has is left to it
    rig = running(1)
    other = elsewhere(rig)
    assert other.deliver(Unsent(rig.call.token, rig.holder)).effects == ()
    rig.deliver(HandedOver())
    other = elsewhere(rig)
    other.deliver(Resumed(alive=(rig.call.token,)))
    assert [call.token for call in other.calls()] == []
    other.deliver(Unsent(rig.call.token, rig.holder))
    assert [call.token for call in other.calls()] == [rig.call.token]


HOUR = 3_600_000


def set_back(rig: Rig) -> None:
    """The process dies, the clock is set back by an hour, and another process takes over."""
    rig.wall -= HOUR
    rig.steady -= HOUR
    rig.restart()


def test_no_limit_gets_longer_than_it_was() -> None:
    """A clock that is set back while no process runs sets steady time back: no limit waits for that hour."""
    rig = Rig(qos=1, timeoutSeconds=30, **{"async": True}).triggered()
    rig.pass_time(20_000)
    set_back(rig)
    assert rig.wait() == 30_000
    rig.pass_time(30_000)
    assert (rig.states(), rig.execution(1).error) == ([S.TERMINATED], "timeout")
    # No retry waits longer than its interval: the same for the wait before the next attempt
    rig = running(1, retry=[{"errorEquals": "*", "intervalSeconds": 7}])
    rig.answer(500)
    set_back(rig)
    assert rig.wait() == 7_000
    rig.pass_time(7_000)
    assert len(rig.calls()) == 1
    # The same for the wait before the next check, also one that the target asked for
    check = {"checkUrl": {"url": "http://target.test/check"}, "checkRateSeconds": 5}
    rig = Rig(qos=1, timeoutSeconds=600, **{"async": True}, **check).triggered()
    rig.answer(200)
    set_back(rig)
    assert rig.wait() == 5_000
    rig.pass_time(5_000)
    rig.answer(503, headers={"Retry-After": "40"})
    set_back(rig)
    assert rig.wait() == 40_000
    # An earlier version did not keep it: the wait ends when it was planned
    rig = running(1, retry=[{"errorEquals": "*", "intervalSeconds": 7}])
    rig.answer(500)
    context = rig.document.contexts[1]
    older = replace(context, phase=replace(context.phase, wait=None))
    rig.document = Document(rig.head, {1: older})
    rig.restart()
    assert rig.wait() == 7_000


def test_nothing_ends_before_it_has_started() -> None:
    """The moments of an execution and its attempts rise, whatever the clock says (SPEC section 10)."""
    rig = running(1)
    started = rig.execution(1).started_at
    set_back(rig)
    rig.answer(200)
    ended = rig.execution(1)
    assert ended.started_at == started
    assert ended.ended_at == started
    moments = [one.at for one in rig.records if isinstance(one, (AttemptStarted, AttemptEnded))]
    assert moments == sorted(moments)


def test_work_without_a_limit_goes_on_for_years() -> None:
    """`timeoutSeconds` 0: after a restart too; a cancel ends it."""
    rig = Rig(timeoutSeconds=0, qos=1, **{"async": True}).triggered()
    rig.answer()
    for _ in range(2):
        rig.pass_time(3 * 365 * 86_400_000)
        rig.restart()
    assert rig.states() == [S.PROCESSING]
    rig.deliver(CancelRequested(1, "enough"))
    assert rig.states() == [S.CANCELLED]
