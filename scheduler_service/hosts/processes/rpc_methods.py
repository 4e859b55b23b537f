"""Calls and notices between the service and a worker process, both ways over one socket; their methods.

A frame is its length in 4 bytes and one message in msgpack.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar, cast

import msgspec

from scheduler_service.domain.effects import CallPart, ResolveInstances, WatchInstance
from scheduler_service.domain.errors import PunctualError
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.public_events import Occurrence
from scheduler_service.domain.registered_services import Loss
from scheduler_service.domain.step_parts import Chosen
from scheduler_service.domain.wire import Token
from scheduler_service.hosts.host import HostStatus
from scheduler_service.hosts.node_messages import ERRORS, name_of
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_registry import RatePage
from scheduler_service.telemetry.metrics.metric_list import Sample

LENGTH_BYTES = 4
NOT_CONNECTED = "a worker process is starting again; ask again in a moment"
CUT_OFF = "a worker process ended over this; look before you repeat it"
Serve = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a call by its method and packed argument. May raise StoreError."""
OnNotice = Callable[[str, bytes], None]
"""Takes a notice by its method and packed argument. Raises nothing."""

FAULT = "fault"


class RpcCall(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="c"):
    """Asks for an answer under `number`; the `argument` is that of the method, packed."""

    number: int
    method: str
    argument: bytes


class RpcNotice(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="t"):
    """A message without an answer."""

    method: str
    argument: bytes


class RpcAnswer(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="a"):
    """The result of a call, packed."""

    number: int
    result: bytes


class RpcFailure(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="f"):
    """A call raised `error`, a name of `hosts.node_messages.ERRORS` or FAULT; `text` is its message."""

    number: int
    error: str
    text: str
    is_public: bool = False


Frame = RpcCall | RpcNotice | RpcAnswer | RpcFailure
_decode = msgspec.msgpack.Decoder(Frame).decode


def write_frame(frame: Frame) -> bytes:
    """The bytes of a frame."""
    content = _encode(frame)
    return len(content).to_bytes(LENGTH_BYTES) + content


class FrameReader:
    """Cuts frames out of a stream of bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete with `data`. Raises msgspec.DecodeError for what is not one."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while len(buffer) - start >= LENGTH_BYTES:
                end = start + LENGTH_BYTES + int.from_bytes(buffer[start : start + LENGTH_BYTES])
                if len(buffer) < end:
                    return
                content = bytes(buffer[start + LENGTH_BYTES : end])
                start = end
                yield _decode(content)
        finally:
            del buffer[:start]


class OtherProcessFault(PunctualError):
    """A call met a bug in the other process; its log has the details."""


class RpcConnection(asyncio.Protocol):
    """One end of a connection. When it is cut, `on_lost` is called once and pending calls are uncertain.

    What is sent within one round of the event loop leaves as one write.
    """

    def __init__(self, *, serve: Serve, on_notice: OnNotice, on_lost: Callable[[], None], log: Log) -> None:
        self._serve = serve
        self._on_notice = on_notice
        self._on_lost = on_lost
        self._log = log
        self._reader = FrameReader()
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._outgoing: list[bytes] = []
        self._last_number = 0
        self._transport: asyncio.WriteTransport | None = None
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def open(
        cls, end: socket.socket, *, serve: Serve, on_notice: OnNotice, on_lost: Callable[[], None], log: Log
    ) -> "RpcConnection":
        """Takes over a connected socket."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: cls(serve=serve, on_notice=on_notice, on_lost=on_lost, log=log), sock=end
        )
        return connection

    def call(self, method: str, argument: bytes) -> asyncio.Future[bytes]:
        """Sends a call at once; the future has the other process's answer.

        It raises what the call raised there; StoreUnavailable: it was not sent; StoreUncertain: the
        connection was cut before the answer.
        """
        answer: asyncio.Future[bytes] = self._loop.create_future()
        if self._transport is None:
            answer.set_exception(StoreUnavailable(NOT_CONNECTED, is_public=True))
            return answer
        self._last_number += 1
        number = self._last_number
        self._pending[number] = answer
        answer.add_done_callback(lambda _: self._pending.pop(number, None))
        self._send(RpcCall(number, method, argument))
        return answer

    def notify(self, method: str, argument: bytes) -> None:
        """Sends a notice; does nothing where the connection is cut."""
        if self._transport is not None:
            self._send(RpcNotice(method, argument))

    def close(self) -> None:
        """Cuts the connection, after everything that was sent before."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop with the socket's transport."""
        # uvloop's transport can write, but is not declared as a WriteTransport.
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Handles each frame that is complete."""
        for frame in self._reader.feed(data):
            self._receive(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails pending calls and cancels those that are served."""
        self._transport = None
        pending, self._pending = self._pending, {}
        for answer in pending.values():
            if not answer.done():
                answer.set_exception(StoreUncertain(CUT_OFF, is_public=True))
        for task in self._tasks:
            task.cancel()
        self._on_lost()

    def _receive(self, frame: Frame) -> None:
        match frame:
            case RpcCall():
                task = self._loop.create_task(self._answer(frame))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case RpcNotice(method, argument):
                # After the first step of each call that came before it: the notice may be about that call.
                self._loop.call_soon(self._on_notice, method, argument)
            case RpcAnswer(number, result):
                answer = self._pending.get(number)
                if answer is not None and not answer.done():
                    answer.set_result(result)
            case RpcFailure(number):
                answer = self._pending.get(number)
                if answer is not None and not answer.done():
                    answer.set_exception(_read_error(frame))

    async def _answer(self, call: RpcCall) -> None:
        try:
            result = await self._serve(call.method, call.argument)
        except StoreError as error:
            self._send(RpcFailure(call.number, name_of(error), str(error), error.is_public))
        except Exception as error:  # noqa: BLE001 - the caller needs an answer; the fault itself is in our log
            self._log("call_failed", method=call.method, error=repr(error))
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


