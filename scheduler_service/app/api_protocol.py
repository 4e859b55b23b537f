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


class ApiProtocol(LimitedProtocol):
    """One connection of a caller; `open_connections` are those of its listener."""

    def __init__(self, *, open_connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._open_connections = open_connections

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

    def pause_writing(self) -> None:
        """More is to be sent than the caller reads (asyncio)."""
        super().pause_writing()
        self._open_connections.block(self)

    def resume_writing(self) -> None:
        """The caller has read (asyncio)."""
        self._open_connections.unblock(self)
        super().resume_writing()

    def on_headers_complete(self) -> None:
        """The head of a request is complete (httptools)."""
        self._open_connections.begin(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """A request is answered (uvicorn)."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._open_connections.finish(self)
