"""Where the event stream has its events from: those of one service, in one rising line per start."""

from typing import Protocol

from scheduler_service.domain.occurrences import Occurrence
from scheduler_service.telemetry.occurrences import Leave, Occurrences


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
