"""The job as a Dapr actor: it hands over to the same turn as the embedded host, no rule of a job in it."""

import json
from datetime import timedelta
from typing import Protocol

from dapr.actor import Actor, ActorId, ActorInterface, ActorRuntime, Remindable, actormethod
from dapr.actor.runtime.config import ActorRuntimeConfig, ActorTypeConfig
from dapr.actor.runtime.context import ActorRuntimeContext
from dapr.clients.base import DaprActorClientBase
from dapr.serializers import DefaultJSONSerializer, Serializer

from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE, TAKE

IDLE = timedelta(hours=24)
DRAIN = timedelta(seconds=2)


class Turns(Protocol):
    """The host behind the actors of this process."""

    async def take(self, job_id: str, message: bytes) -> bytes:
        """Takes the turn that a message asks for. Never raises: errors are answers."""

    async def remind(self, job_id: str) -> None:
        """The job's reminder rang. Raises DaprInternalError where another node should be asked."""

    async def let_go(self, job_id: str) -> None:
        """The job leaves this process. Never raises."""


class Job(ActorInterface):
    """What can be asked of a job's actor."""

    @actormethod(name=TAKE)  # type: ignore[untyped-decorator]
    async def take(self, message: bytes) -> bytes:
        """Takes one turn; `message` and answer are `hosts.messages`."""
        raise NotImplementedError


class JobActor(Actor, Job, Remindable):
    """One job. Its state is not the SDK's: a turn reads and writes it by itself, under a lock of its own."""

    def __init__(self, ctx: ActorRuntimeContext, actor_id: ActorId, turns: Turns) -> None:
        super().__init__(ctx, actor_id)
        self._turns = turns

    async def take(self, message: bytes) -> bytes:
        """Takes one turn."""
        return await self._turns.take(self.id.id, message)

    async def receive_reminder(
        self,
        name: str,
        state: bytes,
        due_time: timedelta,
        period: timedelta,
        ttl: timedelta | None = None,
    ) -> None:
        """Looks again; never raises for anything that has to do with the job."""
        await self._turns.remind(self.id.id)

    async def _on_deactivate(self) -> None:
        await self._turns.let_go(self.id.id)


# The SDK takes the type's name from the class; the resiliency policy of the source knows it by this one.
JobActor.__name__ = ACTOR_TYPE


class PlainSerializer(Serializer):
    """Messages are bytes and stay so; all else is JSON, read without guessing at dates and durations."""

    def __init__(self) -> None:
        self._json = DefaultJSONSerializer()

    def serialize(self, obj: object, custom_hook: object = None) -> bytes:
        """Bytes as they are, else JSON."""
        return obj if isinstance(obj, bytes) else self._json.serialize(obj)

    def deserialize(self, data: bytes, data_type: object = object, custom_hook: object = None) -> object:
        """Bytes where bytes are asked for, else what the JSON says."""
        return data if data_type is bytes else _read_json(data)


async def register(turns: Turns, client: DaprActorClientBase) -> None:
    """Makes this process a host of jobs; daprd learns of it when it asks for `/dapr/config`."""
    serializer = PlainSerializer()
    ActorRuntime.set_actor_config(
        ActorRuntimeConfig(
            actor_idle_timeout=IDLE,
            drain_ongoing_call_timeout=DRAIN,
            actor_type_configs=[ActorTypeConfig(ACTOR_TYPE, actor_idle_timeout=IDLE)],
        )
    )
    await ActorRuntime.register_actor(
        JobActor,
        message_serializer=serializer,
        state_serializer=serializer,
        actor_factory=lambda ctx, actor_id: JobActor(ctx, actor_id, turns),
        actor_client=client,
    )


def _read_json(data: bytes) -> object:
    return json.loads(data) if data else None
