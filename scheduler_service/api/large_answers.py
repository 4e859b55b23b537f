"""Large answers: few are made at a time, whatever many callers ask for at one moment and read or do not."""

import asyncio
from enum import Enum

from starlette.types import Message, Send

from scheduler_service.api.request_room import WAIT_SECONDS, RequestRoom

MOST = 4
"""One may take 4 MiB as it is sent, in rare cases 10, and three times as much while it is made."""
HOLD_SECONDS = 0.25
"""So long an answer keeps its place once it is made, if it is not read: the next ones wait for readers."""
LARGE_BYTES = 64 << 10
"""A shorter answer is buffered whole, whether it is read or not."""
BUSY = "too many large answers are being made; ask again in a moment, or for less by limit"

_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class AnswerLine(Enum):
    """Where callers wait for a large answer: those that read the state do not wait for a slow history."""

    STATE = "state"
    HISTORY = "history"


class LargeAnswers:
    """Places for the answers of one line that are being made in one process; who finds none waits in line."""

    def __init__(
        self, *, most: int = MOST, hold_seconds: float = HOLD_SECONDS, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._room = RequestRoom(most, busy=BUSY, wait_seconds=wait_seconds)
        self._hold_seconds = hold_seconds

    async def take(self, send: Send) -> "Place":
        """A place for the answer that `Place.send` sends. Raises ApiProblem (503) where all stay taken."""
        await self._room.take(1)
        return Place(self._room, send, self._hold_seconds)


class Place:
    """Where one answer is made and sent; to be given back, once or more."""

    def __init__(self, room: RequestRoom, send: Send, hold_seconds: float) -> None:
        self._room = room
        self._send = send
        self._hold_seconds = hold_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._is_taken = True

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
        if self._is_taken:
            self._is_taken = False
            self._room.give_back(1)
