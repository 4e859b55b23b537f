"""Room for what few may have at a time: whoever finds none waits in line."""

import asyncio
from collections import deque


class Room:
    """So many units of something, for one event loop, in the order of their asking."""

    def __init__(self, units: int) -> None:
        self._units = self._left = units
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, units: int) -> int:
        """Returns how many are the caller's until they are given back: `units`, or all that there are."""
        wanted = min(units, self._units)
        if not wanted:
            return 0
        if not self._waiting and wanted <= self._left:
            self._left -= wanted
            return wanted
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, place))
        try:
            await place
        except BaseException:
            self._leave(wanted, place)
            raise
        return wanted

    def give_back(self, taken: int) -> None:
        """What was taken is not needed any more."""
        self._left += taken
        self._let_in()

    def _leave(self, wanted: int, place: "asyncio.Future[None]") -> None:
        if place.done() and not place.cancelled():
            self._left += wanted
        elif (wanted, place) in self._waiting:  # else it was passed over, as room came back in the same turn
            self._waiting.remove((wanted, place))
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._left:
            wanted, place = self._waiting.popleft()
            if place.done():
                continue
            self._left -= wanted
            place.set_result(None)
