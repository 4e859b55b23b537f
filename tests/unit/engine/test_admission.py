"""Which execution may run now: maxConcurrency, overlapPolicy and the queue before it (SPEC section 2)."""

from typing import Any

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.turn_events import AlarmRang, Backfilled, Triggered, Updated
from scheduler_service.engine.decision import STOPPING
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import EVERY_10, Rig, program, ticking

S = ExecutionState


def test_skip_records_the_firing() -> None:
    """Over the limit a firing is skipped: it keeps its number, and the ledger has it."""
    rig = ticking()
    rig.pass_time(20_000)
    assert rig.states() == [S.PROCESSING, S.SKIPPED]
    assert rig.ledger() == [(10_000, "fired", None), (20_000, "skipped", "overlap")]
    assert rig.execution(2).reason == "overlap"


def test_queue_runs_later_in_order() -> None:
    """`queue` lets firings wait in order, and skips those beyond `queueLimit`."""
    rig = ticking(overlapPolicy="queue", queueLimit=2)
    rig.pass_time(40_000)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED, S.SKIPPED]
    assert rig.execution(4).reason == "queue_full"
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING, S.ENQUEUED, S.SKIPPED]
    assert rig.ledger()[-1] == (20_000, "late", None)


def test_a_process_that_stops_begins_nothing_that_waits() -> None:
    """Neither queued, delayed, backfilled nor due, nor of a job of the system; the next one does it all."""
    for system in (False, True):
        rig = Rig()
        rig.programs[1] = program(
            overlapPolicy="queue",
            timer={"dueTime": "10s", "period": "0s"},
            retry=[{"errorEquals": "*", "intervalSeconds": 5}],
            system=system,
        )
        rig.create().deliver(Triggered())
        rig.deliver(Triggered())
        rig.deliver(Triggered(planned_at=rig.wall + 6_000))
        rig.deliver(Backfilled(moments=(rig.wall - 1_000,)))
        rig.held_back = STOPPING
        rig.answer(500)
        rig.stand_still(11_000)
        rig.deliver(AlarmRang())
        assert rig.open(1).attempts == 2, "a retry belongs to what runs"
        rig.answer()
        rig.deliver(Triggered())
        rig.deliver(AlarmRang())
        waiting = [S.ENQUEUED, S.SCHEDULED, S.ENQUEUED, S.ENQUEUED]
        assert rig.states() == [S.SUCCEEDED, *waiting]
        assert rig.ledger() == []
        assert rig.wait() == 0, "the next process looks at once"
        rig.held_back = None
        rig.deliver(AlarmRang())
        while S.PROCESSING in rig.states():
            rig.answer()
        assert rig.states() == [S.SUCCEEDED] * 6
        assert [outcome for _, outcome, _ in rig.ledger()] == ["fired"]


def test_cancel_running_ends_the_oldest() -> None:
    """`cancel_running` ends the oldest execution and starts the new one."""
    rig = ticking(overlapPolicy="cancel_running")
    rig.pass_time(20_000)
    assert rig.states() == [S.CANCELLED, S.PROCESSING]
    assert rig.execution(1).error == "cancelled"
    two = ticking(overlapPolicy="cancel_running", maxConcurrency=2)
    two.pass_time(30_000)
    assert two.states() == [S.CANCELLED, S.PROCESSING, S.PROCESSING]
    # Of firings that one turn finds, each ends the one before it: the newest runs
    found = ticking(overlapPolicy="cancel_running")
    found.stand_still(30_000)
    found.deliver(AlarmRang())
    assert found.states() == [S.CANCELLED, S.CANCELLED, S.PROCESSING]
    found = ticking(overlapPolicy="cancel_running")
    found.pass_time(10_000)
    found.stand_still(20_000)
    found.deliver(AlarmRang())
    assert found.states() == [S.CANCELLED, S.CANCELLED, S.PROCESSING]
    # Cancel running makes room for one: when the limit has sunk since, as many are ended as it takes
    rig = Rig(overlapPolicy="cancel_running", maxConcurrency=3).create()
    for _ in range(3):
        rig.deliver(Triggered())
    rig.programs[2] = program(overlapPolicy="cancel_running")
    rig.deliver(Updated(2))
    rig.deliver(Triggered())
    assert rig.states() == [S.CANCELLED] * 3 + [S.PROCESSING]


def test_allow_counts_no_limit() -> None:
    """`allow` starts everything."""
    rig = ticking(overlapPolicy="allow")
    rig.pass_time(30_000)
    assert rig.states() == [S.PROCESSING] * 3
    # Each turn looks at all open ones: beyond so many they wait, beyond `queueLimit` they are skipped
    rig = ticking(Surroundings(open_executions=2), overlapPolicy="allow", queueLimit=1)
    rig.pass_time(40_000)
    assert rig.states() == [S.PROCESSING, S.PROCESSING, S.ENQUEUED, S.SKIPPED]
    assert rig.execution(4).reason == "queue_full"
    rig.answer()
    assert rig.states() == [S.PROCESSING, S.SUCCEEDED, S.PROCESSING, S.SKIPPED]


