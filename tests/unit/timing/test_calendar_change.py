"""The first firing that another calendar changes, against a walk over all firings (SPEC section 3)."""

from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY
from scheduler_service.timing.calendar_change import MOST_STEPS, find_change, find_days
from scheduler_service.timing.calendar_days import FREE, WORK, Calendar, DayRule, DaySpan, make_calendar
from scheduler_service.timing.schedule import COUNT_MAX, between
from scheduler_service.timing.timer import Timer, TimerText, bind_calendar, compile_timer
from scheduler_service.timing.zones import load_zone
from tests.unit.timing.timers import at

NOW = at("2026-01-01T12:00:00Z")
TODAY = NOW // DAY
PERIODS = ["0 0 9 * * ?", "0 0 0/6 ? * 6", "0 30 23 1 * ?", "PT5H", "P1W", "R30/P2D", "R3/PT1H", "P1M"]
ZONES = [None, "UTC", "Asia/Shanghai", "America/New_York"]


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    spans = st.builds(
        lambda first, length: DaySpan(TODAY + first, TODAY + first + length),
        st.integers(-5, 90),
        st.integers(0, 9),
    )
    layers = [(kind, draw(st.lists(spans, max_size=3))) for kind in (FREE, WORK)]
    zone = draw(st.sampled_from(ZONES))
    week = draw(st.sampled_from([0b11111, 0b111111, 0b1, 0b1111111]))
    known = None if zone is None else load_zone(zone)
    return make_calendar("c", version=1, changed_at=0, week=week, layers=layers, zone=known)


def timer_of(
    calendar: Calendar | None, period: str, otherwise: str = "skip", days: str = WORK, **more: str
) -> Timer:
    text = TimerText(due_time="1h", period=period, calendar=DayRule("c", days, otherwise), **more)
    return bind_calendar(compile_timer(text, default_zone="UTC"), calendar)


@settings(max_examples=20)
@given(
    before=calendars(),
    after=calendars(),
    period=st.sampled_from(PERIODS),
    otherwise=st.sampled_from(["skip", "next", "previous"]),
    days=st.sampled_from([WORK, FREE]),
)
def test_it_agrees_with_a_walk_over_all_firings(
    before: Calendar, after: Calendar, period: str, otherwise: str, days: str
) -> None:
    """For calendars that differ in days, weeks or zones."""
    timer, cursor = timer_of(before, period, otherwise, days), Cursor(NOW)
    last = NOW + 120 * DAY
    walks = (between(one, cursor, "", last) for one in (timer, bind_calendar(timer, after)))
    moments = [[one.planned_at for one in walk if one.planned_at > NOW] for walk in walks]
    pairs = [pair for pair in zip_longest(*moments) if pair[0] != pair[1]]
    first = min((one for one in pairs[0] if one is not None), default=None) if pairs else None
    found = find_change(timer, after, find_days(before, after, NOW), cursor, now=NOW, seed="", count=3)
    if first is None:
        assert found is None or found.first is None or found.first > last
        return
    assert found is not None
    assert found.first == first
    for shown, walked in zip((found.before, found.after), moments, strict=True):
        assert [one for one in shown if one <= last] == [one for one in walked if one >= first][:3]


def test_a_dense_timer_is_not_walked_over() -> None:
    """A firing each second, and a day in five years: the moment at which that day begins."""
    office = make_calendar("c", version=1, changed_at=0, week=0b1111111, layers=(), zone=None)
    free = [(FREE, [DaySpan(TODAY + 1_800, TODAY + 1_800)])]
    changed = replace(make_calendar("c", version=2, changed_at=0, week=0b1111111, layers=free, zone=None))
    found = find_change(
        timer_of(office, "* * * * * ?"),
        changed,
        find_days(office, changed, NOW),
        Cursor(NOW),
        now=NOW,
        seed="",
        count=1,
    )
    assert found is not None
    assert found.first == (TODAY + 1_800) * DAY
    assert (found.before, found.after) == (((TODAY + 1_800) * DAY,), ((TODAY + 1_801) * DAY,))


def test_a_calendar_that_was_missing_brings_all_firings() -> None:
    """Before it there are none."""
    office = make_calendar("c", version=1, changed_at=0, week=0b1111111, layers=(), zone=None)
    timer = timer_of(None, "0 0 9 * * ?")
    found = find_change(timer, office, find_days(None, office, NOW), Cursor(NOW), now=NOW, seed="", count=2)
    assert found is not None
    assert (found.first, found.before, len(found.after)) == (at("2026-01-02T09:00:00Z"), (), 2)


@pytest.mark.parametrize("period", [f"R{10 * COUNT_MAX}/PT1S", "0 0/30 * * * ?"])
def test_what_is_too_much_to_compare_is_said(period: str) -> None:
    """Repeats that would have to be counted, or moments in a change of thousands of days."""
    office = make_calendar("c", version=1, changed_at=0, week=0b1111111, layers=(), zone=None)
    far = [(FREE, [DaySpan(TODAY + 1_800, TODAY + 1_800)])]
    changed = make_calendar("c", version=2, changed_at=0, week=0b1111111, layers=far, zone=None)
    span = [DaySpan(TODAY, TODAY + MOST_STEPS)]
    found = find_change(timer_of(office, period), changed, span, Cursor(NOW), now=NOW, seed="", count=2)
    assert found is not None
    assert found.first is None
    assert len(found.before) == len(found.after) == 2
