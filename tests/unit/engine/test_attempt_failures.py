"""So many failures in a row pause their job (SPEC section 2, `pauseAfterFailures`)."""

from typing import Any

from scheduler_service.domain.audit_acts import OwnAct
from scheduler_service.domain.effects import ReportPause
from scheduler_service.domain.execution import ExecutionState as State
from scheduler_service.domain.records import Audited
from scheduler_service.domain.turn_events import (
    Activated,
    CancelRequested,
    Replay,
    Triggered,
    Updated,
)
from tests.rows import each_row
from tests.unit.engine.rig import EVERY_10, Rig, program

GONE = {"X-Job-State": "gone"}


def job(most: int = 3, **members: Any) -> Rig:
    """A job that `most` failures in a row pause, started by hand."""
    return Rig(pauseAfterFailures=most, **members).create()


def run(rig: Rig, *statuses: int) -> None:
    """An execution for each status, one after the other."""
    for status in statuses:
        rig.deliver(Triggered())
        rig.answer(status)


def is_paused(rig: Rig) -> bool:
    return rig.summary.state == "paused"


def test_so_many_failures_in_a_row_pause_the_job() -> None:
    """With the reason `failures`, a line of the audit and one of the log; a success begins anew."""
    rig = job()
    run(rig, 500, 500, 200, 500, 500)
    assert not is_paused(rig)
    run(rig, 404)
    assert is_paused(rig)
    assert (rig.head.pause_reason, rig.head.paused_at) == ("failures", rig.wall)
    assert rig.of(ReportPause, rig.effects) == [ReportPause("failures", 6)]
    line = rig.record_of(Audited)
    assert (line.act.operation, line.act.who, line.execute_number) == (OwnAct.PAUSE_OF_FAILURES, "system", 6)
    assert line.act.detail == b'{"given":{"failures":"3"}}'
    # A job that does not ask pays nothing
    rig = Rig().create()
    run(rig, *[500] * 20)
    assert rig.head.failures == 0
    assert not is_paused(rig)


def test_a_timer_fires_no_more_and_goes_on_when_resumed() -> None:
    """The pause's firings are those of any pause; the way back counts from 0."""
    rig = Rig(pauseAfterFailures=2, timer=EVERY_10).create()
    for _ in range(2):
        rig.pass_time(10_000)
        rig.answer(500)
    rig.pass_time(60_000)
    assert len(rig.states()) == 2
    rig.deliver(Activated())
    assert rig.head.failures == 0
    rig.pass_time(10_000)
    rig.answer(500)
    assert not is_paused(rig)
    rig.pass_time(10_000)
    rig.answer(500)
    assert is_paused(rig)
    assert [outcome for _, outcome, _ in rig.ledger()] == ["fired", "fired", "skipped", "fired", "fired"]


def test_only_the_end_of_an_execution_counts() -> None:
    """A failed attempt with a retry left is none."""
    rig = job(1, retry=[{"errorEquals": "500", "maxAttempts": 2, "intervalSeconds": 1, "backoffRate": 1}])
    run(rig, 500)
    for _ in range(2):
        assert not is_paused(rig)
        rig.pass_time(1_000)
        rig.answer(500)
    assert is_paused(rig)
    # Neither as a failure nor as a success between two
    rig = job(2)
    run(rig, 500)
    rig.deliver(Triggered())
    rig.deliver(Triggered())  # skipped: the one before it runs
    rig.deliver(CancelRequested(2))
    assert rig.states() == [State.TERMINATED, State.CANCELLED, State.SKIPPED]
    assert rig.head.failures == 1
    run(rig, 500)
    assert is_paused(rig)
    # One that succeeds ends the row
    rig = job(2)
    for status in (200, 500):
        run(rig, 500)
        assert not is_paused(rig)
        rig.deliver(Triggered(replay=Replay(1)))
        rig.answer(status)
    assert is_paused(rig)
    # One that a crash cut off counts: it ended as terminated, with the error `lost`
    rig = job(2, qos=0)
    run(rig, 500)
    rig.deliver(Triggered())
    rig.restart()
    assert rig.execution(2).error == "lost"
    assert is_paused(rig)


@each_row("qos", [0, 1])
def test_the_count_outlives_the_process(qos: int) -> None:
    """It is in the head, which is durable at both qos."""
    rig = job(2, qos=qos)
    run(rig, 500)
    rig.restart()
    run(rig, 500)
    assert is_paused(rig)


def test_failures_count_in_the_order_of_their_ends() -> None:
    """With several at once too; those that run go on, and a late success begins anew without a way back."""
    rig = job(2, maxConcurrency=3)
    calls = []
    for _ in range(3):
        rig.deliver(Triggered())
        calls.append(rig.call)
    rig.answer(500, call=calls[2])
    rig.answer(500, call=calls[0])
    assert is_paused(rig)
    rig.answer(200, call=calls[1])
    assert rig.states() == [State.TERMINATED, State.SUCCEEDED, State.TERMINATED]
    assert is_paused(rig)
    assert rig.head.failures == 0


def test_waiting_firings_are_skipped_and_triggers_stay() -> None:
    """As where the target does not know the job."""
    rig = Rig(pauseAfterFailures=1, timer={"dueTime": "0s", "period": "1s"}, overlapPolicy="queue").create()
    rig.pass_time(1_000)
    rig.deliver(Triggered())
    rig.answer(500)
    assert rig.ledger()[-1][1:] == ("skipped", "failures")
    assert rig.states() == [State.TERMINATED, State.CANCELLED, State.PROCESSING]


def test_an_update_counts_anew_and_keeps_the_pause() -> None:
    """What failed was the definition before; without `active` the job stays as it is."""
    rig = job(3)
    run(rig, 500, 500)
    rig.programs[2] = program(pauseAfterFailures=3, jobName="mended")
    rig.deliver(Updated(2))
    run(rig, 500, 500)
    assert not is_paused(rig)
    run(rig, 500)
    rig.programs[3] = program(pauseAfterFailures=3, jobName="mended again")
    rig.deliver(Updated(3))
    assert (rig.summary.state, rig.head.pause_reason) == ("paused", "failures")


def test_a_job_that_its_target_does_not_know_is_gone_first() -> None:
    """That reason says more."""
    rig = job(1)
    rig.deliver(Triggered())
    rig.answer(410, headers=GONE)
    assert rig.head.pause_reason == "gone"
    assert len(rig.of(ReportPause, rig.effects)) == 1
