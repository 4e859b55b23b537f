"""Writes the head of an answer together with the first piece of its body: one call of the system, not two."""

import asyncio

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

JOINED_BYTES = 65_536
"""A longer first piece is not copied behind the head."""


class HeadWriter:
    """The transport of `cycle` until its head is written; then that is `transport` again.

    What is written first is held until more is written, but no longer than this step of the loop. After the
    connection has closed it is dropped.
    """

    def __init__(
        self,
        *,
        cycle: RequestResponseCycle,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._cycle = cycle
        self._transport = transport
        self._loop = loop
        self._held = b""
        self._timer: asyncio.Handle | None = None
        self.body_bytes = 0
        """The length of the body that follows, once the head is written; 0: none, or it is not known."""

    def write(self, data: bytes) -> None:
        """Holds the first piece, and writes it with the second (asyncio)."""
        if self._timer is None:
            self._held = data
            is_head = self._cycle.scope["method"] == "HEAD"
            self.body_bytes = 0 if is_head else self._cycle.expected_content_length
            self._timer = self._loop.call_soon(self.flush)
            return
        self._timer.cancel()
        self._pass_on(data)

    def flush(self) -> None:
        """Writes what is held."""
        self._pass_on(b"")

    def close(self) -> None:
        """Closes the connection when what is held has been written (asyncio)."""
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be (asyncio)."""
        return self._transport.is_closing()

    def _pass_on(self, further: bytes) -> None:
        held, self._held = self._held, b""
        self._cycle.transport = self._transport
        if self._transport.is_closing():
            return
        if len(further) <= JOINED_BYTES:
            self._transport.write(held + further)
        else:
            self._transport.write(held)
            self._transport.write(further)
