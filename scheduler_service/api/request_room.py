"""Room for what few requests may have at a time: whoever finds none waits in line, and not for ever."""

import asyncio
from http import HTTPStatus

from scheduler_service.api.responses import ApiProblem, refuse
from scheduler_service.pacing.room import Room

WAIT_SECONDS = 10.0


class RequestRoom:
    """So many units of something, for the requests of one process, in the order of their asking.

    `busy` is what a caller is told where there is still no room after `wait_seconds`.
    """

    def __init__(self, units: int, *, busy: str, wait_seconds: float = WAIT_SECONDS) -> None:
        self._room = Room(
            units, later=lambda give_up: asyncio.get_running_loop().call_later(wait_seconds, give_up)
        )
        self._busy = busy
        self.give_back = self._room.give_back

    async def take(self, units: int) -> int:
        """Returns how many are the caller's until they are given back: `units`, or all that there are.

        Raises ApiProblem (503) where there is no room for them within `wait_seconds`.
        """
        try:
            return await self._room.take(units)
        except TimeoutError:
            raise self._no_room() from None

    def _no_room(self) -> ApiProblem:
        problem = refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "busy", self._busy)
        problem.headers = (("retry-after", "1"),)
        return problem
