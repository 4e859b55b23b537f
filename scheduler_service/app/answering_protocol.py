"""HTTP/1.1 towards callers: one answer at a time, to a caller that reads it; a fault is a line of the log."""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from scheduler_service.api.event_stream import ENDLESS
from scheduler_service.telemetry.logs import place_of
from scheduler_service.telemetry.tally import Tally

LONGEST_FAULT = 300
"""Characters of the text of a fault in the log."""

LONGEST_METHOD = 20
ENDLESS_BYTES = 32 << 10
"""The system keeps about so much, or twice, of an endless answer for a caller that does not read it.

Of itself it takes megabytes: a silent reader of a stream would cost the writing of them.
"""
JOINED_BYTES = 65_536
"""A longer first piece is not copied behind the head."""


class AnsweringProtocol(HttpToolsProtocol):
    """One connection whose requests are answered one after the other.

    A pipelined request is begun when the answer before it has been read, up to what the transport buffers.
    What is written after the caller has gone is dropped without a word. `faults` counts what the application
    raises; the caller gets 500 where no answer has begun, or else the connection ends.
    """

    def __init__(self, *, faults: Tally, **given: Any) -> None:
        super().__init__(**given)
        self._faults = faults
        self._current: RequestResponseCycle | None = None
        self._held: Any = None
        self._head_writer: HeadWriter | None = None
        self._has_input_end = False
        self._is_endless = False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed (asyncio)."""
        self._held = None
        if self._current is not None:  # uvicorn tells the last one alone
            self._leave(self._current)
        for cycle, _ in self.pipeline:  # never begun, each a cycle of references with its whole request
            cycle.on_response = _do_nothing
        self.pipeline.clear()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        """The caller has read (asyncio)."""
        super().resume_writing()
        if self._held is not None:
            app, self._held = self._held, None
            self._start_asgi_task(self._current, app)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begins an answer (uvicorn), or keeps it until the one before is read."""
        self._current = cycle
        if cycle.disconnected:
            self.transport.close()
        elif self.flow.write_paused:
            self._held = app
            self.flow.pause_reading()
        else:
            task = self.loop.create_task(self._answer(cycle, app))
            task.add_done_callback(self.tasks.discard)
            self.tasks.add(task)

    async def _answer(self, cycle: RequestResponseCycle, app: Any) -> None:
        transport = self.transport
        self._head_writer = HeadWriter(cycle=cycle, transport=transport, loop=self.loop)
        cycle.transport = self._head_writer  # type: ignore[assignment]
        try:
            cycle.scope["state"][ENDLESS] = self._become_endless
            send = unframed(cycle) if cycle.scope["http_version"] == "1.0" else cycle.send
            await app(cycle.scope, self._receiver(cycle), send)
            if not (cycle.response_complete or cycle.disconnected or self.transport.is_closing()):
                await self._end_without_answer(cycle)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next request is answered
            is_closing = self.transport.is_closing()
            if not (is_closing and _is_written_too_late(error)):
                text = f"{type(error).__name__}: {error}"
                self._faults.count("failed", error=text[:LONGEST_FAULT], where=place_of(error.__traceback__))
            if is_closing:
                self._leave(cycle)
            else:
                await self._end_with_fault(cycle)
        finally:
            self._is_endless = False
            # Each ends a cycle of references.
            del cycle.scope["state"][ENDLESS]
            cycle.on_response = _do_nothing
            cycle.transport = transport

    def _become_endless(self) -> None:
        """The answer that begins has no end (`EventStreamResponse`)."""
        self._is_endless = True
        line: socket.socket = self.transport.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ENDLESS_BYTES)
        self.transport.set_write_buffer_limits(high=ENDLESS_BYTES)

    async def _end_without_answer(self, cycle: RequestResponseCycle) -> None:
        """A caller that sends nothing more was taken for one that has gone; else it is a fault."""
        if self._has_input_end and not cycle.response_started:
            self.transport.close()
            return
        self._faults.count(
            "failed",
            error="a request has no whole answer",
            where=getattr(cycle.scope.get("endpoint"), "path", cycle.scope["method"][:LONGEST_METHOD]),
        )
        await self._end_with_fault(cycle)

    async def _end_with_fault(self, cycle: RequestResponseCycle) -> None:
        if cycle.response_complete:
            return
        if cycle.response_started:
            cycle.transport.close()
            return
        await cycle.send_500_response()

    def _receiver(self, cycle: RequestResponseCycle) -> Any:
        """`receive` of ASGI, for which one that has sent all and ended its side is gone while it waits."""
        has_all = False

        async def receive() -> Any:
            nonlocal has_all
            if has_all and self._has_input_end:
                return {"type": "http.disconnect"}
            message: Any = await cycle.receive()
            if has_all and self._has_input_end:
                return {"type": "http.disconnect"}
            has_all = not message.get("more_body", False)
            return message

        return receive

    @staticmethod
    def _leave(cycle: RequestResponseCycle) -> None:
        """Tells the application that the caller of `cycle` has gone."""
        if not cycle.response_complete:
            cycle.disconnected = True
        cycle.message_event.set()


def _is_written_too_late(error: Exception) -> bool:
    """Whether uvloop has raised it for a write to a transport that is closing."""
    return isinstance(error, RuntimeError) and "the handler is closed" in str(error)


def _do_nothing() -> None:
    pass


def unframed(cycle: RequestResponseCycle) -> Any:
    """`send` of ASGI for a caller of HTTP/1.0, which knows no chunks.

    A body whose length is not known ends with the connection (RFC 9112, section 6.3).
    """
    is_unframed = False

    async def send(message: Any) -> None:
        nonlocal is_unframed
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", ())}
            is_unframed = b"content-length" not in names
            if is_unframed:
                cycle.chunked_encoding = cycle.keep_alive = False
        elif is_unframed:
            cycle.expected_content_length = len(message.get("body", b""))
        await cycle.send(message)

    return send


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
