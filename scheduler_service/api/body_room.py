"""Room for large bodies: how much memory they take at a time, whatever many callers send at one moment."""

from scheduler_service.api.request_room import WAIT_SECONDS, RequestRoom

ROOM_BYTES = 96 << 20
SMALL_BYTES = 64 << 10
"""A body up to this size needs no room."""
WHOLE_MAX = 1 << 20
"""A longer body is never decoded as a whole: 16 MiB of empty arrays take 400 MiB of memory."""
VALUES_PER_BYTE = 24
TEXTS_PER_BYTE = 3
"""A body of `[[],[],…]` takes so much when it is decoded; and any body, as it was sent and cut into items."""
BUSY = "too many large bodies are being worked on; send it again in a moment, or in smaller parts"


class BodyRoom:
    """Memory for the bodies of the requests of one process; who finds none waits in line."""

    def __init__(self, *, room: int = ROOM_BYTES, wait_seconds: float = WAIT_SECONDS) -> None:
        self._room = RequestRoom(room, busy=BUSY, wait_seconds=wait_seconds)

    async def take(self, size: int) -> int:
        """Returns what a body of `size` bytes takes, which is the caller's until it is given back.

        Raises ApiProblem (503) where there is no room for it within `wait_seconds`.
        """
        weight = weigh(size)
        return await self._room.take(weight) if weight else 0

    def give_back(self, taken: int) -> None:
        """The body is worked on no longer."""
        self._room.give_back(taken)


def weigh(size: int) -> int:
    """The most memory that a body of `size` bytes takes while it is worked on; small ones count as none."""
    return 0 if size <= SMALL_BYTES else VALUES_PER_BYTE * min(size, WHOLE_MAX) + TEXTS_PER_BYTE * size
