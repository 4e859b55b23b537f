"""Timers on the days of a calendar, against a walk over all days (SPEC section 3, Calendars)."""

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.errors import DefinitionError
from scheduler_service.domain.moments import DAY, HOUR, MINUTE, as_datetime, as_moment, rfc3339
from scheduler_service.timing.calendar_days import FREE, WORK, Calendar, DayRule, DaySpan, make_calendar
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.misfire import plan
from scheduler_service.timing.preview import FiringCounts
from scheduler_service.timing.schedule import between, preceding, tally, upcoming, warnings_at
from scheduler_service.timing.timer import Timer, TimerText, bind_calendar, compile_timer
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row
from tests.unit.timing.timers import at

EPOCH = date(1970, 1, 1).toordinal()
WEEKDAYS = 0b11111


def day(text: str) -> int:
    return date.fromisoformat(text).toordinal() - EPOCH


def calendar(
    free: tuple[str, ...] = (), work: tuple[str, ...] = (), week: int = WEEKDAYS, zone: str | None = None
) -> Calendar:
    """A calendar whose lists have dates, or two joined by a slash."""
    layers = [(kind, [span(one) for one in listed]) for kind, listed in ((FREE, free), (WORK, work))]
    found = None if zone is None else load_zone(zone)
    return make_calendar("c", version=1, changed_at=0, week=week, layers=layers, zone=found)


def span(text: str) -> DaySpan:
    first, _, last = text.partition("/")
    return DaySpan(day(first), day(last or first))


def on_days(
    known: Calendar,
    period: str,
    due: str = "0s",
    days: str = WORK,
    otherwise: str = "skip",
    **members: object,
) -> Timer:
    text = TimerText(due_time=due, period=period, calendar=DayRule("c", days, otherwise), **members)  # type: ignore[arg-type]
    return bind_calendar(compile_timer(text, default_zone="UTC"), known)


NATIONAL = calendar(free=("2024-10-01/2024-10-07",), work=("2024-09-29", "2024-10-12"))
"""The first week of October is free, and two days of weekends are worked."""


@each_row(
    ("timer", "codes"),
    [
        (on_days(NATIONAL, "0 0 9 ? * SAT"), []),
        (on_days(calendar(), "0 0 9 ? * SAT"), ["/calendar never_fires"]),
        (on_days(calendar(week=0), "0 0 9 * * ?", otherwise="next"), ["/calendar never_fires"]),
        (on_days(calendar(), "0s", due="2024-10-12 09:00:00"), ["/calendar never_fires"]),
        (on_days(calendar(), "0s", due="2024-09-12 09:00:00"), [" in_the_past"]),
        (on_days(calendar(), "0 0 9 * * ?", end_at="2024-09-29 00:00:00"), [" never_fires"]),
    ],
)
def test_a_calendar_that_leaves_no_moment_is_named(timer: Timer, codes: list[str]) -> None:
    """The moments have not passed: there are none, and `startAt` and `endAt` are judged on their own."""
    found = warnings_at(timer, at("2024-09-28"))
    assert [f"{one.pointer} {one.code}" for one in found] == codes


def coming(timer: Timer, anchor: str, count: int) -> list[str]:
    found = islice(between(timer, Cursor(at(anchor)), "", LATEST), count)
    return [rfc3339(one.planned_at)[5:16] for one in found]


@each_row(
    ("otherwise", "days", "expected"),
    [
        ("skip", "work", ["09-29T09:00", "09-30T09:00", "10-08T09:00", "10-09T09:00"]),
        ("next", "work", ["09-29T09:00", "09-30T09:00", "10-08T09:00", "10-09T09:00"]),
        ("skip", "free", ["09-28T09:00", "10-01T09:00", "10-02T09:00", "10-03T09:00"]),
    ],
)
def test_make_up_days_win_over_holidays_and_both_over_the_week(
    otherwise: str, days: str, expected: list[str]
) -> None:
    """SPEC section 3; moments of several days that meet on one are one."""
    timer = on_days(NATIONAL, "0 0 9 * * ?", days=days, otherwise=otherwise)
    assert coming(timer, "2024-09-28T00:00:00Z", 4) == expected


