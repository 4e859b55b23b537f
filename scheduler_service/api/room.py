"""Room for what few requests may have at a time: whoever finds none waits in line."""

import asyncio
from collections import deque
from http import HTTPStatus

from scheduler_service.api.responses import ApiProblem, refuse

WAIT_SECONDS = 10.0


class Room:
    """So many units of something, for the requests of one process, in the order of their asking.

    `busy` is what a caller is told where there is still no room after `wait_seconds`.
    """

    def __init__(self, units: int, *, busy: str, wait_seconds: float = WAIT_SECONDS) -> None:
        self._units = self._left = units
        self._busy = busy
        self._wait_seconds = wait_seconds
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, units: int) -> int:
        """Returns how many are the caller's until they are given back: `units`, or all that there are.

        Raises ApiProblem (503) where there is no room for them within `wait_seconds`.
        """
        wanted = min(units, self._units)
        if not wanted:
            return 0
        if not self._waiting and wanted <= self._left:
            self._left -= wanted
            return wanted
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, place))
        try:
            async with asyncio.timeout(self._wait_seconds):
                await place
        except BaseException as error:
            self._leave(wanted, place)
            if isinstance(error, TimeoutError):
                raise self._no_room() from None
            raise
        return wanted

    def give_back(self, taken: int) -> None:
        """What was taken is not needed any more."""
        self._left += taken
        self._let_in()

    def _leave(self, wanted: int, place: "asyncio.Future[None]") -> None:
        if not place.cancelled():
            self._left += wanted
        elif (wanted, place) in self._waiting:  # else it was passed over, as room came back in the same turn
            self._waiting.remove((wanted, place))
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._left:
            wanted, place = self._waiting.popleft()
            if place.cancelled():
                continue
            self._left -= wanted
            place.set_result(None)

    def _no_room(self) -> ApiProblem:
        problem = refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "busy", self._busy)
        problem.headers = (("retry-after", "1"),)
        return problem
