"""The memory of the event stream: bounded, in order, and sure of what it does not have."""

from scheduler_service.domain.occurrences import Occurrence, OccurrenceKind
from scheduler_service.telemetry.event_ring import EVENT_BYTES, EventRing


def occurrence(text: str = "") -> Occurrence:
    return Occurrence(kind=OccurrenceKind.STARTED, at=1, message=text)


def positions(ring: EventRing) -> list[int]:
    return [ring.at(index).position for index in range(ring.first, ring.end)]


def test_the_oldest_leave_first() -> None:
    """Beyond the number that is kept; positions need not be dense."""
    ring = EventRing(most=3)
    ring.begin(10)
    for position in (20, 30, 40, 50):
        ring.add(position, occurrence())
    assert positions(ring) == [30, 40, 50]
    assert (ring.first, ring.end, ring.newest) == (1, 4, 50)


def test_it_is_bounded_in_bytes() -> None:
    """Long texts count: few of them are kept, and the count comes back to nothing."""
    ring = EventRing(most_bytes=10 * EVENT_BYTES)
    ring.begin(0)
    for position in range(1, 1_000):
        ring.add(position, occurrence("x" * EVENT_BYTES))
        assert ring.bytes <= 10 * EVENT_BYTES
    assert positions(ring) == [997, 998, 999]
    ring.begin(1_000)
    assert (positions(ring), ring.bytes) == ([], 0)


def test_what_comes_after_a_position_is_found_or_known_to_be_missing() -> None:
    """After the last that has left, everything is there; before it, something is missing."""
    ring = EventRing(most=3)
    ring.begin(10)
    assert ring.after(9) is None
    assert ring.after(10) == ring.end
    for position in (20, 30, 40, 50):
        ring.add(position, occurrence())
    assert ring.after(19) is None
    found = [ring.after(position) for position in (20, 29, 30, 49, 50, 99)]
    assert found == [1, 1, 2, 3, 4, 4]
