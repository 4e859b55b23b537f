"""One reader's place in the events that are kept."""

import re
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, Protocol

from scheduler_service.domain.occurrences import Occurrence
from scheduler_service.telemetry.event_ring import EventRing, EventSource, RingEvent

LOOKED_AT = 500
"""Events that one read looks at, at most: what a filter leaves out costs time, too."""

UNKNOWN = -1
"""The length of a gap of which nobody knows how long it is."""

_ID = re.compile(r"([0-9a-z]{1,24})-([0-9]{1,18})")
Wants = Callable[[Occurrence], bool]


class Feed(Protocol):
    """What a reader needs of its feed."""

    is_closed: bool

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Ends when there is more."""

    def leave(self) -> None:
        """The reader has gone."""


class EventId(NamedTuple):
    """A position in a line."""

    line: str
    position: int

    def __str__(self) -> str:
        return f"{self.line}-{self.position}"


def read_event_id(text: str) -> EventId:
    """The id that an event had. Raises ValueError with the remedy."""
    found = _ID.fullmatch(text)
    if found is None:
        raise ValueError("is not the id of an event; give the last one that was read, as 7-1042")
    return EventId(found[1], int(found[2]))


class Taken(NamedTuple):
    """What a reader has read: `gap` events were lost before `events` (-1: nobody knows how many)."""

    gap: int
    events: list[RingEvent]


class EventReader:
    """One reader's place in the feed. It has no queue: who is too slow loses the oldest, and is told so."""

    def __init__(self, *, feed: Feed, ring: EventRing, source: EventSource, last: EventId | None) -> None:
        self._feed = feed
        self._ring = ring
        self._line = source.line
        self._gap = 0
        self._index = ring.end
        self._position = ring.newest
        self._skipped = 0
        if last is not None:
            self._go_back(last, source.ahead)

    @property
    def is_ended(self) -> bool:
        """Whether nothing comes any more."""
        return self._feed.is_closed

    @property
    def id(self) -> EventId:
        """The id from which to follow again: that of the last event that was looked at."""
        return EventId(self._line, self._position)

    @property
    def has_more(self) -> bool:
        """Whether there is more to look at."""
        return self._gap != 0 or self._index < self._ring.end

    def id_of(self, event: RingEvent) -> EventId:
        """The id of an event."""
        return EventId(self._line, event.position)

    def look_ahead(self) -> tuple[int, list[Occurrence]]:
        """What the next `take` looks at, where it is given the number that stands before it."""
        ring = self._ring
        first = max(self._index, ring.first)
        end = min(ring.end, first + LOOKED_AT)
        return end, [ring.at(index).occurrence for index in range(first, end)]

    def skip(self, end: int) -> int:
        """Passes over what is before the number `end` of `look_ahead`: how many (-1: nobody knows)."""
        gap = UNKNOWN if self._gap == UNKNOWN else self._gap + max(0, end - self._index)
        self._gap = 0
        if end > self._index:
            self._index = end
            if end > self._ring.first:
                self._position = self._ring.at(end - 1).position
        return gap

    def take(self, wants: Wants, most: int, end: int | None = None) -> Taken:
        """The next events for which `wants` is true, at most `most`; there may be more behind them.

        `end` of `look_ahead`: nothing is looked at that came later.
        """
        ring, gap = self._ring, self._gap
        if self._index < ring.first:
            gap = UNKNOWN if gap == UNKNOWN else gap + ring.first - self._index
            self._index = ring.first
        self._gap = 0
        found: list[RingEvent] = []
        last = ring.end if end is None else min(ring.end, end)
        for index in range(self._index, min(last, self._index + LOOKED_AT)):
            event = ring.at(index)
            self._index, self._position = index + 1, event.position
            if event.position > self._skipped and wants(event.occurrence):
                found.append(event)
                if len(found) == most:
                    break
        return Taken(gap, found)

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Ends when there is more than at the moment of the call, or nothing comes any more."""
        return self._feed.changed()

    def leave(self) -> None:
        """Ends it."""
        self._feed.leave()

    def _go_back(self, last: EventId, ahead: int) -> None:
        ring = self._ring
        index = None
        if last.line == self._line and last.position <= ring.newest + ahead:
            index = ring.after(last.position)
        if index is None:
            self._gap, self._index = UNKNOWN, ring.first
        else:
            # Another node may have told what has not come here yet.
            self._index, self._skipped = index, last.position
        self._position = last.position if index is not None else self._position
