"""The sidecar: state, reminders and invocation of the jobs' actors, over an actor client of the SDK."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from dapr.clients.base import DaprActorClientBase
from dapr.clients.exceptions import DaprInternalError
from dapr.clients.grpc.dapr_actor_grpc_client import DaprActorGrpcClient

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain

ACTOR_TYPE = "job_scheduler"
STATE, ALARM, TAKE = "state", "alarm", "take"
READ_TIMEOUT_SECONDS, WRITE_TIMEOUT_SECONDS = 2.0, 2.0
REMINDER_TIMEOUT_SECONDS, TURN_TIMEOUT_SECONDS = 1.0, 20.0
# The tick of a one-shot reminder is dropped after three tries unless its policy says otherwise.
RETRY_POLICY = {"constant": {"interval": "5s"}}

LARGEST_MESSAGE_BYTES = 16 << 20
# A connection to a sidecar that was restarted is tried again within a second, not after two minutes.
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", LARGEST_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)


class Sidecar:
    """State, reminders and invocation of the jobs' actors. A job's state is one value under one key.

    Timeouts are real time, whatever clock the host uses; all are multiplied by `timeout_factor`.
    """

    def __init__(self, *, client: DaprActorClientBase, timeout_factor: float = 1.0) -> None:
        self._client = client
        self._timeout_factor = timeout_factor

    async def get(self, actor_id: str) -> bytes:
        """The state of a job, empty where there is none. Raises StoreUnavailable."""
        async with self._within(READ_TIMEOUT_SECONDS, "read the state of an actor", StoreUnavailable):
            raw = await self._client.get_state(ACTOR_TYPE, actor_id, STATE)
        return base64.b64decode(json.loads(raw)) if raw else b""

    async def save(self, actor_id: str, state: bytes, timeout: int) -> None:
        """Writes the state within `timeout` ms. Raises StoreUncertain: it may be written, or will be."""
        request = {"key": STATE, "value": base64.b64encode(state).decode()}
        operations = json.dumps([{"operation": "upsert", "request": request}])
        async with self._within(timeout / SECOND, "write the state of an actor", StoreUncertain):
            await self._client.save_state_transactionally(ACTOR_TYPE, actor_id, operations.encode())

    async def drop(self, actor_id: str) -> None:
        """Removes the state. Raises StoreUncertain."""
        operations = json.dumps([{"operation": "delete", "request": {"key": STATE}}])
        async with self._within(WRITE_TIMEOUT_SECONDS, "remove the state of an actor", StoreUncertain):
            await self._client.save_state_transactionally(ACTOR_TYPE, actor_id, operations.encode())

    async def remind(self, actor_id: str, pause: int) -> None:
        """Registers the one reminder of a job, once, `pause` ms from now. Raises StoreUncertain."""
        reminder = {"dueTime": f"{max(pause, 0)}ms", "data": "", "failurePolicy": RETRY_POLICY}
        async with self._within(REMINDER_TIMEOUT_SECONDS, "register a reminder", StoreUncertain):
            await self._client.register_reminder(ACTOR_TYPE, actor_id, ALARM, json.dumps(reminder).encode())

    async def forget_reminder(self, actor_id: str) -> None:
        """Removes the reminder. Raises StoreUncertain."""
        async with self._within(REMINDER_TIMEOUT_SECONDS, "remove a reminder", StoreUncertain):
            await self._client.unregister_reminder(ACTOR_TYPE, actor_id, ALARM)

    async def invoke(
        self, actor_id: str, message: bytes, *, timeout_seconds: float = TURN_TIMEOUT_SECONDS
    ) -> bytes:
        """The answer of the job's actor to `message`. Raises StoreUncertain."""
        async with self._within(timeout_seconds, "reach an actor", StoreUncertain):
            return await self._client.invoke_method(ACTOR_TYPE, actor_id, TAKE, message)

    @asynccontextmanager
    async def _within(self, seconds: float, what: str, error: type[StoreError]) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(max(seconds, 0.05) * self._timeout_factor):
                yield
        except TimeoutError:
            raise error(f"the sidecar did not {what} within {seconds:.1f} s; is it overloaded?") from None
        except grpc.aio.AioRpcError as failure:
            reason = f"{failure.code().name}: {failure.details()}"
            raise error(f"the sidecar could not {what}: {reason}; is daprd running?") from failure
        except (DaprInternalError, OSError) as failure:
            raise error(f"the sidecar could not {what}: {failure}; is daprd running?") from failure


class SidecarClient(DaprActorGrpcClient):
    """The SDK's actor client to the daprd on `port`. Belongs to the event loop in which it is made."""

    def __init__(self, *, port: int) -> None:
        self._own_channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS)
        super().__init__(timeout=30, channel=self._own_channel)

    async def close(self) -> None:
        """Ends the connection."""
        await self._own_channel.close()
