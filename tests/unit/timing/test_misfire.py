"""What becomes of firings that are found late, and of those of a pause (SPEC sections 3 and 10)."""

from datetime import UTC, datetime
from itertools import islice

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY, HOUR, MINUTE, SECOND, as_moment
from scheduler_service.timing.calendar_days import DayRule, make_calendar
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.misfire import (
    COUNT_MAX,
    DueFirings,
    MisfireCount,
    MissedRun,
    count_missed,
    plan,
    resume,
)
from scheduler_service.timing.schedule import Firing, between, upcoming
from scheduler_service.timing.timer import Timer, TimerText, bind_calendar, compile_timer
from tests.rows import each_row

NOON = as_moment(datetime(2024, 5, 15, 12, tzinfo=UTC))
WEEK = make_calendar("week", version=1, changed_at=0, week=31, layers=(), zone=None)
MINUTELY, EVERY_MINUTE = "0 * * * * ?", "1m"


def make(period: str | None, due_time: str | None = "0s", **members: object) -> Timer:
    text = TimerText(due_time=due_time, period=period, **members)  # type: ignore[arg-type]
    return compile_timer(text, default_zone="UTC")


def minutes(*numbers: int) -> list[int]:
    return [NOON + number * MINUTE for number in numbers]


def planned(firings: tuple[Firing, ...]) -> list[int]:
    return [firing.planned_at for firing in firings]


@each_row("period", [MINUTELY, EVERY_MINUTE])
@each_row(
    ("policy", "missed", "caught_up"),
    [
        ("fire_once", MissedRun(NOON + MINUTE, NOON + 7 * MINUTE, 7), [8]),
        ("skip", MissedRun(NOON + MINUTE, NOON + 8 * MINUTE, 8), []),
        ("fire_all", MissedRun(NOON + MINUTE, NOON + 5 * MINUTE, 5), [6, 7, 8]),
    ],
)
def test_each_policy_splits_the_missed(
    period: str, policy: str, missed: MissedRun, caught_up: list[int]
) -> None:
    """SPEC section 3, misfire: with 60 s of grace, what is at most that late is late, not missed."""
    timer = make(period, misfire_policy=policy, misfire_limit=3)
    found = plan(timer, Cursor(NOON, NOON), "", now=NOON + 10 * MINUTE - 1)
    assert found.missed == missed
    assert planned(found.caught_up) == minutes(*caught_up)
    assert planned(found.late) == minutes(9)
    assert found.cursor.last == NOON + 9 * MINUTE


@each_row("period", [MINUTELY, EVERY_MINUTE])
def test_exactly_the_grace_is_late_and_a_millisecond_more_is_missed(period: str) -> None:
    """SPEC section 3: within `graceSeconds` a firing is merely late."""
    timer = make(period, misfire_policy="skip", misfire_grace=30 * SECOND)
    late = plan(timer, Cursor(NOON, NOON), "", now=NOON + MINUTE + 30 * SECOND)
    assert (late.missed, planned(late.late)) == (None, minutes(1))
    missed = plan(timer, Cursor(NOON, NOON), "", now=NOON + MINUTE + 30 * SECOND + 1)
    assert (missed.missed, missed.late) == (MissedRun(NOON + MINUTE, NOON + MINUTE, 1), ())


@each_row("period", [MINUTELY, EVERY_MINUTE, "R9/PT1M"])
@each_row("room", [1, 2, 3, 4, 20])
def test_where_few_may_fire_the_others_stay_due(period: str, room: int) -> None:
    """Each moment fires or is missed, once and in order; at once no more fire than there is room for."""
    timer = make(period, misfire_policy="fire_all", misfire_limit=5)
    cursor, now, ends = Cursor(NOON, NOON), NOON + 9 * MINUTE, list[int]()
    for _ in range(20):
        found = plan(timer, cursor, "", now=now, room=room)
        fired = planned(found.caught_up + found.late)
        assert len(fired) <= room
        if found.missed is not None:
            ends += range(found.missed.first, found.missed.last + 1, MINUTE)
            assert found.missed.count is not None
        ends += fired
        cursor = found.cursor
        if not fired:
            break
    assert ends == minutes(*range(1, 10))


