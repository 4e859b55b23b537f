"""Whether a node was taken for alive without a break (SPEC section 14)."""

from scheduler_service.hosts.dapr.liveness import (
    HEARTBEAT_INTERVAL_MS,
    OFFLINE_AFTER_MS,
    OWN_LAPSE_AFTER_MS,
    Liveness,
)
from tests.manual_clock import ManualClock


def beating() -> tuple[Liveness, ManualClock]:
    """A node whose heartbeat has just been written."""
    clock = ManualClock(wall=1_000_000)
    liveness = Liveness(clock=clock)
    liveness.extend(clock.now().steady)
    return liveness, clock


def test_a_period_lasts_from_beat_to_beat() -> None:
    """As long as none is 9 s old, which is a second before the others give the node up."""
    liveness, clock = beating()
    period = liveness.period
    for _ in range(20):
        clock.advance(HEARTBEAT_INTERVAL_MS)
        assert liveness.lasts(period)
        liveness.extend(clock.now().steady)
    clock.advance(OWN_LAPSE_AFTER_MS - 1)
    assert liveness.lasts(period)
    assert OWN_LAPSE_AFTER_MS < OFFLINE_AFTER_MS
    clock.advance(1)
    assert not liveness.is_current
    assert not liveness.lasts(period)


def test_what_was_begun_before_a_break_counts_no_more() -> None:
    """With the next heartbeat a new period begins; there is no moment at which the old one lasts."""
    liveness, clock = beating()
    period = liveness.period
    clock.advance(OWN_LAPSE_AFTER_MS)
    liveness.extend(clock.now().steady)
    assert liveness.is_current
    assert not liveness.lasts(period)
    assert liveness.lasts(liveness.period)


def test_a_beat_counts_from_when_it_was_begun() -> None:
    """One that took 9 s to be written does not count."""
    liveness, clock = beating()
    before = clock.now().steady
    clock.advance(OWN_LAPSE_AFTER_MS)
    liveness.extend(before)
    assert not liveness.is_current


def test_a_node_that_says_goodbye_is_gone_at_once() -> None:
    """And begins anew when it is back."""
    liveness, clock = beating()
    period = liveness.period
    liveness.end()
    assert not liveness.is_current
    assert not liveness.lasts(period)
    liveness.extend(clock.now().steady)
    assert not liveness.lasts(period)
    assert liveness.lasts(liveness.period)


def test_before_its_first_beat_nobody_takes_a_node_for_alive() -> None:
    """So nothing that is begun then counts."""
    liveness = Liveness(clock=ManualClock(wall=1_000_000))
    assert not liveness.lasts(liveness.period)