@each_row(
    ("otherwise", "expected"),
    [
        ("skip", ["11-01T18:30", "01-01T18:30"]),
        ("next", ["10-08T18:30", "11-01T18:30", "12-02T18:30", "01-01T18:30"]),
        ("previous", ["09-30T18:30", "11-01T18:30", "11-29T18:30", "01-01T18:30"]),
    ],
)
def test_a_moment_on_another_day_is_none_or_moves(otherwise: str, expected: list[str]) -> None:
    """On the first of each month: 2024-10-01 is a holiday, 2024-12-01 a Sunday. Over a new year, too."""
    cron = on_days(NATIONAL, "0 30 18 1 * ?", otherwise=otherwise)
    assert coming(cron, "2024-09-28T00:00:00Z", len(expected)) == expected
    monthly = on_days(NATIONAL, "P1M", due="2024-10-01 18:30:00", otherwise=otherwise)
    assert coming(monthly, "2024-09-28T00:00:00Z", len(expected)) == expected


@each_row(
    ("period", "due", "otherwise", "since", "expected"),
    [
        ("0 30 2 * * ?", "0s", "previous", "2026-03-27", ["27T01:30", "30T00:30", "31T00:30"]),
        ("0 30 2 * * ?", "0s", "next", "2026-03-27", ["27T01:30", "30T00:30", "31T00:30"]),
        ("0 30 2 L * ?", "0s", "previous", "2024-03-28", ["29T01:30", "30T00:30"]),
        (
            "0 0,30 2,3 L * ?",
            "0s",
            "previous",
            "2024-03-28",
            ["29T01:00", "29T01:30", "29T02:00", "29T02:30"],
        ),
        ("P1D", "2026-03-02 02:30:00", "previous", "2026-03-27", ["27T01:30", "30T00:30", "31T00:30"]),
        ("P1W", "2026-03-29 02:30:00", "next", "2026-03-27", ["30T00:30", "06T00:30", "13T00:30"]),
        ("0s", "2026-03-29 02:30:00", "previous", "2026-03-27", ["27T01:30"]),
    ],
)
def test_a_skipped_moment_moves_to_its_written_time(
    period: str, due: str, otherwise: str, since: str, expected: list[str]
) -> None:
    """SPEC section 3: the same local time, not that after the gap; with that of the day itself it is one."""
    timer = on_days(calendar(), period, due, otherwise=otherwise, timezone="Europe/Berlin")
    assert [one[3:] for one in coming(timer, f"{since}T00:00:00Z", len(expected))] == expected


@each_row("otherwise", ["skip", "next", "previous"])
@each_row(
    ("zone", "own_zone"),
    [
        ("Europe/Berlin", "America/New_York"),
        ("America/New_York", "Europe/Berlin"),
        ("Europe/Berlin", "Australia/Sydney"),
        ("America/New_York", "Asia/Beirut"),
        ("Asia/Shanghai", "Australia/Lord_Howe"),
        ("UTC", "Europe/London"),
    ],
)
def test_where_clocks_of_timer_and_calendar_change_apart_no_day_has_two(
    zone: str, own_zone: str, otherwise: str
) -> None:
    """What moves has the time of the timer's clocks, so it is one with the moment of the day (section 3)."""
    timer = on_days(calendar(zone=own_zone), "0 0 12 * * ?", otherwise=otherwise, timezone=zone)
    fired = between(timer, Cursor(at("2026-01-01T00:00:00Z")), "", at("2027-01-01T00:00:00Z"))
    moments = [one.base for one in fired]
    assert {local_of(one, ZoneInfo(zone)).hour for one in moments} == {12}
    days = [local_of(one, ZoneInfo(own_zone)).date() for one in moments]
    first = date(2026, 1, 1)
    every = [first + timedelta(number) for number in range(366)]
    assert days == [one for one in every if one.weekday() < 5 and days[0] <= one <= days[-1]]


@each_row(
    ("since", "otherwise", "expected"),
    [
        ("2026-03-05", "next", ["05T04:30", "06T04:30", "07T04:30", "09T04:30", "10T04:30"]),
        ("2026-03-26", "next", ["26T04:30", "27T04:30", "31T03:30", "01T03:30"]),
        ("2026-10-23", "next", ["23T03:30", "24T03:30", "26T04:30", "27T04:30"]),
    ],
)
def test_a_moment_that_clocks_shift_over_midnight_stays_on_a_right_day(
    since: str, otherwise: str, expected: list[str]
) -> None:
    """05:30 in Berlin is 23:30 in New York, and 00:30 while only one of them has summer time."""
    known = calendar(zone="America/New_York")
    timer = on_days(known, "0 30 5 * * ?", otherwise=otherwise, timezone="Europe/Berlin")
    assert [one[3:] for one in coming(timer, f"{since}T01:00:00Z", len(expected))] == expected