def test_long_runs_are_counted_by_arithmetic_or_left_to_count_outside() -> None:
    """SPEC section 3, ledger: counted up to 10,000; a turn walks no more than 100."""
    now = NOON + 200 * MINUTE
    by_arithmetic = plan(make(EVERY_MINUTE), Cursor(NOON, NOON), "", now=now, policy="skip")
    by_walk = plan(make(MINUTELY), Cursor(NOON, NOON), "", now=now, policy="skip")
    assert by_arithmetic.missed == MissedRun(NOON + MINUTE, NOON + 198 * MINUTE, 198)
    assert by_walk.missed == MissedRun(NOON + MINUTE, NOON + 198 * MINUTE, None)
    long = plan(make("1s"), Cursor(NOON), "", now=NOON + DAY, policy="skip")
    assert long.missed is not None
    assert long.missed.count == COUNT_MAX
    assert long.cursor.used == 86_400 + 1
    # SPEC section 3, ledger: a walk is done in slices outside the turn
    timer = make(MINUTELY, jitter=10 * SECOND)
    found = plan(timer, Cursor(NOON, NOON), "seed", now=NOON + 1_500 * MINUTE, policy="skip")
    assert found.missed is not None
    tally, slices = count_missed(timer, found.missed.first, found.missed.last), 1
    assert tally == MisfireCount(501, NOON + 501 * MINUTE, False)
    while not tally.done:
        tally = count_missed(timer, found.missed.first, found.missed.last, start=tally)
        slices += 1
    walked = between(timer, Cursor(NOON, NOON), "seed", found.missed.last)
    assert tally.count == sum(1 for _ in walked)
    assert slices == 3
    tally = count_missed(timer, NOON, NOON + 100 * DAY, most=20_000)
    assert (tally.count, tally.done) == (COUNT_MAX, True)
    assert count_missed(timer, NOON, NOON) == MisfireCount(1, NOON, True)


def test_a_clock_set_back_repeats_nothing() -> None:
    """SPEC section 3, clock."""
    found = plan(make(MINUTELY), Cursor(NOON, NOON + 5 * MINUTE), "", now=NOON + 2 * MINUTE)
    assert (found.missed, found.caught_up, found.late) == (None, (), ())


PERIODS = [MINUTELY, EVERY_MINUTE, "R30/PT1M", "0 */7 * * * ?", "13m", "*/5 12-13 * * *", "P1D", "0s"]


@given(
    period=st.sampled_from(PERIODS),
    policy=st.sampled_from(["skip", "fire_once", "fire_all"]),
    limit=st.integers(1, 20),
    grace=st.sampled_from([0, 1, 60_000, 600_000]),
    jitter=st.sampled_from([0, 30_000, DAY]),
    used=st.integers(0, 3),
    passed=st.integers(0, 3 * HOUR),
    lead=st.sampled_from([0, 3_000, 900_000]),
    most=st.integers(1, 50),
)
def test_every_due_firing_ends_in_exactly_one_place(
    period: str,
    policy: str,
    limit: int,
    grace: int,
    jitter: int,
    used: int,
    passed: int,
    lead: int,
    most: int,
) -> None:
    """SPEC section 3, ledger: nothing disappears, nothing is twice. The plan agrees with a plain walk."""
    timer = make(period, misfire_policy=policy, misfire_limit=limit, misfire_grace=grace, jitter=jitter)
    start = Cursor(NOON)
    for firing in islice(between(timer, start, "seed", LATEST), used):
        start = Cursor(NOON, firing.base, start.used + 1)
    now = NOON + passed
    due = list(between(timer, start, "seed", now + lead))
    missed = [firing for firing in due if firing.planned_at < now - grace]
    caught_up = {"skip": [], "fire_once": missed[-1:], "fire_all": missed[-limit:]}[policy]
    lost = missed[: len(missed) - len(caught_up)]
    found = plan(timer, start, "seed", now=now, lead=lead, most=most)
    assert list(found.caught_up) == caught_up
    assert list(found.late) == due[len(missed) :][:most]
    if lost:
        count = len(lost) if timer.cron is None or len(lost) <= 100 else None
        assert found.missed == MissedRun(lost[0].planned_at, lost[-1].planned_at, count)
        tally = count_missed(timer, lost[0].planned_at, lost[-1].planned_at, most=1_000)
        assert timer.cron is None or tally.count == len(lost)
    else:
        assert found.missed is None
    taken = [*missed, *found.late]
    assert found.cursor.last == (taken[-1].base if taken else start.last)
    if timer.cron is None:
        assert found.cursor.used == start.used + len(taken)


