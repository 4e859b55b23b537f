"""Room for what few may have at a time: whoever finds none waits in line."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol


class Timer(Protocol):
    """Something that will be called, unless it is cancelled."""

    def cancel(self) -> object:
        """It is not called."""


Later = Callable[[Callable[[], None]], Timer]
"""Calls back when whoever has waited since now has waited long enough."""


class Room:
    """So many units of something, for one event loop, in the order of their asking.

    `later` says when whoever waits gives up; None: never.
    """

    def __init__(self, units: int, *, later: Later | None = None) -> None:
        self._units = self._left = units
        self._later = later
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_crowded(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    async def take(self, units: int) -> int:
        """Returns how many are the caller's until they are given back: `units`, or all that there are.

        Raises TimeoutError where there has been no room for them for too long.
        """
        wanted = min(units, self._units)
        if not wanted:
            return 0
        if not self._waiting and wanted <= self._left:
            self._left -= wanted
            return wanted
        # Without `asyncio.timeout`, which light tasks do not have.
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, place))
        timer = None if self._later is None else self._later(partial(_give_up, place))
        try:
            await place
        except BaseException:
            self._leave(wanted, place)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return wanted

    def give_back(self, taken: int) -> None:
        """What was taken is not needed any more."""
        self._left += taken
        self._let_in()

    def _leave(self, wanted: int, place: "asyncio.Future[None]") -> None:
        if place.done() and not place.cancelled() and place.exception() is None:
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


def _give_up(place: "asyncio.Future[None]") -> None:
    if not place.done():
        place.set_exception(TimeoutError())