def test_repeats_count_what_is_planned() -> None:
    """`R3/P1D` from a Friday on: Friday, Monday, Tuesday; a missed one uses up a repeat."""
    timer = on_days(calendar(), "R3/P1D", due="2024-05-17 09:00:00")
    assert coming(timer, "2024-05-17T00:00:00Z", 9) == ["05-17T09:00", "05-20T09:00", "05-21T09:00"]
    cursor = Cursor(at("2024-05-17T00:00:00Z"))
    due = plan(timer, cursor, "", now=at("2024-05-20T12:00:00Z"), policy="fire_once")
    assert [rfc3339(one.planned_at)[5:16] for one in due.caught_up] == ["05-20T09:00"]
    assert due.missed is not None
    assert (due.missed.count, due.cursor.used) == (1, 2)
    assert due.following is not None
    assert rfc3339(due.following.planned_at)[5:16] == "05-21T09:00"
    assert coming(on_days(calendar(), "R2/P1D", due="2024-05-18 09:00:00", otherwise="next"),
                  "2024-05-17T00:00:00Z", 9) == ["05-20T09:00", "05-21T09:00"]  # fmt: skip


def test_a_calendar_without_such_days_has_no_moment() -> None:
    """Neither an endless walk: no working day, and a pattern that meets none."""
    never = calendar(week=0)
    for otherwise in ("skip", "next", "previous"):
        timer = on_days(never, "0 0 9 * * ?", otherwise=otherwise)
        assert upcoming(timer, Cursor(at("2024-05-17T00:00:00Z")), "") is None
    sundays = on_days(calendar(), "0 0 9 ? * SUN")
    assert upcoming(sundays, Cursor(at("2024-05-17T00:00:00Z")), "") is None
    # A timer without its calendar stands still
    timer = bind_calendar(on_days(NATIONAL, "0 0 9 * * ?"), None)
    assert "there is no calendar 'c'" in timer.trouble
    assert upcoming(timer, Cursor(0), "") is None
    assert coming(bind_calendar(timer, NATIONAL), "2024-09-30T12:00:00Z", 1) == ["10-08T09:00"]


def refused(**members: object) -> dict[str, str]:
    with pytest.raises(DefinitionError) as caught:
        compile_timer(TimerText(**members), default_zone="UTC")  # type: ignore[arg-type]
    return {one.pointer: one.message for one in caught.value.problems}


def test_it_is_for_timing_and_cron() -> None:
    """External and single jobs have none, nor has a fixed delay; what fires all day long does not move."""
    rule, moving = DayRule("c"), DayRule("c", otherwise="next")
    assert "/calendar" in refused(due_time="0s", period="external", calendar=rule)
    assert "/calendar" in refused(calendar=rule)
    assert "/calendar" in refused(due_time="0s", period="5m", period_from="end", calendar=rule)
    for period in ("5m", "30m", "0 * * * * ?"):
        assert "/calendar/otherwise" in refused(due_time="0s", period=period, calendar=moving)
    compile_timer(TimerText(due_time="0s", period="1h", calendar=moving), default_zone="UTC")


