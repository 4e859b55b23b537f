"""How many bytes of large responses are in memory: being read, or not yet taken by their jobs."""

import asyncio
import heapq
from collections.abc import Callable
from functools import partial

ROOM_BYTES = 32 << 20

Callback = Callable[[], None]


class _Origin:
    """What one origin has: bytes reserved, and a line; `is_listed`: a place of it waits among the heads."""

    __slots__ = ("is_listed", "line", "name", "reserved")

    def __init__(self, name: str) -> None:
        self.name = name
        self.reserved = 0
        self.line: dict[Place, None] = {}
        self.is_listed = False


class Place:
    """The room of one body, or its place in line for it."""

    __slots__ = ("go_on", "is_granted", "is_left", "number", "origin", "size")

    def __init__(self, size: int, origin: _Origin, number: int, go_on: Callback) -> None:
        self.is_granted = False
        self.is_left = False
        self.size = size
        self.origin = origin
        self.number = number
        self.go_on = go_on


def _call_soon(callback: Callback) -> None:
    asyncio.get_running_loop().call_soon(callback)


class ResponseRoom:
    """Admits large bodies while they take at most `most` bytes with those that the host handles.

    Those who wait are served in the order in which they came, those of one origin as long as it has at most
    half of `most`: a target whose bodies do not come to their end does not hold up those of others. A body
    larger than `most` is read alone, one larger than half of it alone of its origin. Whoever waits is called
    by `call_soon`, never from within a method. What is given back is free by `call_soon` as well: whoever has
    just got its body counts it as handled before others are let in. It belongs to one event loop.
    """

    def __init__(self, most: int = ROOM_BYTES, *, call_soon: Callable[[Callback], None] = _call_soon) -> None:
        self.reserved = 0
        self.handled = 0
        self.waiting = 0
        self._most = most
        self._call_soon = call_soon
        self._origins: dict[str, _Origin] = {}
        self._heads: list[tuple[int, Place]] = []  # a heap: of each origin that may have more, its first one
        self._count = 0
        self._is_due = False

    @property
    def taken(self) -> int:
        """The bytes that are reserved and those that are handled."""
        return self.reserved + self.handled

    def reserve(self, size: int, origin: str, go_on: Callback) -> Place:
        """Room for `size` bytes of `origin`: at once, then `is_granted`, or later, then `go_on` is called.

        Whoever does not need it any more calls `leave`.
        """
        own = self._origins.get(origin)
        if own is None:
            own = self._origins[origin] = _Origin(origin)
        self._count += 1
        place = Place(size, own, self._count, go_on)
        own.line[place] = None
        self.waiting += 1
        self._list(own)
        if self._first() is place and self._fits(place):
            self._grant(place)
        return place

    def leave(self, place: Place) -> None:
        """Gives the room back, or leaves the line; nothing the second time."""
        if place.is_left:
            return
        place.is_left = True
        if place.is_granted:
            self._call_soon(partial(self._give_back, place))
            return
        del place.origin.line[place]
        self.waiting -= 1
        self._forget(place.origin)
        self._serve_soon()

    def hold(self, size: int) -> None:
        """The host handles `size` bytes more (`ports.sending.AnswerRoom`)."""
        self.handled += size

    def release(self, size: int) -> None:
        """The host has done with `size` bytes."""
        self.handled -= size
        self._serve_soon()

    def _give_back(self, place: Place) -> None:
        own = place.origin
        self.reserved -= place.size
        own.reserved -= place.size
        self._list(own)
        self._forget(own)
        self._serve()

    def _forget(self, own: _Origin) -> None:
        if not own.line and not own.reserved:
            del self._origins[own.name]

    def _serve_soon(self) -> None:
        if self._heads and not self._is_due:
            self._is_due = True
            self._call_soon(self._serve)

    def _serve(self) -> None:
        self._is_due = False
        granted: list[Place] = []
        while (place := self._first()) is not None and self._fits(place):
            self._grant(place)
            granted.append(place)
        for place in granted:
            if not place.is_left:
                place.go_on()

    def _first(self) -> Place | None:
        """The first one in line whose origin may have more."""
        while self._heads:
            place = self._heads[0][1]
            own = place.origin
            if not place.is_left and not self._is_full(own, place.size):
                return place
            heapq.heappop(self._heads)
            own.is_listed = False
            if place.is_left:
                self._list(own)
        return None

    def _list(self, own: _Origin) -> None:
        """Puts the first one of `own` among the heads; one whose origin is full goes from there again."""
        if own.line and not own.is_listed:
            place = next(iter(own.line))
            own.is_listed = True
            heapq.heappush(self._heads, (place.number, place))

    def _grant(self, place: Place) -> None:
        """Takes the first of the heads from its line."""
        heapq.heappop(self._heads)
        own = place.origin
        own.is_listed = False
        del own.line[place]
        self.waiting -= 1
        place.is_granted = True
        self.reserved += place.size
        own.reserved += place.size
        self._list(own)

    def _fits(self, place: Place) -> bool:
        return self.taken == 0 or self.taken + place.size <= self._most

    def _is_full(self, own: _Origin, size: int) -> bool:
        return own.reserved > 0 and own.reserved + size > self._most // 2
