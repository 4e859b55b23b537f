"""Jobs whose calendar changes, or is missing, while they wait (SPEC section 3, Calendars)."""

from typing import Any

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import DAY, HOUR, MINUTE
from scheduler_service.domain.replies import ReachedLimit, Refusal, RefusalCode, Taken
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    CancelRequested,
    Event,
    Paused,
    Replanned,
)
from scheduler_service.engine.compile import with_present_days
from scheduler_service.engine.program import Surroundings
from scheduler_service.timing.calendar_days import FREE, Calendar, DaySpan, make_calendar
from tests.rows import each_row
from tests.unit.engine.rig import START, Rig

MIDNIGHT = START // DAY * DAY  # Tuesday, 2023-11-14; the tests begin at 22:13:20
TODAY = MIDNIGHT // DAY


class Days:
    """A calendar that changes, and a job on its working days at 09:00."""

    def __init__(self, **timer: Any) -> None:
        self.known: Calendar | None = None
        self.change()
        around = Surroundings(find_calendar=lambda tenant, name: self.known if name == "work" else None)
        fields = {"period": "0 0 9 * * ?", "calendar": "work", **timer}
        self.rig = Rig(around, timer=fields).create()

    def change(self, *free: int, at: int | None = None) -> None:
        """The next version: days from today on that are free."""
        spans = [DaySpan(TODAY + one, TODAY + one) for one in free]
        version = 1 if self.known is None else self.known.version + 1
        moment = START if at is None else at
        self.known = make_calendar(
            "work", version=version, changed_at=moment, week=0b11111, layers=[(FREE, spans)], zone=None
        )

    def look(self) -> None:
        """What a host does before each turn."""
        programs = self.rig.programs
        for revision, program in list(programs.items()):
            programs[revision] = with_present_days(program)

    def next(self) -> float | None:
        """The next firing, in hours from the midnight before the start."""
        moment = self.rig.head.next_fire
        return None if moment is None else (moment - MIDNIGHT) / HOUR


def test_a_change_counts_for_all_that_is_still_to_come() -> None:
    """Whatever turn comes first: the job is planned anew, and nothing fires on a day that became free."""
    days = Days()
    assert days.next() == 24 + 9
    days.change(1)
    days.look()
    assert days.rig.deliver(Replanned(2)).reply == Taken()
    assert days.next() == 48 + 9
    days.rig.pass_time(50 * HOUR)
    assert [(moment + START - MIDNIGHT) / HOUR for moment, _, _ in days.rig.ledger()] == [48 + 9]


@each_row("event", [AlarmRang(), Replanned(2)])
def test_what_is_owed_when_the_calendar_changes_waits_for_the_tenants_limit(event: Event) -> None:
    """It stays due by the days of before, whatever turn comes, and takes the place of one that is left."""
    days = Days(period="0 0 9,10 * * ?", misfire={"graceSeconds": 86_400})
    days.rig.stand_still(24 * HOUR + 10 * HOUR + MINUTE)
    days.change(1, at=days.rig.wall - MINUTE)
    days.look()
    days.rig.held_back = ReachedLimit("tenant_executions_per_minute", 3, 1_500)
    before = days.rig.document
    for one in (event, CancelRequested(9)):
        days.rig.deliver(one)
        assert days.rig.document == before
    days.rig.held_back = ReachedLimit("tenant_executions_per_minute", 3, 1_500, left=1)
    days.rig.deliver(event)
    assert [(moment + START - MIDNIGHT) / HOUR for moment, _, _ in days.rig.ledger()] == [24 + 9]


def test_an_alarm_on_a_day_that_became_free_fires_nothing() -> None:
    """Nobody has rung before: the version is compared in each turn."""
    days = Days()
    days.rig.stand_still(10 * HOUR + 47 * MINUTE)
    days.change(1, at=days.rig.wall - MINUTE)
    days.look()
    days.rig.deliver(AlarmRang())
    assert (days.rig.ledger(), days.next()) == ([], 48 + 9)