@each_row("period", [MINUTELY, EVERY_MINUTE])
def test_a_pause_ends_and_the_phase_stays(period: str) -> None:
    """SPEC section 10, PUT: by default its firings are skipped, and the next is the next of the phase."""
    timer = make(period, "2024-05-15 12:00:00")
    back = resume(timer, Cursor(NOON, NOON, 1), now=NOON + 150 * MINUTE + 5, seed="")
    assert back.missed == MissedRun(NOON + MINUTE, NOON + 150 * MINUTE, 150)
    assert (back.caught_up, back.count, back.cursor.used) == ((), 150, 1)
    following = upcoming(timer, back.cursor, "")
    assert following is not None
    assert following.base == NOON + 151 * MINUTE


def test_a_pause_uses_up_no_repeats_and_a_relative_timer_starts_anew() -> None:
    """SPEC section 10, PUT: used repeats stay used; 1 starts again from now."""
    timer = make("R5/PT1M", "30s")
    cursor = Cursor(NOON, NOON + 90 * SECOND, 2)
    back = resume(timer, cursor, now=NOON + HOUR, seed="")
    assert back.missed == MissedRun(NOON + 150 * SECOND, NOON + 270 * SECOND, 3)
    left = [firing.base for firing in between(timer, back.cursor, "", LATEST)]
    assert left == [NOON + HOUR + 30 * SECOND + number * MINUTE for number in range(3)]
    absolute = make("R5/PT1M", "2024-05-15 12:00:30")
    back = resume(absolute, cursor, now=NOON + HOUR, seed="")
    left = [firing.base for firing in between(absolute, back.cursor, "", LATEST)]
    assert left == [NOON + HOUR + 30 * SECOND + number * MINUTE for number in range(3)]
    # Created paused and started in the same millisecond, a job fires as if it had been active
    for timer in (
        make("0s"),
        make("1m"),
        make("R2/PT1M"),
        make(None, None),
        make("0s", "2024-05-15 12:00:00"),
    ):
        back = resume(timer, Cursor(NOON), now=NOON, seed="")
        assert back.count == 0
        assert upcoming(timer, back.cursor, "") == Firing(NOON, NOON)


ABSOLUTE = "2024-05-15 12:00:30"


@each_row("policy", ["skip", "fire_once", "fire_all"])
@each_row(
    "timer",
    [
        make("0s", "30s"),
        make("0s", "30s", jitter=20 * SECOND),
        make("R5/PT1M", "30s"),
        make("R5/PT1M", "30s", period_from="end"),
        make("R5/PT1M", ABSOLUTE),
        make("R5/PT1M", ABSOLUTE, jitter=20 * SECOND),
        bind_calendar(make("R5/PT1M", ABSOLUTE, calendar=DayRule("week")), WEEK),
    ],
)
def test_what_is_caught_up_is_one_of_the_repeats(policy: str, timer: Timer) -> None:
    """SPEC section 3: `R5/PT1M` fires five times in all, `"0s"` once, however often it was paused."""
    cursor, now, fired = Cursor(NOON), NOON, 0
    for _ in range(8):
        now += 100 * SECOND
        due = plan(timer, cursor, "seed", now=now)
        fired += len(due.caught_up) + len(due.late)
        now += 150 * SECOND
        back = resume(timer, due.cursor, now=now, seed="seed", policy=policy)
        fired, cursor = fired + len(back.caught_up), msgspec.structs.replace(back.cursor, ended=now)
    assert (fired, upcoming(timer, cursor, "seed")) == (timer.repeats, None)


JITTERED = [
    make(MINUTELY, jitter=50 * SECOND),
    make("1m", "2024-05-15 11:30:30", jitter=50 * SECOND),
    make("R40/PT1M", "2024-05-15 12:00:00", jitter=50 * SECOND),
    make(MINUTELY, jitter=DAY, end_at="2024-05-15 12:20:00"),
]


