"""The bare moments of a timer in order (SPEC section 3)."""

from itertools import islice

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.misfire import resume
from scheduler_service.timing.occurrences import advance, between, latest, preceding, tally
from scheduler_service.timing.outlook import FiringCounts
from scheduler_service.timing.preview import describe
from scheduler_service.timing.timer import Timer, TimerText, stand_still
from tests.unit.timing.timers import NOON, anchors, make, timers


@given(timers, anchors, st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_looking_back_agrees_with_walking(timer: Timer, anchor: int, count: int) -> None:
    """Arithmetic and the walk find the same moments, for every cursor."""
    firings = list(islice(between(timer, Cursor(anchor), "seed", LATEST), count + 1))
    cursor = Cursor(anchor)
    for place, firing in enumerate(firings):
        assert latest(timer, cursor, "seed", firing.base + 1) == firing
        assert preceding(timer, cursor, firing.base) == (firings[place - 1].base if place else None)
        assert tally(timer, cursor, firing.base, 1_000) == place + 1
    middle = len(firings) // 2
    for firing in firings[:middle]:
        cursor = advance(cursor, firing)
    assert list(islice(between(timer, cursor, "seed", LATEST), len(firings) - middle)) == firings[middle:]
    if firings[middle:]:
        assert tally(timer, cursor, firings[-1].base, 1_000) == len(firings) - middle


def test_a_far_moment_is_found_without_walking() -> None:
    """A job that slept for a century costs no more than one that slept for an hour."""
    far = NOON + 36_500 * DAY
    for period in ("1ms", "P1D", "P1M", "PT7H"):
        timer = make("2024-05-15 12:00:00", period)
        found = preceding(timer, Cursor(NOON), far)
        assert found is not None
        assert far - 31 * DAY <= found < far
    assert tally(make("0s", "1ms"), Cursor(NOON), far, 0) == 36_500 * DAY + 1


@given(timers, anchors)
@settings(deadline=None, max_examples=30)
def test_a_timer_that_stands_still_has_no_moment(timer: Timer, anchor: int) -> None:
    """Nothing of it is due, missed or counted, whatever its kind; it says why (SPEC section 2)."""
    still = stand_still(TimerText(due_time="x", period=str(timer.kind)), "no such zone")
    for one in (still, msgspec.structs.replace(timer, trouble="no such zone")):
        cursor = Cursor(anchor)
        assert list(between(one, cursor, "seed", LATEST)) == []
        assert preceding(one, cursor, LATEST) is None
        assert tally(one, cursor, LATEST, 100) == 0
        assert resume(one, cursor, now=anchor + DAY, seed="seed").count == 0
        assert FiringCounts(one, anchor).within(anchor, anchor + DAY) == 0
        assert describe(one) == "no such zone"