def _read_error(failure: RpcFailure) -> Exception:
    kind = ERRORS.get(failure.error)
    if kind is None:
        return OtherProcessFault(failure.text)
    return kind(failure.text, is_public=failure.is_public)


Argument = TypeVar("Argument")
Result = TypeVar("Result")
Handler = Callable[[bytes], Awaitable[bytes]]
"""Serves a call by its packed argument with the packed result."""

_encode = msgspec.msgpack.Encoder().encode


class Method(Generic[Argument, Result]):
    """A method by its name on the wire; `argument` and `result` are the types that are packed."""

    def __init__(self, name: str, argument: Any, result: Any) -> None:
        self.name = name
        self._argument: msgspec.msgpack.Decoder[Argument] = msgspec.msgpack.Decoder(argument)
        self._result: msgspec.msgpack.Decoder[Result] = msgspec.msgpack.Decoder(result)

    async def call(self, connection: RpcConnection, argument: Argument) -> Result:
        """The result from the other end. Raises what the method raises there, StoreError."""
        return self.read_result(await connection.call(self.name, self.write_argument(argument)))

    def notify(self, connection: RpcConnection, argument: Argument) -> None:
        """Sends a notice, which has no answer."""
        connection.notify(self.name, self.write_argument(argument))

    def served_by(self, work: Callable[[Argument], Awaitable[Result]]) -> tuple[str, Handler]:
        """Its name, and what serves a call of it by `work`."""

        async def handle(packed: bytes) -> bytes:
            return self.write_result(await work(self.read_argument(packed)))

        return self.name, handle

    def taken_by(self, work: Callable[[Argument], None]) -> tuple[str, Callable[[bytes], None]]:
        """Its name, and what handles a notice of it by `work`."""
        return self.name, lambda packed: work(self.read_argument(packed))

    def write_argument(self, argument: Argument) -> bytes:
        """Packs an argument."""
        return _encode(argument)

    def read_argument(self, packed: bytes) -> Argument:
        """Unpacks an argument."""
        return self._argument.decode(packed)

    def write_result(self, result: Result) -> bytes:
        """Packs a result."""
        return _encode(result)

    def read_result(self, packed: bytes) -> Result:
        """Unpacks a result."""
        return self._result.decode(packed)