def test_a_moment_that_a_change_brings_earlier_is_not_missed() -> None:
    """Where it has passed before the job was told, it is late; earlier ones were planned by nobody."""
    days = Days()
    days.change(1, 2)
    days.look()
    days.rig.deliver(Replanned())
    assert days.next() == 72 + 9
    nine = MIDNIGHT + DAY + 9 * HOUR
    days.change(at=nine)
    days.rig.stand_still(nine + 30_000 - days.rig.wall)
    days.look()
    days.rig.deliver(Replanned(3))
    assert days.rig.ledger() == [(nine - START, "late", None)]
    assert days.next() == 48 + 9
    late = Days()
    late.change(1)
    late.look()
    late.rig.deliver(Replanned())
    late.change(at=nine + 1)
    late.rig.stand_still(nine + 30_000 - late.rig.wall)
    late.look()
    late.rig.deliver(Replanned(3))
    assert (late.rig.ledger(), late.next()) == ([], 48 + 9)


def test_a_firing_that_jitter_holds_outlives_a_change() -> None:
    """Its planned moment is still to come, though that of the timer has passed."""
    days = Days(jitterSeconds=3000)
    planned = days.rig.head.next_fire
    assert planned is not None
    nine = MIDNIGHT + DAY + 9 * HOUR
    assert planned - nine > MINUTE
    days.rig.pass_time(nine + MINUTE - days.rig.wall)
    days.change(2, at=days.rig.wall)
    days.look()
    days.rig.deliver(Replanned(2))
    days.rig.pass_time(2 * DAY)
    assert [moment + START for moment, _, _ in days.rig.ledger()] == [planned]


def test_what_was_owed_before_the_change_stays_so() -> None:
    """A downtime passed the moment, and only then it became a free day; once, and by the misfire policy."""
    nine = MIDNIGHT + DAY + 9 * HOUR
    for policy, outcome in (("fire_once", "late"), ("skip", "skipped")):
        days = Days(misfire={"policy": policy, "graceSeconds": 5})
        days.rig.stand_still(nine + 60_000 - days.rig.wall)
        days.change(1, at=nine + 30_000)
        days.look()
        days.rig.deliver(Replanned(2))
        assert [one[:2] for one in days.rig.ledger()] == [(nine - START, outcome)]
        assert days.next() == 48 + 9
        days.rig.deliver(Replanned(2))
        assert len(days.rig.ledger()) == 1


def test_a_process_that_does_not_know_the_change_says_so() -> None:
    """Whoever tells the jobs asks again: none is left with the days that were."""
    days = Days()
    refusal = days.rig.refusal(Replanned(2))
    assert refusal.code is RefusalCode.CONFLICT
    days.change(1)
    days.look()
    assert not isinstance(days.rig.deliver(Replanned(2)).reply, Refusal)


def test_a_job_whose_calendar_is_missing_stands_still_and_goes_on() -> None:
    """It stays a job, names what is missing, and follows the calendar when that is there again."""
    days = Days()
    days.known = None
    days.look()
    days.rig.deliver(AlarmRang())
    program = days.rig.programs[1]
    assert (days.next(), days.rig.summary.state) == (None, JobState.ACTIVE)
    assert [(one.pointer, one.code) for one in program.problems] == [("/timer/calendar", "unknown_calendar")]
    days.change(1)
    days.look()
    days.rig.deliver(Replanned(1))
    assert days.next() == 48 + 9
    assert days.rig.programs[1].problems == ()


def test_a_paused_job_follows_when_it_is_resumed() -> None:
    """And fires nothing meanwhile; the free day is no missed firing."""
    days = Days()
    days.rig.deliver(Paused())
    days.change(1)
    days.look()
    days.rig.deliver(Replanned(2))
    days.rig.pass_time(36 * HOUR)
    days.rig.deliver(Activated())
    assert days.rig.ledger() == [(MIDNIGHT + 57 * HOUR - START, "skipped", "paused")]
    assert days.next() == 72 + 9