ZONES = ("UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
PERIODS = (
    ("0s", "0 30 2 * * ?"),
    ("0s", "0 0 9,15 ? * FRI-SUN"),
    ("0s", "0 0 0 L * ?"),
    ("0s", "0 15 1-3 * * ?"),
    ("2024-01-31 02:30:00", "P1M"),
    ("2024-01-03 23:30:00", "P1D"),
    ("2024-01-03 23:30:00", "PT17H"),
    ("2024-02-29 12:00:00", "P1Y"),
)
BEGIN, SPAN = day("2024-01-01"), 400
dates = st.integers(BEGIN, BEGIN + SPAN)
spans = st.lists(
    st.builds(lambda first, more: DaySpan(first, first + more), dates, st.integers(0, 9)), max_size=12
)


def local_of(moment: int, zone: ZoneInfo) -> datetime:
    return as_datetime(moment).astimezone(zone)


def moment_of(local: datetime, zone: ZoneInfo) -> int:
    """The first occurrence of a local time; in a gap its end, found minute by minute."""
    while True:
        moment = as_moment(local.replace(tzinfo=zone, fold=0).astimezone(UTC))
        if local_of(moment, zone).replace(tzinfo=None, fold=0) == local:
            return moment
        local = local.replace(second=0, microsecond=0) + timedelta(minutes=1)


@given(
    period=st.sampled_from(PERIODS),
    zone=st.sampled_from(ZONES),
    own_zone=st.sampled_from([None, "Europe/Berlin", "Pacific/Auckland", "Asia/Beirut"]),
    week=st.sampled_from([WEEKDAYS, WEEKDAYS, 0b111111, 0b1000000, 0, 127]),
    free=spans,
    work=spans,
    days=st.sampled_from([WORK, FREE]),
    otherwise=st.sampled_from(["skip", "next", "previous"]),
    start=st.integers(0, 200 * 24),
)
@settings(deadline=None, max_examples=18)
def test_it_agrees_with_a_walk_over_all_days(
    period: tuple[str, str],
    zone: str,
    own_zone: str | None,
    week: int,
    free: list[DaySpan],
    work: list[DaySpan],
    days: str,
    otherwise: str,
    start: int,
) -> None:
    """Forwards, backwards and counted, over changes of the clock, leap days and the ends of years."""
    known = make_calendar(
        "c", version=1, changed_at=0, week=week, layers=[(FREE, free), (WORK, work)],
        zone=own_zone and load_zone(own_zone),
    )  # fmt: skip
    timer = on_days(known, period[1], period[0], days, otherwise, timezone=zone)
    place = ZoneInfo(own_zone or zone)

    @cache
    def is_right(one: date) -> bool:
        number = one.toordinal() - EPOCH
        is_work = bool(week >> one.weekday() & 1)
        for kind, listed in ((False, free), (True, work)):
            if any(part.first <= number <= part.last for part in listed):
                is_work = kind
        return is_work is (days == WORK)

    expected = set()
    bare = msgspec.structs.replace(timer, rule=None)
    clocks = ZoneInfo(zone)
    text = TimerText(due_time=period[0], period=period[1])
    even = compile_timer(text, default_zone="UTC")  # the local times as they are written
    written = between(even, Cursor(at("2022-12-01T00:00:00Z")), "", (BEGIN + SPAN + 400) * DAY)
    delays: dict[int, list[timedelta]] = {}
    for one in () if "T" in period[1] else written:
        naive = as_datetime(one.base).replace(tzinfo=None)
        moment = moment_of(naive, clocks)
        delays.setdefault(moment, []).append(local_of(moment, clocks).replace(tzinfo=None) - naive)
    for firing in between(bare, Cursor(at("2022-12-01T00:00:00Z")), "", (BEGIN + SPAN + 400) * DAY):
        local = local_of(firing.base, place)
        if is_right(local.date()):
            expected.add(firing.base)
        elif otherwise != "skip":
            step = timedelta(days=1 if otherwise == "next" else -1)
            tries = (local.date() + step * number for number in range(1, 367))
            target = next((one for one in tries if is_right(one)), None)
            for delay in delays.get(firing.base, [timedelta()]) if target is not None else ():
                shown = local_of(firing.base, clocks)
                aims = [shown.date() + (target - local.date()) + timedelta(days) for days in (0, -1, 1)]
                moved = (moment_of(datetime.combine(aim, (shown - delay).time()), clocks) for aim in aims)
                own = moment_of(datetime.combine(target, (local - delay).time()), place)
                expected.add(next((one for one in moved if local_of(one, place).date() == target), own))
    anchor = BEGIN * DAY + 5 * DAY + start * HOUR + MINUTE
    end = (BEGIN + SPAN - 20) * DAY
    wanted = [one for one in sorted(expected) if anchor < one <= end]
    firings = [one.base for one in between(timer, Cursor(anchor), "", end)]
    assert firings == wanted
    for place_of, moment in enumerate(wanted[:40]):
        before = wanted[place_of - 1] if place_of else None
        assert preceding(timer, Cursor(anchor), moment) == before
        assert preceding(timer, Cursor(anchor), moment + 1) == moment
    middle = anchor + (end - anchor) // 2
    assert tally(timer, Cursor(anchor), middle, 10_000) == len([one for one in wanted if one <= middle])
    counts = FiringCounts(timer, anchor)
    low, high = bisect_left(wanted, anchor + 30 * DAY), bisect_left(wanted, anchor + 37 * DAY)
    assert counts.within(anchor + 30 * DAY, anchor + 37 * DAY) == high - low


def test_many_moments_of_working_days_are_counted_by_hours() -> None:
    """A timer that fires every second costs an outlook no more than another."""
    timer = on_days(NATIONAL, "* * * * * ?")
    anchor = at("2024-09-30T00:00:00Z")
    counts = FiringCounts(timer, anchor)
    assert counts.within(anchor + HOUR, anchor + 9 * DAY) == 86_400 + 82_800
    assert counts.within(anchor + DAY, anchor + 2 * DAY + MINUTE) == 0
