"""What requests wait in line for: memory for large bodies, and places for large answers; not for ever."""

import asyncio
from enum import Enum
from http import HTTPStatus

from starlette.types import Message, Send

from scheduler_service.api.responses import refuse
from scheduler_service.pacing.waiting_room import Place, Room

WAIT_SECONDS = 10.0
MOST = 4
"""One may take 4 MiB as it is sent, in rare cases 10, and three times as much while it is made."""
HOLD_SECONDS = 0.25
"""So long an answer keeps its place once it is made, if it is not read: the next ones wait for readers."""
LARGE_BYTES = 64 << 10
"""A shorter answer is buffered whole, whether it is read or not."""
ANSWERS_BUSY = "too many large answers are being made; ask again in a moment, or for less by limit"
_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}
ROOM_BYTES = 96 << 20
SMALL_BYTES = 64 << 10
"""A body up to this size needs no room."""
WHOLE_MAX = 1 << 20
"""A longer body is never decoded as a whole: 4 MiB of empty arrays take 100 MiB of memory."""
VALUES_PER_BYTE = 24
TEXTS_PER_BYTE = 3
"""A body of `[[],[],…]` takes so much when it is decoded; and any body, as it was sent and cut into items."""
BODIES_BUSY = "too many large bodies are being worked on; send it again in a moment, or in smaller parts"


def waiting_room(units: int, wait_seconds: float = WAIT_SECONDS) -> Room:
    """A room in which a request waits for at most `wait_seconds`."""
    return Room(units, later=lambda give_up: asyncio.get_running_loop().call_later(wait_seconds, give_up))


async def take_place(room: Room, units: int, busy: str) -> Place:
    """A place in `room`. Raises ApiProblem (503), which says `busy`, where it has waited for too long.

    Who asks again at once waits in line again.
    """
    try:
        return await room.take(units)
    except TimeoutError:
        raise refuse(HTTPStatus.SERVICE_UNAVAILABLE, "", "busy", busy, retry_seconds=1) from None


class WaitingLine(Enum):
    """Where callers wait for a large answer: those that read the state do not wait for a slow history."""

    STATE = "state"
    HISTORY = "history"


class LargeAnswers:
    """Places for the answers of one line that are being made in one process; who finds none waits in line."""

    def __init__(
        self, *, most: int = MOST, hold_seconds: float = HOLD_SECONDS, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._room = waiting_room(most, wait_seconds)
        self._hold_seconds = hold_seconds

    async def take(self, send: Send) -> "AnswerPlace":
        """A place for the answer that it sends. Raises ApiProblem (503) where all stay taken."""
        return AnswerPlace(await take_place(self._room, 1, ANSWERS_BUSY), send, self._hold_seconds)


class AnswerPlace:
    """Where one answer is made and sent; to be given back, once or more."""

    def __init__(self, place: Place, send: Send, hold_seconds: float) -> None:
        self._place = place
        self._send = send
        self._hold_seconds = hold_seconds
        self._timer: asyncio.TimerHandle | None = None

    async def send(self, message: Message) -> None:
        """Passes a message on (ASGI); after the last one of a large answer, waits until it is read."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._hold_seconds, self.give_back)
        if len(message.get("body", b"")) > LARGE_BYTES and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            message = _END  # which is passed on when what came before it has been read
        await self._send(message)

    def give_back(self) -> None:
        """The answer has been sent, or waits for its reader, who does not come."""
        if self._timer is not None:
            self._timer.cancel()
        self._place.leave()


def weigh(size: int) -> int:
    """The most memory that a body of `size` bytes takes while it is worked on; small ones count as none."""
    return 0 if size <= SMALL_BYTES else VALUES_PER_BYTE * min(size, WHOLE_MAX) + TEXTS_PER_BYTE * size
