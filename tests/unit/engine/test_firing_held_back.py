"""What a tenant may not begin now: firings stay due, triggers are refused (SPEC sections 3 and 14)."""

from msgspec.structs import replace

from scheduler_service.domain.execution import ExecutionState as S
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import ReachedLimit, RefusalCode, StartedMany
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    Backfilled,
    Paused,
    Triggered,
    Updated,
)
from scheduler_service.engine.program import Surroundings
from tests.unit.engine.rig import START, Rig, program, ticking

LIMIT = ReachedLimit("tenant_executions_per_minute", 3, 1_500)


def test_a_firing_stays_due_and_fires_when_there_is_room() -> None:
    """Nothing of it is recorded meanwhile, and it keeps its moment."""
    rig = ticking()
    rig.held_back = LIMIT
    rig.stand_still(10_000)
    before = rig.document
    decision = rig.deliver(AlarmRang())
    assert (decision.document, decision.effects, decision.records) == (before, (), ())
    rig.stand_still(1_500)
    rig.held_back = None
    rig.deliver(AlarmRang())
    assert rig.ledger() == [(10_000, "late", None)]
    assert rig.execution(1).planned_at == START + 10_000


def test_what_is_far_behind_is_ruled_by_the_misfire_policy() -> None:
    """As after downtime: the missed ones become one, which carries the latest missed moment."""
    rig = ticking()
    rig.held_back = LIMIT
    rig.stand_still(5 * MINUTE)
    rig.deliver(AlarmRang())
    assert rig.ledger() == []
    rig.held_back = None
    rig.deliver(AlarmRang())
    outcomes = [outcome for _, outcome, _ in rig.ledger()]
    assert outcomes[0] == "skipped"
    assert "late" in outcomes


def test_few_that_are_left_begin_and_the_others_stay_due() -> None:
    """Late ones, those that `fire_all` catches up, and delayed triggers; jobs of the system all begin."""
    few = ReachedLimit(LIMIT.name, LIMIT.value, LIMIT.retry_after, left=2)
    late = Rig(
        timer={"dueTime": "10s", "period": "10s", "misfire": {"graceSeconds": 3_600}}, overlapPolicy="allow"
    )
    caught_up = Rig(timer={"dueTime": "10s", "period": "10s", "misfire": {"policy": "fire_all"}})
    triggered = Rig(overlapPolicy="allow")
    for rig in (late, caught_up, triggered):
        rig.create()
    for second in range(5):
        triggered.deliver(Triggered(planned_at=START + second + 1))
    for rig in (late, caught_up, triggered):
        rig.held_back = few
        rig.stand_still(5 * MINUTE)
        rig.deliver(AlarmRang())
        assert len(rig.calls()) == (2 if rig is not caught_up else 1), "of a line one at a time"
        assert rig.document is not None
        assert rig.document.head.execute_number == (2 if rig is not triggered else 5)
        rig.held_back = None
        rig.deliver(AlarmRang())
        assert rig.document.head.execute_number == (30 if rig is not triggered else 5)


def test_a_trigger_is_refused_by_name_and_a_later_one_is_taken() -> None:
    """With the value, and when to ask again."""
    rig = Rig().create()
    rig.held_back = LIMIT
    refusal = rig.refusal(Triggered())
    assert (refusal.code, refusal.limit) == (RefusalCode.LIMIT, LIMIT)
    assert "limits.tenant_executions_per_minute" in refusal.message
    rig.deliver(Triggered(planned_at=START + 5_000))
    rig.stand_still(5_000)
    rig.deliver(AlarmRang())
    assert rig.calls() == []
    rig.held_back = None
    rig.deliver(AlarmRang())
    assert len(rig.calls()) == 1


def test_a_one_time_that_is_held_back_fires_later() -> None:
    """At its creation, and after an update."""
    rig = Rig(timer=None)
    rig.held_back = LIMIT
    rig.create()
    assert rig.calls() == []
    rig.held_back = None
    rig.deliver(AlarmRang())
    assert len(rig.calls()) == 1
    # They keep the service going
    members = {"timer": {"dueTime": "10s", "period": "10s"}, "request": [{"url": "system://clean"}]}
    rig = Rig()
    rig.programs[1] = program(system=True, **members)
    rig.create()
    rig.held_back = LIMIT
    rig.pass_time(10_000)
    assert len(rig.calls()) == 1


