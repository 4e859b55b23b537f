"""The SDK's gRPC actor client with one kind of error: whatever goes wrong is a DaprInternalError."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from dapr.clients.exceptions import DaprInternalError
from dapr.clients.grpc.dapr_actor_grpc_client import DaprActorGrpcClient

MEBIBYTE = 1 << 20
LARGEST = 16 * MEBIBYTE
# A connection to a sidecar that was restarted is tried again within a second, not after two minutes.
OPTIONS = (
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class SidecarClient(DaprActorGrpcClient):
    """Outward calls of this process to its daprd on `port`. Belongs to the event loop that makes it."""

    def __init__(self, *, port: int) -> None:
        self._own = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)
        super().__init__(timeout=30, channel=self._own)

    async def close(self) -> None:
        """Ends the connection."""
        await self._own.close()

    async def invoke_method(
        self, actor_type: str, actor_id: str, method: str, data: bytes | None = None
    ) -> bytes:
        """As the SDK's."""
        async with _one_error():
            answer: bytes = await super().invoke_method(actor_type, actor_id, method, data)
            return answer

    async def save_state_transactionally(self, actor_type: str, actor_id: str, data: bytes) -> None:
        """As the SDK's."""
        async with _one_error():
            await super().save_state_transactionally(actor_type, actor_id, data)

    async def get_state(self, actor_type: str, actor_id: str, name: str) -> bytes:
        """As the SDK's."""
        async with _one_error():
            value: bytes = await super().get_state(actor_type, actor_id, name)
            return value

    async def register_reminder(self, actor_type: str, actor_id: str, name: str, data: bytes) -> None:
        """As the SDK's."""
        async with _one_error():
            await super().register_reminder(actor_type, actor_id, name, data)

    async def unregister_reminder(self, actor_type: str, actor_id: str, name: str) -> None:
        """As the SDK's."""
        async with _one_error():
            await super().unregister_reminder(actor_type, actor_id, name)


@asynccontextmanager
async def _one_error() -> AsyncIterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise DaprInternalError(f"{error.code().name}: {error.details()}", error.code().name) from error
