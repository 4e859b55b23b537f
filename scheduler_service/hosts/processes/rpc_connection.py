"""A line to another process of the service: calls with answers in both directions, over one socket."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from scheduler_service.domain.errors import PunctualError
from scheduler_service.hosts.processes.rpc_frames import (
    Frame,
    FrameReader,
    RpcAnswer,
    RpcCall,
    RpcFailure,
    RpcNotice,
    write_frame,
)
from scheduler_service.persistence.common.cursor import CursorError
from scheduler_service.ports.errors import StoreConflict, StoreRefused, StoreUnavailable, StoreUncertain
from scheduler_service.ports.log import Log

Serve = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a call by its method and packed argument. May raise what `ERRORS` has."""
Hear = Callable[[str, bytes], None]
"""Hears what is told. Raises nothing."""

# The first that fits names an error on its way over the line.
ERRORS: dict[str, type[Exception]] = {
    "conflict": StoreConflict,
    "uncertain": StoreUncertain,
    "unavailable": StoreUnavailable,
    "cursor": CursorError,
    "refused": StoreRefused,
}
FAULT = "fault"


class OtherProcessFault(PunctualError):
    """A call met a fault of ours in the other process, whose log says which."""


class RpcConnection(asyncio.Protocol):
    """One end of a line, until it is cut: then `lost` is called once, and calls that wait are uncertain.

    What is sent within one round of the event loop leaves as one write.
    """

    def __init__(self, *, serve: Serve, hear: Hear, lost: Callable[[], None], log: Log) -> None:
        self._serve = serve
        self._hear = hear
        self._lost = lost
        self._log = log
        self._reader = FrameReader()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._outgoing: list[bytes] = []
        self._next = 0
        self._transport: asyncio.WriteTransport | None = None
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls, end: socket.socket, *, serve: Serve, hear: Hear, lost: Callable[[], None], log: Log
    ) -> "RpcConnection":
        """Takes over a connected socket."""
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(
            lambda: cls(serve=serve, hear=hear, lost=lost, log=log), sock=end
        )
        return line

    def call(self, method: str, argument: bytes) -> asyncio.Future[bytes]:
        """Asks at once; the future has the other process's answer.

        It raises what the call raised there; StoreUnavailable: it was not sent; StoreUncertain: the line was
        cut over it.
        """
        place: asyncio.Future[bytes] = self._loop.create_future()
        if self._transport is None:
            place.set_exception(StoreUnavailable(_GONE))
            return place
        self._next += 1
        number = self._next
        self._waiting[number] = place
        place.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._send(RpcCall(number, method, argument))
        return place

    def tell(self, method: str, argument: bytes) -> None:
        """Says something, if anybody is there to hear it."""
        if self._transport is not None:
            self._send(RpcNotice(method, argument))

    def close(self) -> None:
        """Cuts the line; what was handed in before leaves first."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is ours."""
        # That of uvloop is one without saying so.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Takes whatever is complete."""
        for frame in self._reader.feed(data):
            self._take(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is there any more."""
        self._transport = None
        waiting, self._waiting = self._waiting, {}
        for place in waiting.values():
            if not place.done():
                place.set_exception(StoreUncertain(_CUT))
        for task in self._tasks:
            task.cancel()
        self._lost()

    def _take(self, frame: Frame) -> None:
        match frame:
            case RpcCall():
                task = self._loop.create_task(self._answer(frame))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case RpcNotice(method, argument):
                # After the first step of what was called before it: what is said may be about that.
                self._loop.call_soon(self._hear, method, argument)
            case RpcAnswer(number, result):
                place = self._waiting.get(number)
                if place is not None and not place.done():
                    place.set_result(result)
            case RpcFailure(number, error, text):
                place = self._waiting.get(number)
                if place is not None and not place.done():
                    place.set_exception(ERRORS.get(error, OtherProcessFault)(text))

    async def _answer(self, call: RpcCall) -> None:
        try:
            result = await self._serve(call.method, call.argument)
        except tuple(ERRORS.values()) as error:
            name = next(name for name, kind in ERRORS.items() if isinstance(error, kind))
            self._send(RpcFailure(call.number, name, str(error)))
        except Exception as error:  # noqa: BLE001 - who waits must be told; the fault itself stands in our log
            self._log("call_broke", method=call.method, error=repr(error))
            self._send(
                RpcFailure(call.number, FAULT, "a fault in another process; it is in the service's log")
            )
        else:
            self._send(RpcAnswer(call.number, result))

    def _send(self, frame: Frame) -> None:
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(write_frame(frame))

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if self._transport is not None and outgoing:
            self._transport.write(b"".join(outgoing))


_GONE = "a worker process is starting again; ask again in a moment"
_CUT = "a worker process ended over this; look before you repeat it"
