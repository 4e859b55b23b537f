"""Room for what few may have at a time: whoever finds none waits in line, and no one kind takes it all."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol


class Cancellable(Protocol):
    """Something that will be called, unless it is cancelled."""

    def cancel(self) -> object:
        """It is not called."""


Callback = Callable[[], None]
Later = Callable[[Callback], Cancellable]
"""Calls back when whoever has waited since now has waited long enough."""


class Place:
    """What somebody has of a room, or the place in line for it."""

    __slots__ = ("_room", "go_on", "is_granted", "is_left", "key", "units")

    def __init__(self, room: "Room", units: int, key: str, go_on: Callback) -> None:
        self._room = room
        self.units = units
        self.key = key
        self.go_on = go_on
        self.is_granted = False
        self.is_left = False

    def leave(self) -> None:
        """Gives the units back, or leaves the line; nothing the second time."""
        if not self.is_left:
            self.is_left = True
            self._room.take_back(self)


def _call_soon(callback: Callback) -> None:
    asyncio.get_running_loop().call_soon(callback)


class Room:
    """So many units of something, for one event loop, in the order of asking.

    Who wants more than all gets them alone. With one `key`, as an origin, at most half is had at a time, or
    more by one alone: others pass those that wait behind it. Whoever waits is called by `call_soon`, never
    from within a method. What is given back is free by `call_soon` as well: whoever has done with it may
    count what comes of it (`hold`) before others are let in. `later` says when whoever waits in `take` gives
    up; None: never.
    """

    def __init__(
        self, units: int, *, later: Later | None = None, call_soon: Callable[[Callback], None] = _call_soon
    ) -> None:
        self.taken = 0
        self._units = units
        self._later = later
        self._call_soon = call_soon
        self._shares: dict[str, int] = {}
        self._lines: dict[str, dict[Place, int]] = {}  # with the number of each place
        self._count = 0
        self._is_due = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._lines.values()))

    def ask(self, units: int, go_on: Callback, key: str = "") -> Place:
        """A place for `units`: at once, then it `is_granted`, or later, then `go_on` is called.

        Whoever does not need it any more leaves it.
        """
        place = Place(self, units, key, go_on)
        self._count += 1
        self._lines.setdefault(key, {})[place] = self._count
        if self._first() is place and self._fits(place):
            self._grant(place)
        return place

    async def take(self, units: int, key: str = "") -> Place:
        """A place for `units`, once there is room. Raises TimeoutError: there has been none for too long."""
        # Without `asyncio.timeout`, which light tasks do not have.
        let_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = self.ask(units, lambda: None if let_in.done() else let_in.set_result(None), key)
        if place.is_granted:
            return place
        timer = None if self._later is None else self._later(partial(_give_up, let_in))
        try:
            await let_in
        except BaseException:
            place.leave()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return place

    def hold(self, size: int) -> None:
        """So many units more are taken, by whoever need not ask."""
        self.taken += size

    def release(self, size: int) -> None:
        """They are free again."""
        self.taken -= size
        self._serve_soon()

    def take_back(self, place: Place) -> None:
        """For `Place.leave`."""
        if place.is_granted:
            self._call_soon(partial(self._free, place))
            return
        self._drop(place)
        self._serve_soon()

    def _free(self, place: Place) -> None:
        self.taken -= place.units
        left = self._shares.pop(place.key) - place.units
        if left:
            self._shares[place.key] = left
        self._serve()

    def _serve_soon(self) -> None:
        if self._lines and not self._is_due:
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
        """The first one in line whose key may have more."""
        heads = [next(iter(line.items())) for line in self._lines.values()]
        may_go = [(number, place) for place, number in heads if self._may_have(place)]
        return min(may_go)[1] if may_go else None

    def _may_have(self, place: Place) -> bool:
        share = self._shares.get(place.key, 0)
        return not place.key or not share or share + place.units <= self._units // 2

    def _fits(self, place: Place) -> bool:
        return self.taken == 0 or self.taken + place.units <= self._units

    def _grant(self, place: Place) -> None:
        self._drop(place)
        place.is_granted = True
        self.taken += place.units
        self._shares[place.key] = self._shares.get(place.key, 0) + place.units

    def _drop(self, place: Place) -> None:
        line = self._lines[place.key]
        del line[place]
        if not line:
            del self._lines[place.key]


def _give_up(let_in: "asyncio.Future[None]") -> None:
    if not let_in.done():
        let_in.set_exception(TimeoutError())
