"""Large answers: few are made at a time, whatever many callers ask for at one moment and read or do not."""

import asyncio
from enum import Enum

from starlette.types import Message, Send

from scheduler_service.api.request_room import WAIT_SECONDS, RequestRoom

MOST = 4
"""One may take 4 MiB as it is sent, in rare cases 10, and three times as much while it is made."""
HOLD_SECONDS = 0.25
"""So long an answer keeps its place once it is made, if it is not read: the next ones wait for readers."""
UNREAD_BYTES = 24 << 20
"""So much answers may take beyond that time before the next ones wait until some are read, or cut off."""
LARGE_BYTES = 64 << 10
"""A shorter answer is buffered whole, whether it is read or not."""
BUSY = "too many large answers are being made; ask again in a moment, or for less by limit"

_END: Message = {"type": "http.response.body", "body": b"", "more_body": False}


class AnswerLine(Enum):
    """Where callers wait for a large answer: those that read the state do not wait for a slow history."""

    STATE = "state"
    HISTORY = "history"


class LargeAnswers:
    """Places for the answers of one line that are being made in one process; who finds none waits in line.

    An answer has its place until it is read, or for `hold_seconds`; where those without a place would take
    more than `unread_bytes`, until some of them have been sent.
    """

    def __init__(
        self,
        *,
        most: int = MOST,
        hold_seconds: float = HOLD_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
        unread_bytes: int = UNREAD_BYTES,
    ) -> None:
        self._room = RequestRoom(most, busy=BUSY, wait_seconds=wait_seconds)
        self.hold_seconds = hold_seconds
        self._unread_bytes = unread_bytes
        # Those beyond their time, the longest first.
        self._unread: dict[Place, int] = {}
        self._overdue: dict[Place, int] = {}

    async def take(self, send: Send) -> "Place":
        """A place for the answer that `Place.send` sends. Raises ApiProblem (503) where all stay taken."""
        await self._room.take(1)
        return Place(self, send)

    def let_next_in(self, place: "Place", size: int) -> None:
        """Gives `place` to the next answer where there is room for one of `size` bytes that is not read."""
        if sum(self._unread.values()) + size > self._unread_bytes:
            self._overdue[place] = size
            return
        self._unread[place] = size
        self._room.give_back(1)

    def end(self, place: "Place") -> None:
        """The answer has been sent, or is not wanted any more."""
        if self._unread.pop(place, None) is None:
            self._overdue.pop(place, None)
            self._room.give_back(1)
            return
        waiting, self._overdue = self._overdue, {}
        for one, size in waiting.items():
            self.let_next_in(one, size)


class Place:
    """Where one answer is made and sent; to be given back, once or more."""

    def __init__(self, answers: LargeAnswers, send: Send) -> None:
        self._answers = answers
        self._send = send
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_taken = True

    async def send(self, message: Message) -> None:
        """Passes a message on (ASGI); after the last one of a large answer, waits until it is read."""
        if self._timer is None:
            self._size = _length(message)
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._answers.hold_seconds, self._let_next_in)
        if len(message.get("body", b"")) > LARGE_BYTES and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            message = _END  # which is passed on when what came before it has been read
        await self._send(message)

    def give_back(self) -> None:
        """The answer has been sent, or is not sent any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._is_taken:
            self._is_taken = False
            self._answers.end(self)

    def _let_next_in(self) -> None:
        self._answers.let_next_in(self, self._size)


def _length(start: Message) -> int:
    """Bytes of the body of the answer that begins so, which is in memory until all of it has been sent."""
    return next((int(value) for name, value in start.get("headers", ()) if name == b"content-length"), 0)