def test_a_long_line_does_not_stand_still_under_allow() -> None:
    """It has more than may be open: as many run as may."""
    rig = ticking(Surroundings(open_executions=2), overlapPolicy="allow")
    rig.deliver(Backfilled((1_000, 2_000, 3_000, 4_000)))
    rig.deliver(Triggered())
    first, second = rig.calls()
    rig.answer(call=first)
    rig.answer(call=second)
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING, S.ENQUEUED, S.ENQUEUED, S.SUCCEEDED]


def test_max_concurrency_is_the_limit() -> None:
    """Up to `maxConcurrency` executions run at once."""
    rig = ticking(maxConcurrency=2)
    rig.pass_time(30_000)
    assert rig.states() == [S.PROCESSING, S.PROCESSING, S.SKIPPED]
    # An execution that waits for its retry counts for `maxConcurrency`
    rig = ticking(retry=[{"errorEquals": "500", "intervalSeconds": 60}])
    rig.pass_time(10_000)
    rig.answer(500)
    rig.pass_time(10_000)
    assert rig.states() == [S.FAILED, S.SKIPPED]


def test_the_line_moves_up_when_the_limit_goes() -> None:
    """After an update to `allow`, or to a higher limit, those in line start."""
    changes: list[dict[str, Any]] = [
        {"overlapPolicy": "allow"},
        {"overlapPolicy": "queue", "maxConcurrency": 5},
    ]
    for members in changes:
        rig = Rig(overlapPolicy="queue").create()
        for _ in range(3):
            rig.deliver(Triggered())
        rig.programs[2] = program(**members)
        rig.deliver(Updated(2))
        assert rig.states() == [S.PROCESSING] * 3
    # What ends in the turn in which it starts leaves its place to the next in line
    rig = Rig(overlapPolicy="queue").create()
    for _ in range(3):
        rig.deliver(Triggered())
    rig.programs[2] = program(overlapPolicy="cancel_running", request=[{"url": "http://t.test/${$.gone}"}])
    rig.deliver(Updated(2))
    rig.deliver(Triggered())
    assert rig.states() == [S.CANCELLED] + [S.TERMINATED] * 3


FIRE_ALL = {**EVERY_10, "misfire": {"policy": "fire_all", "limit": 3, "graceSeconds": 0}}


def found_late(**members: Any) -> Rig:
    """A job whose firings of 10, 20 and 30 s are found together at 35 s."""
    rig = ticking(timer=FIRE_ALL, qos=1, timeoutSeconds=100, **members)
    rig.stand_still(35_000)
    rig.deliver(AlarmRang())
    return rig


@each_row("policy", ["skip", "queue", "cancel_running", "allow"])
def test_a_backlog_runs_in_line_whatever_the_policy(policy: str) -> None:
    """`fire_all` runs its firings as if the policy were queue, whatever it is."""
    rig = found_late(overlapPolicy=policy)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED]
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING, S.ENQUEUED]


@each_row("policy", ["cancel_running", "allow", "queue"])
def test_who_comes_on_time_waits_behind_the_backlog(policy: str) -> None:
    """A firing on time neither ends nor overlaps the backlog, also after a crash in its middle."""
    rig = found_late(overlapPolicy=policy)
    rig.pass_time(5_000)
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED, S.ENQUEUED]
    rig.answer()
    rig.restart()
    rig.pass_time(10_000)
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING, *[S.ENQUEUED] * 3]
    rig.answer()
    rig.answer()
    after = [S.PROCESSING] * 2 if policy == "allow" else [S.PROCESSING, S.ENQUEUED]
    assert rig.states() == [S.SUCCEEDED] * 3 + after


def test_the_policy_is_back_after_the_backlog() -> None:
    """Without a backlog `cancel_running` cancels again, and `queueLimit` bounds who waits behind one."""
    rig = found_late(overlapPolicy="cancel_running")
    for _ in range(3):
        rig.answer()
    rig.pass_time(5_000)
    rig.pass_time(10_000)
    assert rig.states() == [S.SUCCEEDED] * 3 + [S.CANCELLED, S.PROCESSING]
    full = found_late(overlapPolicy="cancel_running", queueLimit=2)
    full.pass_time(5_000)
    assert full.execution(4).reason == "queue_full"
    # `allow` starts a trigger beside the backlog; under `cancel_running` it waits
    for policy, state in (("allow", S.PROCESSING), ("cancel_running", S.ENQUEUED)):
        rig = found_late(overlapPolicy=policy)
        rig.deliver(Triggered())
        assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED, state]
