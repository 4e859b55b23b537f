"""One HTTP/1.1 connection to an address that the guard admitted: one exchange at a time, with a deadline."""

import asyncio
from typing import Protocol, cast

from scheduler_service.transport.deadlines import Deadlines, Expiring
from scheduler_service.transport.errors import ConnectFailed, TimedOut, TransportError
from scheduler_service.transport.idle_check import Probe
from scheduler_service.transport.response_parser import ParsedResponse, ResponseParser


class ConnectionOwner(Protocol):
    """Keeps connections that are not in use."""

    def release(self, connection: "HttpConnection") -> None:
        """Takes back a connection whose exchange is over and that can carry another one."""

    def lose(self, connection: "HttpConnection") -> None:
        """Forgets a connection that is closed."""


class HttpConnection(asyncio.Protocol):
    """Carries one exchange at a time and never sends anything twice.

    It closes after a truncated answer, an unexpected byte, a failure or a timeout. `is_silent` probes its
    socket, which is open as long as the transport is.
    """

    def __init__(
        self,
        *,
        origin: str,
        owner: ConnectionOwner,
        deadlines: Deadlines,
        limit: int,
        is_silent: Probe,
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
        self._parser = ResponseParser(origin=origin, limit=limit)
        self._waiter: asyncio.Future[ParsedResponse | TransportError] | None = None
        self._bucket: set[Expiring] = set()

    def start(
        self, data: bytes, *, method: str, deadline: float
    ) -> "asyncio.Future[ParsedResponse | TransportError]":
        """Sends a request; the future resolves to the response or the error, by `deadline` at the latest."""
        waiter: asyncio.Future[ParsedResponse | TransportError] = self._loop.create_future()
        if self._transport is None or self.is_closed:
            waiter.set_result(ConnectFailed(f"{self._origin} closed the connection: look at the target."))
            return waiter
        self._waiter = waiter
        self._parser.begin(method=method)
        self._bucket = self._deadlines.arm(self, deadline)
        self._transport.write(data)
        return waiter

    def is_alive(self) -> bool:
        """False when the peer has closed it, even if the loop has not noticed yet; one system call."""
        if self.is_closed or self._transport is None or self._transport.is_closing():
            return False
        return self._is_silent()  # False: the stream has ended, or bytes arrived without a request

    def abandon(self) -> None:
        """Closes at once; the exchange, if any, has no caller any more."""
        self._waiter = None
        self._bucket.discard(self)
        self._abort()

    def give_up(self, waiter: "asyncio.Future[ParsedResponse | TransportError]") -> None:
        """Closes at once if it still carries the exchange of `waiter`; it may already carry the next one."""
        if self._waiter is waiter:
            self.abandon()

    def fail(self, reason: str) -> None:
        """Closes at once; the exchange ends with `reason`."""
        self._fail(ConnectFailed(reason))

    def expire(self) -> None:
        """Ends the exchange: its time is up (called by Deadlines)."""
        self._fail(TimedOut(f"{self._origin} did not answer in time: raise timeoutSeconds or look at it."))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open (asyncio)."""
        self._transport = cast(asyncio.Transport, transport)
        self.opened_at = asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        """Takes bytes of the answer; bytes that come without an exchange close the connection (asyncio)."""
        if self._waiter is None:
            self._abort()
            return
        try:
            self._parser.feed(data)
            if self._parser.is_complete:
                self._finish()
        except ConnectFailed as error:
            self._fail(error)

    def eof_received(self) -> bool:
        """The peer has ended the stream; the transport closes itself (asyncio)."""
        self.is_closed = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed: that completes an answer without a length, else it is cut (asyncio)."""
        self.is_closed = True
        if self._waiter is not None:
            self._conclude(exc)
        self._parser.close()
        self._transport = None
        self._owner.lose(self)

    def _finish(self) -> None:
        self._settle(self._parser.response())
        transport = self._transport
        is_idle = transport is not None and not transport.get_write_buffer_size()
        if self._parser.is_reusable and is_idle and not self.is_closed:
            self._owner.release(self)
        else:
            self._abort()

    def _conclude(self, exc: Exception | None) -> None:
        try:
            if exc is None and self._parser.end():
                self._settle(self._parser.response())
            else:
                self._settle(self._cut(exc))
        except ConnectFailed as error:
            self._settle(error)

    def _settle(self, outcome: ParsedResponse | TransportError) -> None:
        waiter, self._waiter = self._waiter, None
        self._bucket.discard(self)
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)

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
        return ConnectFailed(f"{self._origin} closed the connection {when}{cause}: look at the target.")
