"""Delivers events to jobs through the sidecar, wherever their actors live, and reads jobs there."""

import asyncio
from collections.abc import Awaitable, Callable
from secrets import token_hex

from msgspec.structs import replace

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import AlarmRang
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.background_tasks import STOPPING, Tasks, ends_within
from scheduler_service.hosts.dapr.actor_turns import COMMANDS
from scheduler_service.hosts.dapr.heartbeat import OFFLINE_AFTER_MS
from scheduler_service.hosts.dapr.node import DaprParts
from scheduler_service.hosts.job_loading import ProgramCache, read_packed
from scheduler_service.hosts.node_messages import read_reply, write_ask
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError, StoreStopping, StoreUncertain
from scheduler_service.ports.state import OF_MESSAGE, Remembered

# A ring only makes the job look again: one that hangs on a dead node is better repeated.
RING_TIMEOUT_SECONDS = 5.0
HELD_MS = 4_500
"""Whoever asks by the API has an answer within 5 s, whatever daprd waits for."""
PATIENCE_MS = 20 * SECOND
"""Of what this node delivers for itself, and repeats."""
RESENT_AFTER_MS = 900
"""daprd sends a call again after 1 s at the earliest (`resiliency.yaml`)."""
KEY_BYTES = 8
TakeHere = Callable[[str, Command], Awaitable[Reply | None]]
"""Takes a turn on a job that lives here, past the sidecar (`ClusterTurns.take_here`); None: it does not."""


class ActorClient:
    """`ports.Deliver` over the sidecar; rings and answers of jobs that live here do without it."""

    def __init__(self, *, node: DaprParts, programs: ProgramCache, tasks: Tasks, take_here: TakeHere) -> None:
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._holder = node.holder
        self._clock = node.clock
        self._heartbeat = node.cluster.heartbeat
        self._programs = programs
        self._tasks = tasks
        self._take_here = take_here
        self._is_closed = False

    def close(self) -> None:
        """This node stops, and its daprd reaches no actor any more: what is asked from now on is refused."""
        self._is_closed = True

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes the turn. Raises StoreError. What is kept under an Idempotency-Key is the reply as JSON.

        daprd sends a message once more where it got no answer, perhaps to another node, so a command without
        an Idempotency-Key is kept under a key of the message.
        """
        if command.remembered is None and isinstance(command.event, COMMANDS):
            command = replace(command, remembered=_name_message(self._clock.now().wall))
        return await self._ask(job_id, command, HELD_MS)

    async def deliver(self, job_id: str, command: Command) -> Reply:
        """The same from a light task, as a task: timeouts need one. Raises StoreError."""
        taken = await self._take_here(job_id, command)
        if taken is not None:
            return taken
        reply: Reply = await self._tasks.start(self._ask(job_id, command, PATIENCE_MS))
        return reply

    async def ring(self, job_id: str) -> None:
        """Delivers AlarmRang to the job; by the sidecar within 5 s. Raises StoreError."""
        if await self._take_here(job_id, Command(AlarmRang())) is None:
            await self.load(job_id)

    async def load(self, job_id: str) -> None:
        """Loads the job where its actor lives, within 5 s; its alarm waits there. Raises StoreError.

        It is sent as a ring that comes too early, which nodes of every version understand.
        """
        message = write_ask(Command(AlarmRang()))
        read_reply(await self._sidecar.invoke(job_id, message, timeout_seconds=RING_TIMEOUT_SECONDS))

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        row = await self._store.load(job_id)
        if row is None or row.entry.state is JobState.DESTROYED:
            return None  # a request to the actor of a job that never was would fill the memory with it
        packed = read_reply(await self._invoke(job_id, write_ask(None), HELD_MS)).document
        return await read_packed(job_id, packed, self._programs, self._holder)

    async def _ask(self, job_id: str, command: Command, patience: int) -> Reply:
        """The reply. Raises StoreError: StoreUncertain for a refusal that may be that of a second delivery.

        What was sent once more was perhaps done by the node that had it first: who refuses cannot know.
        """
        asked_at = self._clock.now().steady
        answer = await self._invoke(job_id, write_ask(command), patience)
        try:
            reply = read_reply(answer).reply
        except StoreError as refusal:
            if self._clock.now().steady - asked_at < RESENT_AFTER_MS:
                raise
            raise StoreUncertain(str(refusal), is_public=refusal.is_public) from refusal
        assert reply is not None, "an event has a reply"
        return reply

    async def _invoke(self, job_id: str, message: bytes, patience: int) -> bytes:
        """The job's answer. Raises StoreError.

        daprd (1.18.3) holds a call while placement is away, and one that comes in the moment in which its
        node leaves, until the caller gives up: after `patience` ms, and after 4.5 s where a node has left.
        """
        if self._is_closed:
            raise StoreStopping(STOPPING)
        asked_at = self._clock.now().steady
        call = asyncio.create_task(self._sidecar.invoke(job_id, message))
        try:
            while not await ends_within(HELD_MS, call, clock=self._clock):
                has_left = self._is_closed or self._heartbeat.left_at > asked_at - OFFLINE_AFTER_MS
                if has_left or self._clock.now().steady - asked_at >= patience:
                    raise StoreUncertain("the sidecar did not reach the job in time", is_public=True)
            return call.result()
        finally:
            call.cancel()


def _name_message(at: int) -> Remembered:
    return Remembered(OF_MESSAGE, token_hex(KEY_BYTES), b"", b"", at)