@given(
    timer=st.sampled_from(JITTERED),
    policy=st.sampled_from(["skip", "fire_all"]),
    pauses=st.lists(st.integers(0, 30 * 60).map(lambda second: second * SECOND), min_size=2, unique=True),
)
def test_a_moment_that_jitter_moves_over_the_end_of_a_pause_fires_once(
    timer: Timer, policy: str, pauses: list[int]
) -> None:
    """SPEC section 3: jitter is part of the plan, so the planned moment decides, and none fires before it."""
    timer = msgspec.structs.replace(timer, misfire_limit=COUNT_MAX, misfire_grace=DAY)
    cursor, now, fired, count = Cursor(NOON), NOON, [], 0
    for place, moment in enumerate(sorted(pauses)):
        now = NOON + moment
        if place % 2:
            back = resume(timer, cursor, now=now, seed="seed", policy=policy)
            assert back.missed is None or back.missed.last <= now
            fired += [one.planned_at for one in back.caught_up]
            count, cursor = count + back.count, back.cursor
        due = plan(timer, cursor, "seed", now=now)
        fired, cursor = fired + [one.planned_at for one in due.late], due.cursor
    wanted = [one.planned_at for one in between(timer, Cursor(NOON), "seed", now)]
    if policy == "fire_all":
        assert fired == wanted
    elif timer.repeats is None:
        assert set(fired) <= set(wanted)
        assert len(fired) + count == len(wanted)


@each_row(
    ("policy", "missed", "caught_up"),
    [
        ("skip", MissedRun(NOON + MINUTE, NOON + 5 * MINUTE, 5), []),
        ("fire_once", MissedRun(NOON + MINUTE, NOON + 4 * MINUTE, 4), [5]),
        ("fire_all", MissedRun(NOON + MINUTE, NOON + 3 * MINUTE, 3), [4, 5]),
    ],
)
def test_the_end_of_a_pause_chooses_for_its_firings(
    policy: str, missed: MissedRun, caught_up: list[int]
) -> None:
    """SPEC section 10, PUT: `misfire=` chooses; grace plays no part."""
    timer = make(MINUTELY, misfire_limit=2)
    back = resume(timer, Cursor(NOON), now=NOON + 5 * MINUTE, seed="", policy=policy)
    assert (back.missed, planned(back.caught_up), back.count) == (missed, minutes(*caught_up), 5)
    assert plan(timer, back.cursor, "", now=NOON + 5 * MINUTE).late == ()


def test_a_one_time_that_never_fired_fires_and_one_that_did_does_not() -> None:
    """SPEC section 10, PUT."""
    timer = make(None, None)
    back = resume(timer, Cursor(NOON), now=NOON + DAY, seed="")
    assert (back.missed, back.caught_up, back.count) == (None, (), 0)
    assert upcoming(timer, back.cursor, "") == Firing(NOON + DAY, NOON + DAY)
    fired = resume(timer, Cursor(NOON, NOON, 1), now=NOON + DAY, seed="")
    assert upcoming(timer, fired.cursor, "") is None
    # PUT: an absolute dueTime keeps its phase; one that never fired restarts
    absolute = make("0s", "2024-05-15 12:10:00")
    back = resume(absolute, Cursor(NOON), now=NOON + HOUR, seed="")
    assert (back.count, upcoming(absolute, back.cursor, "")) == (1, None)
    caught_up = resume(absolute, Cursor(NOON), now=NOON + HOUR, seed="", policy="fire_once")
    assert planned(caught_up.caught_up) == minutes(10)
    relative = make("0s", "10m")
    back = resume(relative, Cursor(NOON), now=NOON + HOUR, seed="")
    assert upcoming(relative, back.cursor, "") == Firing(NOON + 70 * MINUTE, NOON + 70 * MINUTE)


def test_external_has_neither_firings_nor_misses() -> None:
    """SPEC section 3: fires only by trigger."""
    timer = make("external")
    assert plan(timer, Cursor(NOON), "", now=NOON + DAY) == DueFirings(None, (), (), Cursor(NOON), None)
    assert resume(timer, Cursor(NOON), now=NOON + DAY, seed="").count == 0
    # Jitter is part of the plan: only what was planned before the grace is missed
    timer = make("10s", "10s", jitter=9_000, misfire_grace=0, misfire_policy="skip")
    first, second = islice(between(timer, Cursor(0), "seed", LATEST), 2)
    assert second.planned_at > second.base + 1, "this seed delays the second firing"
    found = plan(timer, Cursor(0), "seed", now=second.base + 1)
    assert (found.missed, found.late) == (MissedRun(first.planned_at, first.planned_at, 1), ())
    assert found.following == second
