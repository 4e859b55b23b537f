"""The sidecar: values, contexts, reminders and invocation of the jobs' actors."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import grpc
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.domain.moments import SECOND
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain

ACTOR_TYPE = "job_scheduler"
STATE, ALARM, TAKE = "state", "alarm", "take"
READ_TIMEOUT_SECONDS = 2.0
REMINDER_TIMEOUT_SECONDS, TURN_TIMEOUT_SECONDS = 1.0, 20.0
# The tick of a one-shot reminder is dropped after three tries unless its policy says otherwise.
RETRY_POLICY = {"constant": {"interval": "5s"}}
LARGEST_MESSAGE_BYTES = 16 << 20
LEAST_SECONDS = 0.05
UNREACHED = "this node does not reach its sidecar; ask another node"
FAILURES = (TimeoutError, grpc.aio.AioRpcError, DaprInternalError, OSError)


class ActorMissing(DaprInternalError):
    """daprd does not have the actor active here, and has written nothing."""


class SidecarUnreached(DaprInternalError):
    """No connection to daprd was made: it has nothing of the call."""


class StateNotWritten(StoreUnavailable):
    """Certainly not: daprd does not have the actor active here. It moved, rests, or daprd started anew."""


class ActorCalls(Protocol):
    """The SDK's actor client, each call within `seconds` of real time.

    Raises TimeoutError, DaprInternalError, AioRpcError: but for ActorMissing and SidecarUnreached it is
    unknown whether daprd has acted.
    """

    async def get_state(self, actor_type: str, actor_id: str, name: str, *, seconds: float) -> bytes:
        """A value as JSON, empty where there is none."""

    async def save_state_transactionally(
        self, actor_type: str, actor_id: str, data: bytes, *, seconds: float
    ) -> None:
        """Writes the operations in `data` (JSON) as one. Raises ActorMissing, too."""

    async def register_reminder(
        self, actor_type: str, actor_id: str, name: str, data: bytes, *, seconds: float
    ) -> None:
        """Registers or replaces a reminder, as `data` (JSON) says."""

    async def unregister_reminder(self, actor_type: str, actor_id: str, name: str, *, seconds: float) -> None:
        """Removes a reminder, if there is one."""

    async def invoke_method(
        self, actor_type: str, actor_id: str, method: str, data: bytes | None = None, *, seconds: float
    ) -> bytes:
        """The answer of an actor, wherever it lives."""


class Sidecar:
    """Values, reminders and invocation of the jobs' actors. 0.1.0 kept a job's state under the key `STATE`.

    Timeouts are real time, whatever clock the host uses; all are multiplied by `timeout_factor`.
    """

    def __init__(self, *, client: ActorCalls, timeout_factor: float = 1.0) -> None:
        self._client = client
        self._timeout_factor = timeout_factor
        self.is_left = False

    def leave(self) -> None:
        """This node stops: from now on it `is_left`, and what belongs to a turn is not given to daprd."""
        self.is_left = True

    async def get(
        self, actor_id: str, key: str = STATE, *, timeout_seconds: float = READ_TIMEOUT_SECONDS
    ) -> bytes:
        """A value of a job, empty where there is none. Raises StoreUnavailable."""
        seconds = self._real(timeout_seconds)
        try:
            raw = await self._client.get_state(ACTOR_TYPE, actor_id, key, seconds=seconds)
        except FAILURES as failure:
            raise StoreUnavailable(_explain("read the state of an actor", failure, seconds)) from failure
        return base64.b64decode(json.loads(raw)) if raw else b""

    async def write(
        self, actor_id: str, values: Mapping[str, bytes], removed: Sequence[str], timeout: int
    ) -> None:
        """Writes values and removes others within `timeout` ms, all or nothing. Raises StateNotWritten.

        Raises StoreUncertain: it may be written, or will be.
        """
        operations: list[dict[str, Any]] = [
            {"operation": "upsert", "request": {"key": key, "value": base64.b64encode(value).decode()}}
            for key, value in values.items()
        ]
        operations += [{"operation": "delete", "request": {"key": key}} for key in removed]
        seconds, what = self._real(timeout / SECOND), "write the state of an actor"
        data = json.dumps(operations, separators=(",", ":")).encode()
        try:
            await self._client.save_state_transactionally(ACTOR_TYPE, actor_id, data, seconds=seconds)
        except ActorMissing as refusal:
            raise StateNotWritten(f"the sidecar did not {what}: {refusal}") from refusal
        except FAILURES as failure:
            raise StoreUncertain(_explain(what, failure, seconds)) from failure

    async def remind(self, actor_id: str, pause: int) -> None:
        """Registers the one reminder of a job, once, `pause` ms from now. Raises StoreUncertain."""
        reminder = {"dueTime": f"{max(pause, 0)}ms", "data": "", "failurePolicy": RETRY_POLICY}
        data, seconds = json.dumps(reminder).encode(), self._real(REMINDER_TIMEOUT_SECONDS)
        try:
            await self._client.register_reminder(ACTOR_TYPE, actor_id, ALARM, data, seconds=seconds)
        except FAILURES as failure:
            raise StoreUncertain(_explain("register a reminder", failure, seconds)) from failure

    async def forget_reminder(self, actor_id: str) -> None:
        """Removes the reminder. Raises StoreUncertain."""
        seconds = self._real(REMINDER_TIMEOUT_SECONDS)
        try:
            await self._client.unregister_reminder(ACTOR_TYPE, actor_id, ALARM, seconds=seconds)
        except FAILURES as failure:
            raise StoreUncertain(_explain("remove a reminder", failure, seconds)) from failure

    async def invoke(
        self, actor_id: str, message: bytes, *, timeout_seconds: float = TURN_TIMEOUT_SECONDS
    ) -> bytes:
        """The answer of the job's actor to `message`. Raises StoreUncertain.

        Raises StoreUnavailable where this node does not reach its own sidecar: nothing was sent.
        """
        seconds = self._real(timeout_seconds)
        try:
            return await self._client.invoke_method(ACTOR_TYPE, actor_id, TAKE, message, seconds=seconds)
        except SidecarUnreached as failure:
            raise StoreUnavailable(UNREACHED, is_public=True) from failure
        except FAILURES as failure:
            raise StoreUncertain(_explain("reach an actor", failure, seconds)) from failure

    def _real(self, seconds: float) -> float:
        return max(seconds, LEAST_SECONDS) * self._timeout_factor


def _explain(what: str, failure: Exception, seconds: float) -> str:
    if isinstance(failure, TimeoutError):
        return f"the sidecar did not {what} within {seconds:.1f} s; is it overloaded?"
    if isinstance(failure, grpc.aio.AioRpcError):
        reason = f"{failure.code().name}: {failure.details()}"
        return f"the sidecar could not {what}: {reason}; is daprd running?"
    return f"the sidecar could not {what}: {failure}; is daprd running?"


INDEX = "contexts"
WRITE_MS = SECOND // 2
"""Longer than a write takes. Where daprd takes longer the contexts go into the row, within the same turn."""
FIND_SECONDS = 0.3
"""A turn waits so long for the list of what other nodes left, and goes on without it."""


class ActorContexts:
    """`ports.state.Contexts` in the actor state store: a key of the job's actor for each version.

    A version is written in one transaction with the removal of older ones, where the actor is active. What a
    sidecar writes late is a version that no row names. The store lists nothing: the versions that a job has
    are written with each of them, under the key `INDEX` (docs/decisions/0074).
    """

    def __init__(self, *, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    async def put(
        self, job_id: str, version: int, content: bytes, unused: Sequence[int], others: Sequence[int] = ()
    ) -> None:
        """As the port says."""
        index = " ".join(f"{one:x}" for one in (*others, version)).encode()
        removed = [_key(one) for one in unused]
        await self._sidecar.write(job_id, {_key(version): content, INDEX: index}, removed, WRITE_MS)

    async def find(self, job_id: str) -> Sequence[int]:
        """As the port says."""
        found = await self._sidecar.get(job_id, INDEX, timeout_seconds=FIND_SECONDS)
        return [int(one, 16) for one in found.split()]

    async def get(self, job_id: str, version: int) -> bytes | None:
        """As the port says."""
        return await self._sidecar.get(job_id, _key(version)) or None

    async def drop(self, job_id: str, unused: Sequence[int]) -> None:
        """As the port says; nothing else is left of the job then."""
        await self._sidecar.write(job_id, {}, [INDEX, *(_key(one) for one in unused)], WRITE_MS)


def _key(version: int) -> str:
    return f"context-{version:x}"
