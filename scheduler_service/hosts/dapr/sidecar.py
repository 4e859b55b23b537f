"""What the dapr host asks of its sidecar, over any actor client of the SDK."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dapr.clients.base import DaprActorClientBase
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.errors import StoreError, StoreUnavailable, StoreUncertain

ACTOR_TYPE = "job_scheduler"
STATE, ALARM, TAKE = "state", "alarm", "take"
READ_LIMIT, WRITE_LIMIT, REMIND_LIMIT, TURN_LIMIT = 2.0, 2.0, 1.0, 20.0
# The tick of a one-shot reminder is dropped after three tries unless its policy says otherwise.
RETRY = {"constant": {"interval": "5s"}}


class Sidecar:
    """State, reminders and invocation of the jobs' actors. A job's state is one value under one key.

    Limits are real time, whatever clock the host goes by; `patience` makes all of them longer.
    """

    def __init__(self, *, client: DaprActorClientBase, patience: float = 1.0) -> None:
        self._client = client
        self._patience = patience

    async def get(self, actor_id: str) -> bytes:
        """The state of a job, empty where there is none. Raises StoreUnavailable."""
        async with self._within(READ_LIMIT, "read the state of an actor", StoreUnavailable):
            raw = await self._client.get_state(ACTOR_TYPE, actor_id, STATE)
        return base64.b64decode(json.loads(raw)) if raw else b""

    async def save(self, actor_id: str, state: bytes, limit: int) -> None:
        """Writes the state within `limit` ms. Raises StoreUncertain: it may have been written, or will be."""
        request = {"key": STATE, "value": base64.b64encode(state).decode()}
        operations = json.dumps([{"operation": "upsert", "request": request}])
        async with self._within(limit / SECOND, "write the state of an actor", StoreUncertain):
            await self._client.save_state_transactionally(ACTOR_TYPE, actor_id, operations.encode())

    async def drop(self, actor_id: str) -> None:
        """Removes the state. Raises StoreUncertain."""
        operations = json.dumps([{"operation": "delete", "request": {"key": STATE}}])
        async with self._within(WRITE_LIMIT, "remove the state of an actor", StoreUncertain):
            await self._client.save_state_transactionally(ACTOR_TYPE, actor_id, operations.encode())

    async def remind(self, actor_id: str, pause: int) -> None:
        """Registers the one reminder of a job, once, `pause` ms from now. Raises StoreUncertain."""
        reminder = {"dueTime": f"{max(pause, 0)}ms", "data": "", "failurePolicy": RETRY}
        async with self._within(REMIND_LIMIT, "register a reminder", StoreUncertain):
            await self._client.register_reminder(ACTOR_TYPE, actor_id, ALARM, json.dumps(reminder).encode())

    async def forget_reminder(self, actor_id: str) -> None:
        """Removes it. Raises StoreUncertain."""
        async with self._within(REMIND_LIMIT, "remove a reminder", StoreUncertain):
            await self._client.unregister_reminder(ACTOR_TYPE, actor_id, ALARM)

    async def invoke(self, actor_id: str, message: bytes, *, limit: float = TURN_LIMIT) -> bytes:
        """Takes `message` to the job's actor within `limit` seconds. Raises StoreUncertain."""
        async with self._within(limit, "reach an actor", StoreUncertain):
            return await self._client.invoke_method(ACTOR_TYPE, actor_id, TAKE, message)

    @asynccontextmanager
    async def _within(self, seconds: float, what: str, error: type[StoreError]) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(max(seconds, 0.05) * self._patience):
                yield
        except TimeoutError:
            raise error(f"the sidecar did not {what} within {seconds:.1f} s; is it overloaded?") from None
        except (DaprInternalError, OSError) as trouble:
            raise error(f"the sidecar could not {what}: {trouble}; is daprd running?") from trouble
