"""Firings, overlap, the ledger and misfires as the machine handles them (SPEC sections 2 and 3)."""

from msgspec.structs import replace

from scheduler_service.domain.effects import CountMissed
from scheduler_service.domain.execution import ExecutionState, FiringOutcome, JobState, TriggeredBy
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.records import FiringRecord
from scheduler_service.domain.replies import (
    ReachedLimit,
    Refusal,
    RefusalCode,
    Started,
    StartedMany,
    Taken,
    Unchanged,
)
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    Backfilled,
    CancelRequested,
    Event,
    MissedCounted,
    Paused,
    Released,
    Replanned,
    Replay,
    Triggered,
    Updated,
)
from scheduler_service.engine.decision import Decision
from scheduler_service.engine.firing import SHORT_FIRINGS, fires_many
from scheduler_service.engine.program import Surroundings
from tests.rows import each_row
from tests.unit.engine.rig import EVERY_10, START, Rig, program, ticking

S = ExecutionState


def test_one_time_fires_at_once_and_is_finished() -> None:
    """Without a timer the job fires once, in the turn of its creation."""
    rig = Rig(timer=None).create()
    assert rig.execution(1).triggered_by is TriggeredBy.TIMER
    rig.answer()
    assert rig.summary.state is JobState.FINISHED
    rig.pass_time(10_000_000)
    assert rig.states() == [S.SUCCEEDED]
    # A single moment that has passed: no firing, state finished
    rig = Rig(timer={"dueTime": "2023-11-14 22:13:19", "period": "0s"}).create()
    assert rig.summary.state is JobState.FINISHED
    rig.pass_time(100_000)
    assert rig.ledger() == []


def test_fires_when_due_and_not_before() -> None:
    """A firing starts at its planned moment, and is in the ledger as fired."""
    rig = ticking()
    rig.pass_time(9_999)
    assert rig.calls() == []
    rig.pass_time(1)
    assert rig.ledger() == [(10_000, "fired", None)]
    assert rig.of(FiringRecord, rig.records) == [
        FiringRecord(planned_at=START + 10_000, outcome=FiringOutcome.FIRED, count=1, execute_number=1)
    ]
    assert rig.summary.next_fire == START + 20_000
    # A firing found more than a second after its moment is late, and carries its own moment
    rig = ticking()
    rig.stand_still(11_001)
    rig.deliver(AlarmRang())
    assert rig.ledger() == [(10_000, "late", None)]
    assert rig.execution(1).planned_at == START + 10_000