def test_what_is_owed_while_it_is_held_back_is_in_the_ledger() -> None:
    """As superseded by an update, as paused after a pause: nothing disappears."""
    updated, paused = ticking(), ticking()
    for rig in (updated, paused):
        rig.held_back = LIMIT
        rig.stand_still(10_500)
    updated.programs[2] = program(timer={"period": "external"})
    updated.deliver(Updated(2))
    assert updated.ledger() == [(10_000, "skipped", "superseded")]
    paused.deliver(Paused())
    paused.held_back = None
    paused.deliver(Activated())
    assert paused.ledger() == [(10_000, "skipped", "paused")]


PAST = tuple(START - 10_000 * number for number in range(5, 0, -1))


def test_what_fits_of_a_backfill_begins_and_the_rest_waits() -> None:
    """In the order of the moments, behind delayed triggers that are due; a pause ends what waits."""
    rig = Rig(overlapPolicy="allow", maxConcurrency=9).create()
    rig.deliver(Triggered(planned_at=START + 1_000))
    rig.held_back = few = replace(LIMIT, left=2)
    rig.deliver(Backfilled(PAST))
    assert rig.reply == StartedMany(2, PAST, "uid")
    assert rig.states()[1:] == [S.PROCESSING] * 2 + [S.SCHEDULED] * 3
    rig.held_back = LIMIT
    rig.stand_still(1_000)
    before = rig.document
    rig.deliver(AlarmRang())
    assert rig.document == before
    rig.held_back = few
    rig.deliver(AlarmRang())
    assert rig.states() == [S.PROCESSING] * 4 + [S.SCHEDULED] * 2
    assert rig.execution(4).planned_at == PAST[2]
    rig.deliver(Paused(drain=True))
    assert rig.states() == [S.PROCESSING] * 4 + [S.CANCELLED] * 2
    none = Rig().create()
    none.held_back = LIMIT
    none.deliver(Backfilled(PAST))
    assert none.states() == [S.SCHEDULED] * 5


def test_of_what_a_resumed_job_catches_up_the_rest_waits() -> None:
    """It runs in order when there is room, and is in the ledger then."""
    rig = ticking()
    rig.deliver(Paused())
    rig.stand_still(50_000)
    rig.held_back = replace(LIMIT, left=2)
    rig.deliver(Activated(misfire="fire_all"))
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.SCHEDULED, S.SCHEDULED]
    rig.held_back = None
    rig.deliver(AlarmRang())
    for _ in range(4):
        rig.answer()
    assert rig.states() == [S.SUCCEEDED] * 4
    assert rig.ledger() == [(moment, "late", None) for moment in (10_000, 20_000, 30_000, 40_000)]


def test_what_a_debug_switch_holds_is_held_where_the_limit_is_reached_too() -> None:
    """Of what a resumed job catches up nothing is put off, so that nothing begins later."""
    rig = Rig(Surroundings(hold_recurring=True), timer={"dueTime": "10s", "period": "10s"}).create()
    rig.deliver(Paused())
    rig.stand_still(35_000)
    rig.held_back = LIMIT
    rig.deliver(Activated(misfire="fire_all"))
    assert rig.states() == []
    assert rig.ledger() == [(moment, "skipped", "debug") for moment in (10_000, 20_000, 30_000)]


def test_in_one_turn_no_more_begin_than_are_left() -> None:
    """Delayed triggers go first, and the timer has what they leave."""
    rig = ticking(overlapPolicy="allow", maxConcurrency=9)
    rig.deliver(Triggered(planned_at=START + 9_000))
    rig.stand_still(30_500)
    rig.held_back = replace(LIMIT, left=2)
    rig.deliver(AlarmRang())
    assert len(rig.calls()) == 2
