"""One HTTP/1.1 connection to an address that the guard admitted: one exchange at a time, with a deadline."""

import asyncio
import ctypes
import errno
import fcntl
import heapq
import socket
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from scheduler_service.pacing.waiting_room import Place, Room
from scheduler_service.ports.sending import LARGE_BODY
from scheduler_service.transport.errors import ConnectFailed, Dropped, TimedOut, TransportError
from scheduler_service.transport.response_parser import ParsedResponse, ResponseParser

_GRAIN_SECONDS = 0.016  # a timeout may come late by this much; it never comes early


class Expiring(Protocol):
    """Has a deadline."""

    def expire(self) -> None:
        """Called once, when the time is up."""


class Deadlines:
    """Expires what has run out of time. Arming and disarming cost a set operation instead of a timer each."""

    def __init__(self) -> None:
        self._buckets: dict[int, set[Expiring]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, one: Expiring, when: float) -> set[Expiring]:
        """`one` expires at `when` (seconds of the running loop's clock), unless discarded from the set."""
        index = int(when / _GRAIN_SECONDS) + 1
        bucket = self._buckets.get(index)
        if bucket is None:
            bucket = self._buckets[index] = set()
            heapq.heappush(self._order, index)
            if self._order[0] == index:
                self._schedule()
        bucket.add(one)
        return bucket

    def close(self) -> None:
        """Forgets everything that is armed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()
        self._order.clear()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._order[0] * _GRAIN_SECONDS, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._order and self._order[0] * _GRAIN_SECONDS <= now:
            bucket = self._buckets.pop(heapq.heappop(self._order))
            for one in tuple(bucket):
                one.expire()
        if self._order and self._timer is None:
            self._schedule()


# `socket.recv` releases the GIL each time, and a writer thread may then keep it for milliseconds: with 100
# calls due at one moment the last of them was sent 20 ms late.
_PEEK = socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0)
Probe = Callable[[], bool]
_IN_LINE = (
    "answered, but other large responses were read first: raise the timeout, or let fewer such calls begin "
    "at one moment."
)
_READ_BYTES = 65_536
_PIECE_BYTES = 65_536
"""Over TLS so much of a body is encrypted at a time: that is a copy, and OpenSSL keeps the room it took."""
_FIRST_READ_BYTES = 16_384  # while there is no room for a large body: so much comes before reading stops


def make_prober() -> Callable[[socket.socket], Probe]:
    """Makes probes of connected sockets; a probe is valid while its socket is open.

    A probe returns True when nothing has arrived, neither bytes nor the end of the stream; it makes one
    system call and never waits. Its arguments are converted once: converting them took a third of each call.
    """
    receive = ctypes.PyDLL(None, use_errno=True).recv
    receive.restype = ctypes.c_ssize_t
    buffer, one, peek = ctypes.create_string_buffer(1), ctypes.c_size_t(1), ctypes.c_int(_PEEK)

    def make_probe(raw: socket.socket) -> Probe:
        number = ctypes.c_int(raw.fileno())

        def is_silent() -> bool:
            return bool(receive(number, buffer, one, peek) < 0) and ctypes.get_errno() == errno.EAGAIN

        return is_silent

    return make_probe


def count_unheard(transport: asyncio.Transport) -> int:
    """Bytes written to `transport` that its peer has not acknowledged: at the end of the peer's stream, which
    acknowledges what came before it, those that came after it or never (Linux; elsewhere 0).
    """
    raw = transport.get_extra_info("socket")
    if not sys.platform.startswith("linux") or raw is None:
        return 0
    with suppress(OSError):  # no socket of the kernel's
        queued: int = struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
        return queued + transport.get_write_buffer_size()
    return 0


class ReadBuffer:
    """What all connections of one event loop read into, one after the other: `first`, a part of `whole`.

    Each read is parsed at once, and the parser keeps copies. A buffer of each connection would take 64 KiB.
    """

    def __init__(self) -> None:
        self.whole = memoryview(bytearray(_READ_BYTES))
        self.first = self.whole[:_FIRST_READ_BYTES]


class ConnectionOwner(Protocol):
    """Keeps connections that are not in use."""

    def release(self, connection: "HttpConnection") -> None:
        """Takes back a connection whose exchange is over and that can carry another one."""

    def lose(self, connection: "HttpConnection") -> None:
        """Forgets a connection that is closed."""


class HttpConnection(asyncio.BufferedProtocol):
    """Carries one exchange at a time and never sends anything twice. `idle_since` 0: it carried none.

    It closes after a truncated answer, an unexpected byte, a failure or a timeout. `is_silent` probes its
    socket, which is open as long as the transport is. A body of more than 64 KiB is read on once there is
    `room` for it; without `room` always.
    """

    def __init__(
        self,
        *,
        origin: str,
        owner: ConnectionOwner,
        deadlines: Deadlines,
        limit: int,
        is_silent: Probe,
        buffer: ReadBuffer,
        room: Room | None = None,
    ) -> None:
        self.idle_since = 0.0
        self.opened_at = 0.0
        self.is_closed = False
        self._origin = origin
        self._owner = owner
        self._deadlines = deadlines
        self._is_silent = is_silent
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = buffer
        self._view = buffer.whole if room is None else buffer.first
        self._room = room
        self._place: Place | None = None
        large = sys.maxsize if room is None else LARGE_BODY
        self._parser = ResponseParser(origin=origin, limit=limit, large=large)
        self._waiter: asyncio.Future[ParsedResponse | TransportError] | None = None
        self._is_encrypted = False
        self._has_unsent = False
        self._unheard = 0
        self._writable: asyncio.Future[None] | None = None  # set while the peer takes nothing more
        self._bucket: set[Expiring] = set()

    async def exchange(
        self, data: bytes, *, method: str, deadline: float, body: bytes | None = None
    ) -> ParsedResponse:
        """Sends a request; the response, by `deadline` (seconds of the loop's clock) at the latest.

        `body`: what is to follow `data`.

        Raises TransportError. Where the caller is cancelled, the connection is closed.
        """
        if self._transport is None or self.is_closed:
            raise ConnectFailed(f"{self._origin} closed the connection: look at the target.")
        waiter: asyncio.Future[ParsedResponse | TransportError] = self._loop.create_future()
        self._waiter = waiter
        self._parser.begin(method=method)
        self._bucket = self._deadlines.arm(self, deadline)
        self._transport.write(data)
        try:
            if body is not None:
                if self._is_encrypted:
                    await self._write_in_pieces(body, waiter)
                else:
                    self._transport.write(body)
            outcome = await waiter
        except asyncio.CancelledError:
            if self._waiter is waiter:  # else it may already carry the next exchange
                self.abandon()
            raise
        if isinstance(outcome, TransportError):
            try:
                raise outcome
            finally:
                # Its traceback refers to this frame: a cycle that would keep the whole request alive.
                del outcome, waiter
        return outcome

    async def _write_in_pieces(
        self, body: bytes, waiter: asyncio.Future[ParsedResponse | TransportError]
    ) -> None:
        """Returns once the transport has all of it, or the exchange is over."""
        self._has_unsent = True
        view = memoryview(body)
        for start in range(0, len(body), _PIECE_BYTES):
            while self._writable is not None and not waiter.done():
                await asyncio.wait((waiter, self._writable), return_when=asyncio.FIRST_COMPLETED)
            if waiter.done() or self.is_closed or self._transport is None:
                return
            self._transport.write(view[start : start + _PIECE_BYTES])
        self._has_unsent = False

    def is_alive(self) -> bool:
        """False when the peer has closed it, even if the loop has not noticed yet; one system call."""
        if self.is_closed or self._transport is None or self._transport.is_closing():
            return False
        return self._is_silent()  # False: the stream has ended, or bytes arrived without a request

    def abandon(self) -> None:
        """Closes at once; the exchange, if any, has no caller any more."""
        self._waiter = None
        self._bucket.discard(self)
        if self._place is not None:
            self._leave(self._place)
        self._abort()

    def fail(self, reason: str) -> None:
        """Closes at once; the exchange ends with `reason`."""
        self._fail(ConnectFailed(reason))

    def expire(self) -> None:
        """Ends the exchange: its time is up (called by Deadlines)."""
        is_in_line = self._place is not None and not self._place.is_granted
        self._fail(TimedOut(f"{self._origin} {_IN_LINE if is_in_line else 'did not answer in time'}"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open (asyncio)."""
        self._transport = cast(asyncio.Transport, transport)
        self.opened_at = asyncio.get_running_loop().time()
        limit_buffer = getattr(transport, "set_read_buffer_limits", None)
        if limit_buffer is not None:
            # Over TLS nothing more is read before all that came is parsed: the end of the stream, if it were
            # seen earlier, would discard the rest.
            limit_buffer(high=1, low=0)
            self._is_encrypted = True
            self._transport.set_write_buffer_limits(high=_PIECE_BYTES)

    def pause_writing(self) -> None:
        """The peer takes less than is written (asyncio)."""
        if self._is_encrypted:  # else all of a body is written at once
            self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """It has taken most of it (asyncio)."""
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes are to be read into (asyncio)."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Takes bytes of the answer; bytes that come without an exchange close the connection (asyncio)."""
        if self._waiter is None:
            self._abort()
            return
        parser = self._parser
        try:
            parser.feed(self._view[:nbytes])
            if parser.wanted:
                self._ask(parser.wanted)
            elif parser.is_complete:
                self._finish()
        except ConnectFailed as error:
            self._fail(error)

    def eof_received(self) -> bool:
        """The peer has ended the stream; the transport closes itself (asyncio)."""
        self.is_closed = True
        if self._waiter is not None and self._transport is not None:
            self._unheard = count_unheard(self._transport)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed: that completes an answer without a length, else it is cut (asyncio)."""
        self.is_closed = True
        if self._waiter is not None:
            self._conclude(exc)
        self._parser.close()
        self._transport = None
        self._owner.lose(self)

    def _ask(self, size: int) -> None:
        """Reads no further before there is room for so many bytes."""
        if self._place is not None or self._room is None or self._transport is None:
            return
        self._place = self._room.ask(size, self._go_on, self._origin)
        if self._place.is_granted:
            self._admit()
        else:
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """There is room now (Room)."""
        if self._transport is not None:
            self._transport.resume_reading()
        try:
            self._admit()
        except ConnectFailed as error:
            self._fail(error)

    def _admit(self) -> None:
        self._view = self._buffer.whole
        self._parser.admit()
        if self._parser.is_complete:
            self._finish()

    def _leave(self, place: Place) -> None:
        """Gives the room back, and keeps nothing of the body."""
        self._place = None
        self._view = self._buffer.first
        self._parser.drop_body()
        place.leave()

    def _finish(self) -> None:
        self._settle(self._parser.response())
        transport = self._transport
        is_idle = not self._has_unsent and transport is not None and not transport.get_write_buffer_size()
        if self._parser.is_reusable and is_idle and not self.is_closed:
            self._owner.release(self)
        else:
            self._abort()

    def _conclude(self, exc: Exception | None) -> None:
        try:
            if exc is not None:
                self._settle(self._cut(exc))
                return
            self._parser.admit()  # what is held back is no more than one read
            if self._parser.end():
                self._settle(self._parser.response())
            else:
                self._settle(self._cut(None))
        except ConnectFailed as error:
            self._settle(error)

    def _settle(self, outcome: ParsedResponse | TransportError) -> None:
        waiter, self._waiter = self._waiter, None
        self._bucket.discard(self)
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)
        if self._place is not None:
            self._leave(self._place)

    def _fail(self, error: TransportError) -> None:
        self._settle(error)
        self._abort()

    def _abort(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def _cut(self, error: Exception | None) -> ConnectFailed:
        when = "in the middle of its answer" if self._parser.intake else "before it answered"
        cause = f" ({error})" if error is not None else ""
        message = f"{self._origin} closed the connection {when}{cause}: look at the target."
        return ConnectFailed(message) if self._parser.intake else Dropped(message, self._unheard)