@each_row(("away", "planned"), [(35_000, [10, 20, 30]), (30_000, [10, 20, 30]), (31_500, [10, 20, 30])])
def test_fire_all_runs_late_ones_in_a_line(away: int, planned: list[int]) -> None:
    """Several found late within the grace run in order, as if the policy were queue; none is an overlap."""
    rig = ticking(timer={**EVERY_10, "misfire": {"policy": "fire_all"}})
    rig.stand_still(away)
    rig.deliver(AlarmRang())
    assert rig.states() == [S.PROCESSING, S.ENQUEUED, S.ENQUEUED]
    assert [(rig.execution(one).planned_at - START) // 1_000 for one in (1, 2, 3)] == planned
    rig.answer()
    assert rig.states() == [S.SUCCEEDED, S.PROCESSING, S.ENQUEUED]


MANY_A_SECOND = {"period": "10ms", "dueTime": "10ms"}


def test_a_turn_takes_some_of_the_late_ones() -> None:
    """A hundred; the alarm rings at once for the rest."""
    rig = ticking(timer=MANY_A_SECOND)
    rig.wall += 2_500
    assert len(ledger_of(rig.deliver(AlarmRang()))) == SHORT_FIRINGS
    assert rig.wait() == 0
    assert len(ledger_of(rig.deliver(AlarmRang()))) == SHORT_FIRINGS
    assert len(ledger_of(rig.deliver(AlarmRang()))) == 250 - 2 * SHORT_FIRINGS
    # Where a caller asks for `fire_all`, and the job for more than a turn on the loop may take
    timer = {**MANY_A_SECOND, "misfire": {"limit": 1_000}}
    rig = ticking(timer=timer, queueLimit=1_000)
    rig.deliver(Paused())
    rig.wall += 2_500
    rig.deliver(Activated("fire_all"))
    assert rig.states() == [S.PROCESSING] + [S.ENQUEUED] * 248, "the moment itself is to come"


@each_row(("away", "grace"), [(2_500, 60), (2_500, 1)])
def test_a_line_that_fire_all_makes_is_made_in_one_turn(away: int, grace: int) -> None:
    """A long one is made beside the loop: so all that are found late together run in order."""
    misfire = {"policy": "fire_all", "limit": 1_000, "graceSeconds": grace}
    rig = ticking(timer={**MANY_A_SECOND, "misfire": misfire}, queueLimit=1_000)
    rig.wall += away
    assert fires_many(rig.job, rig.now.wall)
    rig.deliver(AlarmRang())
    assert rig.states() == [S.PROCESSING] + [S.ENQUEUED] * 249
    assert not fires_many(rig.job, rig.now.wall)


def ledger_of(decision: Decision) -> list[FiringRecord]:
    """The entries of the ledger that a turn has made."""
    return [record for record in decision.records if isinstance(record, FiringRecord)]


def test_fire_all_leaves_punctual_ones_to_the_policy() -> None:
    """What is found in time, or handed out early, meets `overlapPolicy`."""
    timer = {**EVERY_10, "misfire": {"policy": "fire_all"}}
    rig = ticking(timer=timer, timeoutSeconds=100)
    rig.pass_time(10_000)
    rig.pass_time(10_000)
    assert rig.states() == [S.PROCESSING, S.SKIPPED]
    early = ticking(timer={**timer, "dueTime": "1s", "period": "1s"}, leadSeconds=3)
    early.pass_time(0)
    assert early.states() == [S.PROCESSING, S.SKIPPED, S.SKIPPED]
    late = ticking(timer=timer, timeoutSeconds=100, leadSeconds=3)
    late.wall += 20_000
    late.deliver(AlarmRang())
    assert late.states() == [S.PROCESSING, S.ENQUEUED]


def test_long_runs_are_counted_outside() -> None:
    """A long run of cron is counted outside the turn; a count that is lost is requested again."""
    rig = ticking(timer={"dueTime": "0s", "period": "* * * * * ?", "misfire": {"policy": "skip"}})
    rig.pass_time(0)
    rig.stand_still(3_600_000)
    rig.deliver(AlarmRang())
    ask = rig.of(CountMissed, rig.effects)[-1]
    rig.effects.clear()
    assert rig.deliver(MissedCounted(ask.first + 1, 5)).reply == Unchanged()
    rig.steady += 10_000
    rig.deliver(AlarmRang())
    assert rig.of(CountMissed, rig.effects) == [ask]
    assert rig.deliver(MissedCounted(ask.first, 3_540)).reply == Taken()
    assert rig.summary.missed == 3_540
    assert rig.deliver(MissedCounted(ask.first, 3_540)).reply == Unchanged()
    # Of several runs that are being counted, those still within their time are left alone
    rig = ticking(timer={"dueTime": "0s", "period": "* * * * * ?", "misfire": {"policy": "skip"}})
    for _ in range(2):
        rig.wall += 3_600_000
        rig.deliver(AlarmRang())
        rig.steady += 6_000
    rig.steady -= 1_000
    rig.effects.clear()
    rig.deliver(AlarmRang())
    assert len(rig.of(CountMissed, rig.effects)) == 1


def test_limits_keep_their_time_when_the_clock_is_set() -> None:
    """A step of the wall clock ends no attempt early and none late."""
    rig = Rig(timeoutSeconds=30).triggered()
    rig.wall += 3_600_000
    rig.deliver(AlarmRang())
    assert rig.states() == [S.PROCESSING]
    rig.wall -= 7_200_000
    rig.pass_time(30_000)
    assert rig.execution(1).error == "500"


def test_lead_hands_out_early_with_its_moment() -> None:
    """`leadSeconds`: sent before its moment, marked with it."""
    rig = ticking(leadSeconds=3)
    rig.pass_time(7_000)
    assert rig.header("X-Scheduled-At") == "2023-11-14T22:13:30.000Z"
    assert rig.ledger() == [(10_000, "fired", None)]


def test_debug_switch_holds_the_timer() -> None:
    """`debug.hold_recurring` records firings as skipped, without an execution."""
    rig = ticking(Surroundings(hold_recurring=True))
    rig.pass_time(10_000)
    assert rig.ledger() == [(10_000, "skipped", "debug")]
    assert rig.summary.execute_number == 0
    # Debug switch lets system jobs go: it is for the jobs of users: the scheduler's own work goes on
    own = {"system": True, "request": [{"url": "system://clean"}], "timer": EVERY_10}
    rig = Rig(Surroundings(hold_recurring=True), **own).create()
    rig.pass_time(10_000)
    assert rig.ledger() == [(10_000, "fired", None)]
    # What fires once is no recurring job
    rig = Rig(Surroundings(hold_recurring=True), timer=None).create()
    assert rig.states() == [S.PROCESSING]


@each_row("timer", [EVERY_10, {"period": "* * * * * ?"}])
def test_debug_switch_lets_recurring_jobs_be_triggered(timer: dict[str, str]) -> None:
    """The kind of the job decides: `hold_triggered` leaves recurring jobs alone, timer and trigger."""
    rig = Rig(Surroundings(hold_triggered=True), timer=timer, overlapPolicy="allow").triggered()
    rig.pass_time(10_000)
    assert set(rig.states()) == {S.PROCESSING}
    assert len(rig.states()) >= 2
    by_hand = Rig(Surroundings(hold_recurring=True), timer=timer).triggered()
    assert by_hand.states() == [S.PROCESSING]


@each_row("timer", [None, {"startAt": "2023-11-14 22:13:30"}])
def test_debug_switch_holds_one_time_jobs_until_released(timer: dict[str, str] | None) -> None:
    """`hold_triggered` holds the firing of a `one_time`, as it does its triggers; nothing is skipped."""
    rig = Rig(Surroundings(hold_triggered=True), timer=timer).create()
    rig.pass_time(20_000)
    assert rig.states() == [S.ENQUEUED]
    assert rig.summary.state is JobState.ACTIVE
    assert rig.ledger() == []
    rig.deliver(Released(1))
    assert rig.states() == [S.PROCESSING]
    assert [one[1:] for one in rig.ledger()] == [("late", None)]
    rig.answer()
    assert rig.summary.state is JobState.FINISHED


def test_debug_switch_holds_triggers_until_released() -> None:
    """`debug.hold_triggered` leaves executions enqueued until they are released, each once."""
    rig = Rig(Surroundings(hold_triggered=True)).triggered()
    rig.deliver(Triggered())
    assert rig.states() == [S.ENQUEUED, S.ENQUEUED]
    assert rig.deliver(Released(2)).reply == Taken()
    assert rig.states() == [S.ENQUEUED, S.PROCESSING]
    assert rig.deliver(Released(2)).reply == Unchanged()
    rig.answer()
    assert rig.states() == [S.ENQUEUED, S.SUCCEEDED]
    assert rig.refusal(Released(9)).code is RefusalCode.ABSENT
    # A held trigger that is released while it still waits for its moment starts then
    rig = Rig(Surroundings(hold_triggered=True)).create()
    rig.deliver(Triggered(planned_at=START + 5_000))
    rig.deliver(Released(1))
    assert rig.states() == [S.SCHEDULED]
    rig.pass_time(5_000)
    assert rig.states() == [S.PROCESSING]


def test_delayed_trigger_waits() -> None:
    """A trigger with a later moment is scheduled, then runs; it is no entry of the ledger."""
    rig = Rig().create()
    rig.deliver(Triggered(planned_at=START + 5_000))
    assert rig.reply == Started(1, S.SCHEDULED, "uid")
    rig.pass_time(4_999)
    assert rig.calls() == []
    rig.pass_time(1)
    assert rig.states() == [S.PROCESSING]
    assert rig.ledger() == []
    # A moment that has passed means now
    rig = Rig().create()
    rig.deliver(Triggered(planned_at=START - 5_000))
    assert rig.states() == [S.PROCESSING]
    # Also when they are found overdue together
    rig = Rig(overlapPolicy="queue").create()
    for delay in (9_000, 3_000, 6_000):
        rig.deliver(Triggered(planned_at=START + delay))
    rig.wall += 60_000
    rig.deliver(AlarmRang())
    assert rig.states() == [S.ENQUEUED, S.PROCESSING, S.ENQUEUED]
    rig.answer()
    assert rig.states() == [S.ENQUEUED, S.SUCCEEDED, S.PROCESSING]


def test_pending_triggers_are_limited() -> None:
    """Beyond `limits.pending_triggers` delayed triggers are refused, and use up no number."""
    rig = Rig(Surroundings(pending_triggers=1)).create()
    rig.deliver(Triggered(planned_at=START + 5_000))
    refusal = rig.refusal(Triggered(planned_at=START + 6_000))
    assert (refusal.code, refusal.retry_after) == (RefusalCode.LIMIT, 5_000)
    assert rig.summary.execute_number == 1
    later = Rig(Surroundings(pending_triggers=1)).create()
    later.deliver(Triggered(planned_at=START + 5 * HOUR))
    assert later.refusal(Triggered(planned_at=START + 6_000)).retry_after == HOUR, "it may be cancelled"


def test_parameters_of_open_executions_are_limited() -> None:
    """Together: each turn of the job writes them. One that comes alone may be as long as a body."""
    rig = Rig(Surroundings(params_bytes=100)).create()
    long, short = b'"' + b"x" * 198 + b'"', b'"' + b"x" * 50 + b'"'
    assert isinstance(rig.deliver(Triggered(params=long)).reply, Started)
    rig.answer()
    assert isinstance(rig.deliver(Triggered(params=short, planned_at=START + 5_000)).reply, Started)
    refusal = rig.refusal(Triggered(params=short))
    assert refusal.code is RefusalCode.LIMIT
    assert "52 bytes" in refusal.message
    assert refusal.retry_after == 5_000, "what waits for its moment goes on then"
    replay = Triggered(replay=Replay(1, 1, (b"x" * 50,)))
    assert isinstance(rig.deliver(replay).reply, Refusal)
    assert isinstance(rig.deliver(Triggered()).reply, Started)
    # Unless they are small; also those for a later moment, and the responses that a replay brings
    rig = Rig().create()
    rig.is_full = True
    long, short = b'"' + b"x" * 4_095 + b'"', b'"' + b"x" * 4_094 + b'"'
    for event in (Triggered(params=long), Triggered(params=long, planned_at=START + 1_000)):
        refusal = rig.refusal(event)
        assert (refusal.code, "limits.open_bytes" in refusal.message) == (RefusalCode.LIMIT, True)
    assert isinstance(rig.deliver(Triggered(replay=Replay(1, 1, (long,)))).reply, Refusal)
    assert isinstance(rig.deliver(Triggered(params=short)).reply, Started)


def test_cancel_one_that_waits_and_one_that_ended() -> None:
    """A waiting execution is cancelled; one that ended is a conflict; an unknown one is absent."""
    rig = ticking(overlapPolicy="queue")
    rig.pass_time(20_000)
    rig.deliver(CancelRequested(2, "no"))
    assert rig.execution(2).reason == "no"
    assert rig.ledger()[-1] == (20_000, "skipped", "no")
    for number, code in ((2, RefusalCode.CONFLICT), (3, RefusalCode.ABSENT), (0, RefusalCode.ABSENT)):
        refusal = rig.refusal(CancelRequested(number))
        assert refusal.code is code


def test_live_execution_keeps_its_definition() -> None:
    """An update changes nothing for what runs; the next execution has the new definition."""
    rig = ticking(request=[{"url": "http://target.test/1"}, {"url": "http://target.test/2"}])
    rig.pass_time(10_000)
    rig.programs[2] = program(timer=EVERY_10, request=[{"url": "http://target.test/new"}])
    rig.deliver(Updated(2))
    rig.answer()
    assert rig.request.url == "http://target.test/2"
    rig.answer()
    rig.pass_time(10_000)
    assert rig.request.url == "http://target.test/new"
    assert [rig.execution(number).revision for number in (1, 2)] == [1, 2]


def test_fire_once_is_one_late_entry_and_the_run_before_it() -> None:
    """The one carries the latest missed moment (SPEC section 3, Ledger)."""
    rig = ticking(timer={**EVERY_10, "misfire": {"graceSeconds": 0}})
    rig.wall += 35_000
    rig.deliver(AlarmRang())
    run, late = rig.of(FiringRecord, rig.records)
    assert (run.planned_at, run.until, run.count, run.reason) == (
        START + 10_000,
        START + 20_000,
        2,
        "misfire",
    )
    assert (late.planned_at, late.outcome, late.execute_number) == (START + 30_000, FiringOutcome.LATE, 1)


DAILY = {"period": "0 0 9 * * ?"}
HOUR = 3_600_000
MIDNIGHT = START - START % (24 * HOUR) + 24 * HOUR


def in_zone(rig: Rig, zone: str, **timer: object) -> Rig:
    """The job as it is loaded where the default zone is another one."""
    members = {"timer": {**DAILY, **timer}}
    rig.programs = {1: program(Surroundings(default_zone=zone), **members)}
    return rig


def test_a_timer_is_planned_again_in_its_zone() -> None:
    """What was computed under another zone is computed anew; a turn without a change changes nothing."""
    rig = Rig(timer=DAILY).create()
    assert rig.summary.next_fire == MIDNIGHT + 9 * HOUR
    in_zone(rig, "Asia/Shanghai").deliver(Replanned())
    assert rig.summary.next_fire == MIDNIGHT + HOUR
    before = rig.document
    rig.deliver(Replanned())
    assert rig.document == before
    # Nine o'clock of Shanghai has passed, and was not planned: what was still fires, and tomorrow's is next
    rig = Rig(timer=DAILY).create()
    rig.pass_time(8 * HOUR)
    in_zone(rig, "Asia/Shanghai").deliver(Replanned())
    rig.deliver(Replanned())  # each start reviews while any job is unfit
    assert (rig.calls(), rig.ledger()) == ([], [])
    rig.pass_time(3 * HOUR)
    assert [moment + START for moment, _, _ in rig.ledger()] == [MIDNIGHT + 9 * HOUR]
    assert rig.summary.next_fire == MIDNIGHT + 25 * HOUR
    # A paused job is planned when it goes on: until then it has no next firing
    rig = Rig(timer=DAILY).create()
    rig.deliver(Paused())
    assert isinstance(in_zone(rig, "Asia/Shanghai").deliver(Replanned()).reply, Unchanged)
    rig.deliver(Activated())
    assert rig.summary.next_fire == MIDNIGHT + HOUR


@each_row("events", [[Updated(2)], [Paused(), Activated()]])
def test_a_new_schedule_does_not_wait_for_what_was_left_as_planned(events: list[Event]) -> None:
    """An update and a resumption begin now, though nothing fires before that otherwise."""
    rig = Rig(timer={"period": "0 0 9,10 * * ?"}).create()
    rig.pass_time(MIDNIGHT + 90 * MINUTE - rig.wall)
    in_zone(rig, "Asia/Shanghai", period="0 0 9,10 * * ?").deliver(Replanned())
    assert rig.summary.next_fire == MIDNIGHT + 9 * HOUR
    rig.programs[2] = program(Surroundings(default_zone="Asia/Shanghai"), timer={"period": "0 0 10 * * ?"})
    for event in events:
        rig.deliver(event)
    assert rig.summary.next_fire == MIDNIGHT + 2 * HOUR


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
