"""Lets readers follow what happens, each at its own pace, out of one bounded memory that all share."""

import asyncio
import re
import secrets
from bisect import bisect_right
from collections.abc import Callable, Collection, Coroutine
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import msgspec

from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.public_events import Occurrence
from scheduler_service.telemetry.event_source import Leave, Occurrences

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
        kept = range(self.first, self.end)
        return self.first + bisect_right(kept, position, key=lambda index: self._events[index].position)

    def _drop_oldest(self) -> None:
        event = self._events.pop(self.first)
        self.first += 1
        self.bytes -= event.size
        self._floor = event.position


POSITION_BITS, NONCE_BITS = 40, 18
_HALF = (POSITION_BITS + NONCE_BITS) // 2
_LOW = (1 << _HALF) - 1
_ROUNDS = 8


class PositionSeal:
    """Turns positions into numbers of which nobody without its key can tell the order or the distance.

    Each time a position is sealed it gets another number: a reader must not see by its ids how much happens
    that is not for it. `key`: who has the same one reads these numbers.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def close(self, position: int) -> int:
        """A number for a position, of 18 digits at most."""
        number = (position << NONCE_BITS) | secrets.randbits(NONCE_BITS)
        left, right = number >> _HALF, number & _LOW
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._mix(turn, right)
        return left << _HALF | right

    def open(self, number: int) -> int:
        """The position; of a number that was not made with this key, any."""
        left, right = (number >> _HALF) & _LOW, number & _LOW
        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ self._mix(turn, left), left
        return (left << _HALF | right) >> NONCE_BITS

    def _mix(self, turn: int, half: int) -> int:
        content = bytes((turn,)) + half.to_bytes(4)
        return int.from_bytes(blake2b(content, digest_size=4, key=self._key).digest()) & _LOW


class EventSource(Protocol):
    """Brings events to a feed while it is listened to, on the event loop's thread.

    `line` names the row of positions: those of two lines cannot be compared. `ahead`: by so much a position
    that a reader has seen elsewhere may be beyond what this source has brought.
    """

    line: str
    ahead: int

    def listen(self, sink: "EventFeed") -> Leave:
        """Brings what happens from now on, at once `begin`; or `begin` soon, where others must be asked."""


class LocalEvents:
    """The occurrences of one service, numbered from 1 at each of its starts (`EventSource`)."""

    ahead = 0

    def __init__(self, *, occurrences: Occurrences, line: str) -> None:
        self.line = line
        self._occurrences = occurrences
        self._position = 0

    def listen(self, sink: "EventFeed") -> Leave:
        """Begins after a number that no event has: what was not listened to is not taken for nothing."""
        self._position += 1
        sink.begin(self._position)

        def take(occurrence: Occurrence) -> None:
            self._position += 1
            sink.add(self._position, occurrence)

        return self._occurrences.subscribe(take)


LOOKED_AT = 500
"""Events that one read looks at, at most: what a filter leaves out costs time, too."""

UNKNOWN = -1
"""The length of a gap of which nobody knows how long it is."""

_ID = re.compile(r"([0-9a-z]{1,24})-([0-9]{1,18})")
Wants = Callable[[Occurrence], bool]


class EventId(NamedTuple):
    """A position in a line, sealed."""

    line: str
    number: int

    def __str__(self) -> str:
        return f"{self.line}-{self.number}"


def read_event_id(text: str) -> EventId:
    """The id that an event had. Raises ValueError with the remedy."""
    found = _ID.fullmatch(text)
    if found is None:
        raise ValueError("is not the id of an event; give the last one that was read, as 7-1042")
    return EventId(found[1], int(found[2]))


class TakenEvents(NamedTuple):
    """What a reader has read: `gap` events were lost before `events` (-1: nobody knows how many)."""

    gap: int
    events: list[RingEvent]


class EventReader:
    """One reader's place in the feed. It has no queue: who is too slow loses the oldest, and is told so."""

    def __init__(
        self,
        *,
        feed: "EventFeed",
        ring: EventRing,
        source: EventSource,
        last: EventId | None,
        tenant: str = "",
    ) -> None:
        self.tenant = tenant
        self.gives_way = False
        """It ends: another tenant's reader has its place."""
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
        return self._feed.is_closed or self.gives_way

    @property
    def id(self) -> EventId:
        """The id from which to follow again: that of the last event that was looked at."""
        return self._write(self._position)

    @property
    def has_more(self) -> bool:
        """Whether there is more to look at."""
        return self._gap != 0 or self._index < self._ring.end

    def id_of(self, event: RingEvent) -> EventId:
        """The id of an event."""
        return self._write(event.position)

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

    def take(self, wants: Wants, most: int, end: int | None = None) -> TakenEvents:
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
        return TakenEvents(gap, found)

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Ends when there is more than at the moment of the call, or nothing comes any more."""
        return self._feed.changed()

    def leave(self) -> None:
        """Ends it."""
        self._feed.leave(self)

    def _write(self, position: int) -> EventId:
        return EventId(self._line, self._feed.seal.close(position))

    def _go_back(self, last: EventId, ahead: int) -> None:
        ring, position = self._ring, self._feed.seal.open(last.number)
        index = None
        if last.line == self._line and position <= ring.newest + ahead:
            index = ring.after(position)
        if index is None:
            self._gap, self._index = UNKNOWN, ring.first
        else:
            # Another node may have told what has not come here yet.
            self._index, self._skipped, self._position = index, position, position


KEEP_SECONDS = 300.0
"""So long events are kept after the last reader has gone: it may come back for them."""

GROUP_SECONDS = 0.05
"""Readers are woken at most so often, however much happens."""

BEGIN_SECONDS = 5.0
CLOSE_SECONDS = 0.5
Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class FeedClosed(PunctualError):
    """The service stops: nothing can be followed any more."""


class FeedFull(PunctualError):
    """As many readers as are allowed follow already."""


class EventFeed:
    """Follows a source while it has readers, and `KEEP_SECONDS` longer; before the first it costs nothing.

    Occurrences of the jobs `hidden` are left out. `later` is that of the event loop.
    """

    def __init__(
        self,
        *,
        source: EventSource,
        most_readers: int,
        hidden: Collection[str] = (),
        ring: EventRing | None = None,
        later: Later | None = None,
    ) -> None:
        self.ring = ring or EventRing()
        self.seal = PositionSeal()
        self.readers = 0
        self._by_tenant: dict[str, list[EventReader]] = {}
        self._source = source
        self._most_readers = most_readers
        self._hidden = frozenset(hidden)
        self._later = later
        self._leave: Leave | None = None
        self._begun = asyncio.Event()
        self._changed = asyncio.Event()
        self._left = asyncio.Event()
        self._waking: asyncio.TimerHandle | None = None
        self._ending: asyncio.TimerHandle | None = None
        self.is_closed = False

    async def follow(self, last: EventId | None = None, tenant: str = "") -> EventReader:
        """A reader of all that comes after the event `last`, or from now on.

        Where there are as many as are allowed, the newest of the tenant that has most gives way to one of a
        tenant with fewer. Raises FeedFull, FeedClosed. A source that does not begin within some seconds is
        not waited for.
        """
        if self.is_closed:
            raise FeedClosed("the service stops; ask again in a moment")
        if self.readers >= self._most_readers and not self._make_room(tenant):
            raise FeedFull(
                f"more readers than follow already are not allowed (limits.event_readers: "
                f"{self._most_readers}, which tenants share); ask again later"
            )
        self.readers += 1
        self._left.clear()
        try:
            self._listen()
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._begun.wait()
        except TimeoutError:
            pass
        except BaseException:
            self._count_one_less()
            raise
        reader = EventReader(feed=self, ring=self.ring, source=self._source, last=last, tenant=tenant)
        self._by_tenant.setdefault(tenant, []).append(reader)
        return reader

    def changed(self) -> Coroutine[Any, Any, bool]:
        """Ends when there is more than at the moment of the call, or the feed is closed."""
        return self._changed.wait()

    async def close(self) -> None:
        """Ends all readers, and waits a moment until those that can have gone."""
        self.is_closed = True
        self._wake()
        self._changed.set()
        if self.readers:
            try:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._left.wait()
            except TimeoutError:
                pass
        if self._ending is not None:
            self._ending.cancel()
        self._end()

    def leave(self, reader: EventReader) -> None:
        """A reader has gone."""
        if not reader.gives_way:
            self._forget(reader)
            self._count_one_less()

    def _make_room(self, tenant: str) -> bool:
        """Whether a reader of another tenant, which has more than one more, has given way."""
        most = max(self._by_tenant.values(), key=len, default=[])
        if len(most) <= len(self._by_tenant.get(tenant, ())) + 1:
            return False
        reader = most[-1]
        self._forget(reader)
        reader.gives_way = True
        self.readers -= 1
        self._wake()
        return True

    def _forget(self, reader: EventReader) -> None:
        own = self._by_tenant[reader.tenant]
        own.remove(reader)
        if not own:
            del self._by_tenant[reader.tenant]

    def _count_one_less(self) -> None:
        self.readers -= 1
        if self.readers:
            return
        self._left.set()
        if not self.is_closed:
            self._ending = self._call_later(KEEP_SECONDS, self._end)

    def begin(self, position: int, seal: PositionSeal | None = None) -> None:
        """The source begins: everything after `position` will come; what was up to it does not.

        `seal` is that of its ids where several feeds follow one line; else this feed has one of its own.
        """
        self.seal = seal or self.seal
        self.ring.begin(position)
        self._begun.set()

    def add(self, position: int, occurrence: Occurrence) -> None:
        """The source has its next event."""
        if occurrence.job_id is not None and occurrence.job_id in self._hidden:
            return
        self.ring.add(position, occurrence)
        if self._waking is None and not self._changed.is_set():
            self._waking = self._call_later(GROUP_SECONDS, self._wake)

    def _listen(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._leave is None:
            self._leave = self._source.listen(self)

    def _end(self) -> None:
        self._ending = None
        if self._leave is not None:
            self._leave()
            self._leave = None
        self._begun.clear()
        self.ring.begin(self.ring.newest)

    def _wake(self) -> None:
        self._waking = None
        if self.is_closed:
            return
        self._changed.set()
        self._changed = asyncio.Event()

    def _call_later(self, seconds: float, work: Callable[[], None]) -> asyncio.TimerHandle:
        later = self._later or asyncio.get_running_loop().call_later
        return later(seconds, work)
