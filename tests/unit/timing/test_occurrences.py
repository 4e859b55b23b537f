"""The bare moments of a timer in order (SPEC section 3)."""

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.document import Cursor
from scheduler_service.domain.moments import DAY
from scheduler_service.timing.durations import LATEST
from scheduler_service.timing.occurrences import advance, between, latest, preceding, tally
from scheduler_service.timing.timer import Timer
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
