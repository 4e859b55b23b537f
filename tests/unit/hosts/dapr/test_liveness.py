"""Whether a node was taken for alive without a break (SPEC section 14)."""

from scheduler_service.hosts.clock import ManualClock
from scheduler_service.hosts.dapr.liveness import BEAT, LAPSE, OFFLINE, Liveness


def beating() -> tuple[Liveness, ManualClock]:
    """A node that has just been heard of."""
    clock = ManualClock(wall=1_000_000)
    tenure = Liveness(clock=clock)
    tenure.extend(clock.now().steady)
    return tenure, clock


def test_a_stretch_lasts_from_beat_to_beat() -> None:
    """As long as none is 9 s old, which is a second before the others give the node up."""
    tenure, clock = beating()
    number = tenure.number
    for _ in range(20):
        clock.advance(BEAT)
        assert tenure.lasts(number)
        tenure.extend(clock.now().steady)
    clock.advance(LAPSE - 1)
    assert tenure.lasts(number)
    assert LAPSE < OFFLINE
    clock.advance(1)
    assert not tenure.is_current
    assert not tenure.lasts(number)


def test_what_was_begun_before_a_break_counts_no_more() -> None:
    """Heard of again, the node begins anew; there is no moment at which the old stretch lasts."""
    tenure, clock = beating()
    number = tenure.number
    clock.advance(LAPSE)
    tenure.extend(clock.now().steady)
    assert tenure.is_current
    assert not tenure.lasts(number)
    assert tenure.lasts(tenure.number)


def test_a_beat_counts_from_when_it_was_begun() -> None:
    """One that took 9 s to be written says nothing of now."""
    tenure, clock = beating()
    before = clock.now().steady
    clock.advance(LAPSE)
    tenure.extend(before)
    assert not tenure.is_current


def test_a_node_that_says_goodbye_is_gone_at_once() -> None:
    """And begins anew when it is back."""
    tenure, clock = beating()
    number = tenure.number
    tenure.end()
    assert not tenure.is_current
    assert not tenure.lasts(number)
    tenure.extend(clock.now().steady)
    assert not tenure.lasts(number)
    assert tenure.lasts(tenure.number)


def test_before_its_first_beat_nobody_takes_a_node_for_alive() -> None:
    """So nothing that is begun then counts."""
    tenure = Liveness(clock=ManualClock(wall=1_000_000))
    assert not tenure.lasts(tenure.number)
