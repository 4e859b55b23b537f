"""What a timer does over many days, against its firings one by one (SPEC section 10)."""

from collections import Counter

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY, HOUR
from scheduler_service.timing.outlook import look_ahead
from scheduler_service.timing.schedule import between
from scheduler_service.timing.timer import Timer, TimerText, compile_timer
from scheduler_service.timing.times import parse_time
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row

UTC = load_zone("UTC")


def timer(period: str, zone: str = "Europe/Berlin", **members: str) -> Timer:
    """A timer in a zone."""
    return compile_timer(
        TimerText(due_time=members.pop("due", "0s"), period=period, timezone=zone, **members),  # type: ignore[arg-type]
        default_zone="UTC",
    )


@each_row("since", ["2026-03-27 10:17:23", "2026-10-23 00:00:00", "2026-01-30 23:59:59"])
@each_row("zone", ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "America/Havana"])
@each_row(
    "period",
    [
        "0 30 2 * * ?",
        "0 0/7 * * * ?",
        "*/20 10-40 1-3 * * ?",
        "15 59 23 L * ?",
        "0 0 0 * * ?",
        "37m",
        "P1M",
        "1d",
    ],
)
def test_the_counts_are_those_of_the_firings(period: str, zone: str, since: str) -> None:
    """Of each local day and hour, also where clocks change and where the first hour is not whole."""
    one, anchor = timer(period, zone), parse_time(since, UTC)
    ahead = look_ahead(one, anchor=anchor, days=5)
    moments = [firing.base for firing in between(one, Cursor(anchor), "", ahead.until - 1)]
    days, hours = Counter[int](), Counter[int]()
    for moment in moments:
        days[one.zone.to_local(moment) // DAY] += 1
        hours[one.zone.to_local(moment) // HOUR % 24] += 1
    assert {day.day: day.count for day in ahead.days if day.count} == dict(days)
    assert {hour: count for hour, count in enumerate(ahead.by_hour) if count} == dict(hours)
    assert ahead.total == len(moments)
    if moments:
        with_firings = [day for day in ahead.days if day.count]
        assert (with_firings[0].first, with_firings[-1].last) == (moments[0], moments[-1])


def test_days_of_a_clock_change_are_marked() -> None:
    """With the step, also where nothing fires."""
    one = timer("external")
    ahead = look_ahead(one, anchor=parse_time("2026-01-01 00:00:00", UTC), days=366)
    assert [(day.step, day.count) for day in ahead.days] == [(HOUR, 0), (-HOUR, 0)]
    assert all(day.note for day in ahead.days)


def test_a_timer_that_fires_every_second_is_computed() -> None:
    """A year of it, by both kinds of timers; bounds hold."""
    anchor = parse_time("2026-01-01 00:00:00", UTC)
    year = 365 * 86_400
    assert look_ahead(timer("* * * * * ?", "UTC"), anchor=anchor - 1, days=366).total == year
    assert look_ahead(timer("1s", "UTC"), anchor=anchor, days=365).total == year
    assert look_ahead(timer("R5/PT1S", "UTC"), anchor=anchor, days=365).total == 5
    ended = timer("* * * * * ?", "UTC", end_at="2026-01-01 00:01:00")
    assert look_ahead(ended, anchor=anchor, days=2).total == 60
