"""A line in which those who share it take turns, however many things one of them has in it."""

import asyncio
from collections import OrderedDict
from collections.abc import Container, Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class FairLine(Generic[Key, Value]):
    """Things in line by their keys, each for an owner, as a tenant: owners take turns, each in its own order.

    An owner that comes anew waits for one thing of each other one. With one owner it is a plain line. `size`
    is how many things are in line; nobody else writes it.
    """

    __slots__ = ("_lanes", "size")

    def __init__(self) -> None:
        self._lanes = OrderedDict[str, OrderedDict[Key, Value]]()
        self.size = 0

    def __len__(self) -> int:
        return self.size  # whoever looks at each turn reads that itself, without a call

    def newest_first(self) -> Iterator[Iterator[Key]]:
        """Of each owner its own, the newest first."""
        return map(reversed, self._lanes.values())

    def add(self, key: Key, value: Value, owner: str) -> None:
        """Puts it at the end; nothing where it is in line already."""
        lane = self._lanes.get(owner)
        if lane is None:
            lane = self._lanes[owner] = OrderedDict()
        if key not in lane:
            lane[key] = value
            self.size += 1

    def pop(self) -> tuple[Key, Value]:
        """Takes out the next one. Raises StopIteration where there is none."""
        lanes = self._lanes
        owner = next(iter(lanes))
        lane = lanes[owner]
        thing = lane.popitem(last=False)
        self.size -= 1
        if not lane:
            del lanes[owner]
        elif len(lanes) > 1:
            lanes.move_to_end(owner)
        return thing

    def pop_beside(self, crowds: Container[str]) -> tuple[Key, Value] | None:
        """The same for owners that are none of `crowds`; None where these have all that there is."""
        for owner in self._lanes:
            if owner not in crowds:
                self._lanes.move_to_end(owner, last=False)
                return self.pop()
        return None

    def discard(self, key: Key, owner: str) -> bool:
        """Takes this one out; False: it is not in line."""
        lane = self._lanes.get(owner)
        if lane is None or key not in lane:
            return False
        del lane[key]
        self.size -= 1
        if not lane:
            del self._lanes[owner]
        return True


class FairSlots:
    """So many may be at work at a time; owners of those that wait take turns. For one event loop."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._line: FairLine[asyncio.Future[None], None] = FairLine()

    async def acquire(self, owner: str) -> None:
        """Returns when there is a slot; whoever has it releases it."""
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.add(place, None, owner)
        try:
            await place
        except asyncio.CancelledError:
            if not self._line.discard(place, owner) and not place.cancelled():
                self.release()  # it was given one just before
            raise

    def release(self) -> None:
        """Gives a slot back, to the next in line."""
        while self._line.size:
            place, _ = self._line.pop()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
