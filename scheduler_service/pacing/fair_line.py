"""A line in which those who share it take turns, however many things one of them has in it."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class FairLine(Generic[T]):
    """Things in line, each for an owner, as a tenant: the owners take turns, and each has its own in order.

    An owner that comes anew waits for one thing of each other one. With one owner it is a plain line. A thing
    stands in it once.
    """

    __slots__ = ("_lanes", "_size")

    def __init__(self) -> None:
        self._lanes = OrderedDict[str, OrderedDict[T, None]]()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[T]:
        """All of them, owner by owner."""
        for lane in self._lanes.values():
            yield from lane

    def newest_first(self) -> Iterator[Iterator[T]]:
        """Of each owner its own, the newest first."""
        return map(reversed, self._lanes.values())

    def add(self, thing: T, owner: str) -> None:
        """Puts it at the end; nothing where it is in line already."""
        lane = self._lanes.get(owner)
        if lane is None:
            lane = self._lanes[owner] = OrderedDict()
        if thing not in lane:
            lane[thing] = None
            self._size += 1

    def pop(self) -> T:
        """Takes out the next one. Raises StopIteration where there is none."""
        lanes = self._lanes
        owner = next(iter(lanes))
        lane = lanes[owner]
        thing, _ = lane.popitem(last=False)
        self._size -= 1
        if not lane:
            del lanes[owner]
        elif len(lanes) > 1:
            lanes.move_to_end(owner)
        return thing

    def discard(self, thing: T, owner: str) -> bool:
        """Takes this one out; False: it is not in line."""
        lane = self._lanes.get(owner)
        if lane is None or thing not in lane:
            return False
        del lane[thing]
        self._size -= 1
        if not lane:
            del self._lanes[owner]
        return True
