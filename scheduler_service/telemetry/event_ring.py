"""The last occurrences in order: the one memory that all readers of the event stream share."""

from typing import Protocol

import msgspec

from scheduler_service.domain.occurrences import Occurrence
from scheduler_service.telemetry.occurrences import Leave, Occurrences

KEPT_EVENTS = 10_000
KEPT_BYTES = 16 << 20
EVENT_BYTES = 1_200
"""About what an event takes beside its texts, once it has been written for a reader."""


class RingEvent(msgspec.Struct, gc=False):
    """An occurrence at its `position`; `frame` is its wire form, made when the first reader needs it."""

    position: int
    occurrence: Occurrence
    size: int
    """About how many bytes it takes."""
    frame: bytes = b""


class EventRing:
    """Events by index; positions rise, not always by one. What is too much leaves at the old end.

    `first` is the index of the oldest one that is kept, `end` the index of the next one.
    """

    def __init__(self, *, most: int = KEPT_EVENTS, most_bytes: int = KEPT_BYTES) -> None:
        self.first = 0
        self.end = 0
        self.newest = 0
        """The position up to which the ring knows what has happened."""
        self.bytes = 0
        self._floor = 0
        self._most = most
        self._most_bytes = most_bytes
        self._events: dict[int, RingEvent] = {}

    def begin(self, position: int) -> None:
        """What happened up to `position` is not kept; everything later is."""
        self.first = self.end
        self._events.clear()
        self.bytes = 0
        self._floor = self.newest = position

    def add(self, position: int, occurrence: Occurrence) -> None:
        """Adds the newest one."""
        size = EVENT_BYTES
        if occurrence.message is not None or occurrence.subject is not None:
            size += 2 * (len(occurrence.message or "") + len(occurrence.subject or ""))
        end = self.end
        self._events[end] = RingEvent(position, occurrence, size)
        self.end = end + 1
        self.newest = position
        self.bytes += size
        while self.bytes > self._most_bytes or self.end - self.first > self._most:
            self._drop_oldest()

    def at(self, index: int) -> RingEvent:
        """The event at an index from `first` on and before `end`."""
        return self._events[index]

    def after(self, position: int) -> int | None:
        """The index of the first event after `position`; None: some of those after it are not kept."""
        if position < self._floor:
            return None
        low, high = self.first, self.end
        while low < high:
            middle = (low + high) // 2
            if self._events[middle].position <= position:
                low = middle + 1
            else:
                high = middle
        return low

    def _drop_oldest(self) -> None:
        event = self._events.pop(self.first)
        self.first += 1
        self.bytes -= event.size
        self._floor = event.position


class EventSink(Protocol):
    """Takes the events of a source, on the event loop's thread."""

    def begin(self, position: int) -> None:
        """Everything after `position` will come; what was up to it does not."""

    def add(self, position: int, occurrence: Occurrence) -> None:
        """The next event."""


class EventSource(Protocol):
    """Brings events to a sink while it is listened to.

    `line` names the row of positions: those of two lines cannot be compared. `ahead`: by so much a position
    that a reader has seen elsewhere may be beyond what this source has brought.
    """

    line: str
    ahead: int

    def listen(self, sink: EventSink) -> Leave:
        """Brings what happens from now on, at once `begin`; or `begin` soon, where others must be asked."""


class LocalEvents:
    """The occurrences of one service, numbered from 1 at each of its starts (`EventSource`)."""

    ahead = 0

    def __init__(self, *, occurrences: Occurrences, line: str) -> None:
        self.line = line
        self._occurrences = occurrences
        self._position = 0

    def listen(self, sink: EventSink) -> Leave:
        """Begins after a number that no event has: what was not listened to is not taken for nothing."""
        self._position += 1
        sink.begin(self._position)

        def take(occurrence: Occurrence) -> None:
            self._position += 1
            sink.add(self._position, occurrence)

        return self._occurrences.subscribe(take)
