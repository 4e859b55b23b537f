"""The SDK's actor client, with what each execution needs sent over kept HTTP connections to daprd."""

import asyncio
from urllib.parse import quote

import grpc
import msgspec
from dapr.aio.clients.grpc.interceptors import DaprClientInterceptorAsync
from dapr.clients.exceptions import DaprInternalError
from dapr.clients.grpc.dapr_actor_grpc_client import DaprActorGrpcClient

from scheduler_service.hosts.dapr.sidecar import LARGEST_MESSAGE_BYTES, ActorMissing, SidecarUnreached
from scheduler_service.transport.errors import TimedOut, TransportError, Unreached
from scheduler_service.transport.sidecar_exchanges import HOST, KeptConnections, show_token

# A connection to a sidecar that was restarted is tried again within a second, not after two minutes.
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)
CALL_SECONDS = 30.0
INVOCATIONS_AT_ONCE = 512
STATE_CALLS_AT_ONCE = 256
FIRST_REFUSAL = 300
MISSING = "ERR_ACTOR_INSTANCE_MISSING"
LONGEST_REASON = 300


class SidecarClient(DaprActorGrpcClient):
    """`hosts.dapr.sidecar.ActorCalls` to one daprd. Belongs to the event loop in which it is made.

    State and turns go over HTTP, at a third of the CPU that they cost over gRPC
    (docs/decisions/0050-lean-calls.md). Reminders are registered over gRPC: over HTTP daprd drops their
    failure policy. Raises TimeoutError, DaprInternalError, and AioRpcError for reminders. `token` is that of
    daprd's API, shown with every call; None: it needs none.
    """

    def __init__(self, *, http_port: int, grpc_port: int, token: str | None = None) -> None:
        shown = show_token(token)
        self._own_channel = grpc.aio.insecure_channel(
            f"{HOST}:{grpc_port}",
            options=CHANNEL_OPTIONS,
            interceptors=[DaprClientInterceptorAsync(list(shown))] if shown else [],
        )
        super().__init__(timeout=int(CALL_SECONDS), channel=self._own_channel)
        self._head = "\r\n".join(
            (f"Host: {HOST}:{http_port}", *(f"{name}: {value}" for name, value in shown))
        )
        # A call of an actor lasts as long as its turn, which writes a state: it must find a connection free.
        self._calls, self._states = (
            KeptConnections(port=http_port, most=most, response_bytes=LARGEST_MESSAGE_BYTES)
            for most in (INVOCATIONS_AT_ONCE, STATE_CALLS_AT_ONCE)
        )

    async def invoke_method(
        self,
        actor_type: str,
        actor_id: str,
        method: str,
        data: bytes | None = None,
        *,
        seconds: float = CALL_SECONDS,
    ) -> bytes:
        """The answer of an actor, wherever it lives."""
        path = f"{actor_type}/{quote(actor_id, safe='')}/method/{method}"
        return await self._ask(self._calls, "PUT", path, data or b"", seconds)

    async def save_state_transactionally(
        self, actor_type: str, actor_id: str, data: bytes, *, seconds: float = CALL_SECONDS
    ) -> None:
        """Writes the operations in `data` (JSON) as one. Raises ActorMissing, too."""
        path = f"{actor_type}/{quote(actor_id, safe='')}/state"
        await self._ask(self._states, "POST", path, data, seconds)

    async def get_state(
        self, actor_type: str, actor_id: str, name: str, *, seconds: float = CALL_SECONDS
    ) -> bytes:
        """A value as JSON, empty where there is none."""
        path = f"{actor_type}/{quote(actor_id, safe='')}/state/{name}"
        return await self._ask(self._states, "GET", path, b"", seconds)

    async def register_reminder(
        self, actor_type: str, actor_id: str, name: str, data: bytes, *, seconds: float = CALL_SECONDS
    ) -> None:
        """Registers or replaces a reminder, as `data` (JSON) says."""
        async with asyncio.timeout(seconds):
            await super().register_reminder(actor_type, actor_id, name, data)

    async def unregister_reminder(
        self, actor_type: str, actor_id: str, name: str, *, seconds: float = CALL_SECONDS
    ) -> None:
        """Removes a reminder, if there is one."""
        async with asyncio.timeout(seconds):
            await super().unregister_reminder(actor_type, actor_id, name)

    async def close(self) -> None:
        """Ends the connections; what is under way ends with an error."""
        await self._calls.close()
        await self._states.close()
        await self._own_channel.close()

    async def _ask(
        self, connections: KeptConnections, method: str, path: str, body: bytes, seconds: float
    ) -> bytes:
        head = f"{method} /v1.0/actors/{path} HTTP/1.1\r\n{self._head}\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            answer = await connections.exchange(head.encode() + body, method=method, seconds=seconds)
        except TimedOut as error:
            raise TimeoutError(str(error)) from error
        except Unreached as error:
            raise SidecarUnreached(str(error)) from error
        except TransportError as error:
            raise DaprInternalError(str(error)) from error
        if answer.status >= FIRST_REFUSAL:
            raise _read_refusal(answer.status, answer.body)
        if answer.truncated:
            raise DaprInternalError(f"its answer is larger than {LARGEST_MESSAGE_BYTES >> 20} MiB")
        return answer.body


class _Refusal(msgspec.Struct):
    """An error document of daprd."""

    code: str = msgspec.field(name="errorCode", default="")
    message: str = ""


def _read_refusal(status: int, body: bytes) -> DaprInternalError:
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.DecodeError:
        return DaprInternalError(f"status {status}")
    kind = ActorMissing if refusal.code == MISSING else DaprInternalError
    return kind(f"{refusal.code or status}: {refusal.message[:LONGEST_REASON]}")