class WorkerConfig(msgspec.Struct, frozen=True, rename={"shard": "share"}):
    """What a worker process needs: `settings` is the whole tree as JSON, `sources` where each came from.

    `shard` is its number; `environment` is what the service has read for templates, `skew` that of the
    service's clock, `node` its name, `served` its base address. The settings are complete, secrets included.
    """

    shard: int
    settings: bytes
    sources: dict[str, str]
    has_file: bool
    served: str
    environment: dict[str, str]
    node: str
    skew: int


class TakeRequest(msgspec.Struct, frozen=True, array_like=True):
    """A message (`hosts.node_messages`) for a job."""

    job_id: str
    message: bytes


class CreateRequest(msgspec.Struct, frozen=True, array_like=True):
    """Texts of definitions of a tenant; their jobs belong to the service `owner`, or to none if empty."""

    texts: list[bytes]
    owner: str
    tenant: str = DEFAULT_TENANT


class QueueNotice(msgspec.Struct, frozen=True, array_like=True):
    """A turn of a shard has written into `queues` (tenant, name; None: perhaps any).

    `check_at`: when queue timeouts must be checked (steady ms), None: as before.
    """

    queues: list[tuple[str, str]] | None = None
    check_at: int | None = None


class OccurrenceGroup(msgspec.Struct, frozen=True, array_like=True):
    """What has happened in a worker process, in order; after it `lost` more were dropped."""

    occurrences: list[Occurrence]
    lost: int = 0


# Called by the service: the life of a worker process, …
OPEN: Method[WorkerConfig, None] = Method("open", WorkerConfig, None)
START: Method[None, None] = Method("start", None, None)
STOP: Method[int, None] = Method("stop", int, None)
PING: Method[None, None] = Method("ping", None, None)
STATUS: Method[None, HostStatus] = Method("standing", None, HostStatus)
LISTEN: Method[bool, None] = Method("listen", bool, None)
"""A notice: whether the service wants the occurrences of the process."""
METRICS: Method[None, list[Sample]] = Method("metrics", None, list[Sample])

# … jobs, …
TAKE: Method[TakeRequest, bytes] = Method("take", TakeRequest, bytes)
CREATE: Method[CreateRequest, list[bytes]] = Method("create", CreateRequest, list[bytes])
FORGET: Method[str, bool] = Method("forget", str, bool)
FLUSH: Method[None, None] = Method("flush", None, None)

# … and deliveries.
RESEND: Method[str, bool] = Method("resend", str, bool)
DISMISS: Method[str, bool] = Method("dismiss", str, bool)
RESEND_OUTBOX: Method[None, int] = Method("resend_outbox", None, int)

# Called by a worker process: instances and claims that wait for work are in the service's process alone.
RESOLVE: Method[ResolveInstances, tuple[tuple[Chosen, ...], str, int, bool]] = Method(
    "resolve", ResolveInstances, tuple[tuple[Chosen, ...], str, int, bool]
)
ENTER: Method[CallPart, bool | None] = Method("enter", CallPart, bool | None)
WATCH: Method[WatchInstance, Loss] = Method("watch", WatchInstance, Loss)
LEAVE: Method[Token, None] = Method("leave", Token, None)
MARK_DRAINING: Method[tuple[str, str, str], None] = Method("mark_draining", tuple[str, str, str], None)
MARK_REFUSED: Method[tuple[str, str, str], None] = Method("mark_refused", tuple[str, str, str], None)
Location = tuple[str | None, int, str, bool | None]
"""The address of a service, how long (ms) a call waits for it, what signs that, whether it may be private."""
ADDRESS: Method[str, Location] = Method("address", str, Location)
READ_RATE: Method[tuple[str, str], RatePage] = Method("read_rate", tuple[str, str], RatePage)
WRITE_RATE: Method[tuple[str, str, RatePage], bool] = Method("write_rate", tuple[str, str, RatePage], bool)
WAKE_CLAIMERS: Method[QueueNotice, None] = Method("stir", QueueNotice, None)
HAPPENED: Method[OccurrenceGroup, None] = Method("happened", OccurrenceGroup, None)
