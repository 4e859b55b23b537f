"""Room for large bodies: how much memory they take at a time, whatever many callers send at one moment."""

import asyncio
from collections import deque
from http import HTTPStatus

from scheduler_service.api.responses import ApiProblem, refuse

ROOM_BYTES = 96 << 20
SMALL_BYTES = 64 << 10
"""A body up to this size needs no room."""
WHOLE_MAX = 1 << 20
"""A longer body is never decoded as a whole: 16 MiB of empty arrays take 400 MiB of memory."""
VALUES_PER_BYTE = 24
TEXTS_PER_BYTE = 3
"""A body of `[[],[],…]` takes so much when it is decoded; and any body, as it was sent and cut into items."""
WAIT_SECONDS = 10.0


class BodyRoom:
    """Memory for the bodies of the requests of one process; who finds none waits in line."""

    def __init__(self, *, room: int = ROOM_BYTES, wait_seconds: float = WAIT_SECONDS) -> None:
        self._room = self._left = room
        self._wait_seconds = wait_seconds
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> int:
        """Returns what a body of `size` bytes takes, which is the caller's until it is given back.

        Raises ApiProblem (503) where there is no room for it within `wait_seconds`.
        """
        wanted = min(weigh(size), self._room)
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
                raise _no_room() from None
            raise
        return wanted

    def give_back(self, taken: int) -> None:
        """The body is worked on no longer."""
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


def weigh(size: int) -> int:
    """The most memory that a body of `size` bytes takes while it is worked on; small ones count as none."""
    return 0 if size <= SMALL_BYTES else VALUES_PER_BYTE * min(size, WHOLE_MAX) + TEXTS_PER_BYTE * size


def _no_room() -> ApiProblem:
    text = "too many large bodies are being worked on; send it again in a moment, or in smaller parts"
    problem = refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "busy", text)
    problem.headers = (("retry-after", "1"),)
    return problem
