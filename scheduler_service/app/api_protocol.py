"""HTTP/1.1 towards callers, with bounds on each connection and on their number."""

import asyncio
from typing import Any, cast

from scheduler_service.app.connections import Connections
from scheduler_service.app.limited_protocol import LimitedProtocol

FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 47\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    b"There are too many connections: try again soon."
)

QUIET_BYTES = 4 << 10
"""So much of its requests a connection may hold without being counted, as nearly all do."""

COUNTED_BYTES = 64 << 10
"""So much of a body is counted: what is longer waits for its room outside (`api.request_room`)."""


class ApiProtocol(LimitedProtocol):
    """One connection of a caller; `open_connections` are those of its listener."""

    def __init__(self, *, open_connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._open_connections = open_connections
        self._input = HeldInput()
        self._is_counted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open (asyncio)."""
        super().connection_made(cast(asyncio.Transport, transport))
        if not self._open_connections.admit(self):
            self.transport.write(FULL)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed (asyncio)."""
        self._open_connections.forget(self)
        super().connection_lost(exc)

    @property
    def unsent_bytes(self) -> int:
        """How much of its answer waits to be read, also what is still to be written of it."""
        cycle = self._current
        to_write = 0 if cycle is None or cycle.response_complete else cycle.expected_content_length
        return self.transport.get_write_buffer_size() + to_write

    @property
    def kept_bytes(self) -> int:
        """How much memory its answer takes: all of it, until the last of it has been sent."""
        unsent = self.unsent_bytes
        return max(unsent, self._head_writer.body_bytes) if unsent and self._head_writer else unsent

    def pause_writing(self) -> None:
        """More is to be sent than the caller reads (asyncio)."""
        super().pause_writing()
        self._open_connections.block(self)

    def resume_writing(self) -> None:
        """The caller has read (asyncio)."""
        self._open_connections.unblock(self)
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Bytes have come (asyncio)."""
        super().data_received(data)
        self._tell_held()

    def on_body(self, body: bytes) -> None:
        """A piece of a body (httptools)."""
        super().on_body(body)
        if self._body_bytes > COUNTED_BYTES:  # the rest has room of its own, or is not read
            self._input.leave_out(min(len(body), self._body_bytes - COUNTED_BYTES))

    def on_message_complete(self) -> None:
        """A request is complete (httptools)."""
        super().on_message_complete()
        self._input.end(is_answered=self.cycle is not None and self.cycle.response_complete)

    def on_headers_complete(self) -> None:
        """The head of a request is complete (httptools)."""
        self._open_connections.begin(self)
        super().on_headers_complete()

    def cut(self) -> None:
        """Closes the connection at once; of a request that was not begun yet nothing is done."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._leave(self.cycle)
        super().cut()

    def on_response_complete(self) -> None:
        """A request is answered (uvicorn)."""
        self._input.answer()
        super().on_response_complete()
        self._tell_held()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._open_connections.finish(self)

    def _parse_rest(self) -> None:
        super()._parse_rest()
        self._tell_held()

    def _feed(self, piece: bytes) -> None:
        self._input.take(len(piece))
        super()._feed(piece)

    def _tell_held(self) -> None:
        size = self._input.held + len(self._unparsed)
        if size > QUIET_BYTES:
            self._is_counted = True
            self._open_connections.hold(self, size, is_answering=self._input.has_whole_request)
        elif self._is_counted:
            self._is_counted = False
            self._open_connections.hold(self, 0)


class HeldInput:
    """The bytes of all requests of a connection that are not answered yet, to a piece of parsing exactly."""

    def __init__(self) -> None:
        self._taken = self._released = 0
        # What was taken when each whole request that is not answered yet had come to its end.
        self._ends: list[int] = []  # of 16 at most: a deque takes ten times as much

    @property
    def held(self) -> int:
        """The bytes."""
        return self._taken - self._released

    @property
    def has_whole_request(self) -> bool:
        """Whether a request that has come to its end is not answered yet."""
        return bool(self._ends)

    def take(self, size: int) -> None:
        """So many bytes are to be parsed."""
        self._taken += size

    def leave_out(self, size: int) -> None:
        """So many of them are not to be counted."""
        self._taken -= size

    def end(self, *, is_answered: bool) -> None:
        """A request has come to its end; `is_answered`: after its answer."""
        if is_answered:
            self._released = self._taken
        else:
            self._ends.append(self._taken)

    def answer(self) -> None:
        """The first of the requests is answered."""
        if self._ends:
            self._released = self._ends.pop(0)
