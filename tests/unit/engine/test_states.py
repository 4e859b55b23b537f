"""The states of an execution and of its job, and which may follow which (SPEC section 10)."""

import pytest

from scheduler_service.domain.execution import ExecutionState, JobState
from scheduler_service.domain.turn_events import AlarmRang, CancelRequested, Triggered, Updated
from scheduler_service.engine.states import LIVE, TERMINAL, TRANSITIONS, WAITING, follow
from tests.unit.engine.rig import START, Rig, program

S = ExecutionState
MAY_FOLLOW = {
    (S.SCHEDULED, S.ENQUEUED),
    (S.SCHEDULED, S.SKIPPED),
    (S.SCHEDULED, S.CANCELLED),
    (S.ENQUEUED, S.PROCESSING),
    (S.ENQUEUED, S.SKIPPED),
    (S.ENQUEUED, S.CANCELLED),
    (S.PROCESSING, S.SUCCEEDED),
    (S.PROCESSING, S.FAILED),
    (S.PROCESSING, S.CANCELLED),
    (S.FAILED, S.PROCESSING),
    (S.FAILED, S.CANCELLED),
    (S.FAILED, S.TERMINATED),
}
EVERY_10 = {"dueTime": "10s", "period": "10s"}


def test_states_follow_the_table() -> None:
    """`scheduled → enqueued → processing → …`: twelve steps are allowed, and no other."""
    for before in S:
        for after in S:
            if (before, after) in MAY_FOLLOW:
                assert follow(before, after) is after
            else:
                with pytest.raises(AssertionError, match=f"from {before} to {after}"):
                    follow(before, after)
    assert {S.SUCCEEDED, S.TERMINATED, S.CANCELLED, S.SKIPPED} == TERMINAL
    assert LIVE | WAITING | TERMINAL == set(S) == TRANSITIONS.keys()


def test_a_failed_attempt_without_retry_passes_through_failed() -> None:
    """`processing → failed → terminated`, and with a retry `failed → processing`."""
    rig = Rig(retry=[{"errorEquals": "500", "maxAttempts": 1}]).create()
    rig.deliver(Triggered())
    rig.answer(500)
    assert rig.states() == [S.FAILED]
    rig.pass_time(1_000)
    assert rig.states() == [S.PROCESSING]
    rig.answer(404)
    assert rig.states() == [S.TERMINATED]
    assert (S.PROCESSING, S.TERMINATED) not in MAY_FOLLOW


def test_an_end_while_a_retry_waits_is_cancelled() -> None:
    """`failed → cancelled` when it is ended while a retry waits; the retry never comes."""
    rig = Rig(retry=[{"errorEquals": "500"}]).create()
    rig.deliver(Triggered())
    rig.answer(500)
    rig.deliver(CancelRequested(1, "enough"))
    ended = rig.execution(1)
    assert (ended.state, ended.reason, ended.error) == (S.CANCELLED, "enough", "cancelled")
    rig.pass_time(60_000)
    assert len(rig.calls()) == 1


def test_a_job_is_finished_when_nothing_is_live_or_waiting() -> None:
    """No further firing, nothing live, nothing waiting; `external` is never finished."""
    rig = Rig(timer={"dueTime": "10s", "period": "0s"}).create()
    rig.deliver(Triggered(planned_at=START + 20_000))
    rig.pass_time(10_000)
    assert rig.summary.next_fire is None
    seen = []
    for wait in (10_000, 0, 0):
        seen.append(rig.summary.state)
        rig.answer()
        seen.append(rig.summary.state)
        rig.pass_time(wait)
    assert seen == [JobState.ACTIVE] * 3 + [JobState.FINISHED] * 3, "runs, waits, runs, finished"
    external = Rig().create()
    external.deliver(Triggered())
    external.answer()
    assert external.summary.state is JobState.ACTIVE


def test_a_finished_job_runs_by_trigger() -> None:
    """Also for finished jobs; then it is finished again."""
    rig = Rig(timer=None).create()
    rig.answer()
    assert rig.summary.state is JobState.FINISHED
    rig.deliver(Triggered())
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING]
    rig.answer()
    assert rig.summary.state is JobState.FINISHED


def test_a_clock_set_forward_makes_misfires() -> None:
    """What the clock passed over was missed: here an hour of firings becomes one, and the timer goes on."""
    rig = Rig(timer={**EVERY_10, "misfire": {"graceSeconds": 5}}).create()
    rig.wall += 3_600_000
    rig.deliver(AlarmRang())
    assert rig.ledger()[0] == (10_000, "skipped", "misfire")
    assert rig.summary.missed == 358
    assert rig.summary.next_fire == START + 3_610_000


def test_a_skipped_execution_sends_nothing() -> None:
    """Skipped executions are in the ledger and the history, without a notification."""
    rig = Rig(timer=EVERY_10, notification=[{"url": "http://caller.test/"}]).create()
    rig.pass_time(20_000)
    assert rig.states() == [S.PROCESSING, S.SKIPPED]
    assert rig.told() == []


def test_what_is_relative_counts_from_the_update() -> None:
    """`ttl` and a relative `dueTime` count from the update, not from the creation (SPEC section 10)."""
    timer = {"dueTime": "10s", "period": "10s", "ttl": "25s"}
    rig = Rig(timer=timer, overlapPolicy="allow").create()
    rig.pass_time(12_000)
    rig.programs[2] = program(timer=timer, overlapPolicy="allow")
    rig.deliver(Updated(2))
    rig.pass_time(100_000)
    assert [moment for moment, _, _ in rig.ledger()] == [10_000, 22_000, 32_000]
    assert rig.summary.next_fire is None
