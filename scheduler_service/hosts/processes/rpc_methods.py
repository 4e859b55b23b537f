"""The methods that the service and its worker processes call on each other, each with its types."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec

from scheduler_service.domain.effects import CallPart, ResolveInstances, WatchInstance
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.domain.parts import Chosen
from scheduler_service.domain.public_events import Occurrence
from scheduler_service.domain.registered_services import Loss
from scheduler_service.domain.wire import Token
from scheduler_service.hosts.host import HostStatus
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.ports.shared_registry import RatePage
from scheduler_service.telemetry.metrics.samples import Sample

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
    """A message (`hosts.messages`) for a job."""

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
ADDRESS: Method[str, tuple[str | None, int, str]] = Method("address", str, tuple[str | None, int, str])
READ_RATE: Method[tuple[str, str], RatePage] = Method("read_rate", tuple[str, str], RatePage)
WRITE_RATE: Method[tuple[str, str, RatePage], bool] = Method("write_rate", tuple[str, str, RatePage], bool)
WAKE_CLAIMERS: Method[QueueNotice, None] = Method("stir", QueueNotice, None)
HAPPENED: Method[OccurrenceGroup, None] = Method("happened", OccurrenceGroup, None)
