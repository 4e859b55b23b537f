"""Timers shown to people (SPEC sections 3 and 10)."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY, HOUR, MINUTE, as_moment
from scheduler_service.timing.preview import look_ahead, preview
from scheduler_service.timing.schedule import between
from scheduler_service.timing.timer import Timer, TimerText, compile_timer
from scheduler_service.timing.times import parse_time
from scheduler_service.timing.zones import load_zone
from tests.rows import each_row

NOON = as_moment(datetime(2024, 3, 30, 12, tzinfo=UTC))


def make(due_time: str | None, period: str | None, **members: object) -> Timer:
    text = TimerText(due_time=due_time, period=period, **members)  # type: ignore[arg-type]
    return compile_timer(text, default_zone="UTC")


def test_cron_shows_dialect_normal_form_and_local_times() -> None:
    """The dialect, a description, local and UTC times; days of clock change are marked (SPEC section 3)."""
    shown = preview(make("0s", "30 2 * * *", timezone="Europe/Berlin"), anchor=NOON, count=2)
    assert (shown.kind, shown.dialect, shown.normal_form) == ("cron", "unix", "30 2 * * *")
    assert shown.description.endswith("Europe/Berlin time")
    first, second = shown.firings
    assert (first.utc, first.local) == (NOON + 13 * HOUR, "2024-03-31T03:00:00.000+02:00")
    assert first.note is not None
    assert (second.local, second.note) == ("2024-04-01T02:30:00.000+02:00", None)
    # `from` is the moment of creation for delays and ttl, and not a firing of cron
    cron = preview(make("0s", "0 0 * * * ?", ttl="2h"), anchor=NOON, count=9)
    assert [firing.utc for firing in cron.firings] == [NOON + HOUR, NOON + 2 * HOUR]
    timing = preview(make("0s", "1h", ttl="2h"), anchor=NOON, count=9)
    assert [firing.utc for firing in timing.firings] == [NOON, NOON + HOUR, NOON + 2 * HOUR]


def test_bounds_are_kept() -> None:
    """SPEC section 10: count at most 1,000; nothing after `until`."""
    timer = make("0s", "1s")
    assert len(preview(timer, anchor=NOON, count=5_000).firings) == 1_000
    assert preview(timer, anchor=NOON, count=-1).firings == ()
    assert len(preview(timer, anchor=NOON, count=500, until=NOON + MINUTE).firings) == 61


@given(
    st.sampled_from([("0s", "0 */7 2 * * ?"), ("0s", "@hourly"), ("1h", "P1M"), ("3s", "R9/PT7M")]),
    st.integers(NOON - 400 * DAY, NOON),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from(["", "seed"]),
)
@settings(deadline=None)
def test_a_shorter_preview_is_the_beginning_of_a_longer_one(
    texts: tuple[str, str], anchor: int, count: int, more: int, seed: str
) -> None:
    """Asking for more changes nothing of what was shown."""
    timer = make(*texts, timezone="Europe/Berlin", jitter=5_000)
    short = preview(timer, anchor=anchor, count=count, seed=seed).firings
    long = preview(timer, anchor=anchor, count=count + more, seed=seed).firings
    assert long[: len(short)] == short
    assert len(short) == min(count, len(long))


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
