"""The job as a Dapr actor: it takes the same turns as the embedded host, without a rule of its own."""

import json
from datetime import timedelta

from dapr.actor import Actor, ActorId, ActorInterface, ActorRuntime, Remindable, actormethod
from dapr.actor.runtime.config import ActorRuntimeConfig, ActorTypeConfig
from dapr.actor.runtime.context import ActorRuntimeContext
from dapr.clients.base import DaprActorClientBase
from dapr.serializers import DefaultJSONSerializer, Serializer

from scheduler_service.hosts.dapr.dapr_host import DaprHost
from scheduler_service.hosts.dapr.sidecar import ACTOR_TYPE, TAKE

IDLE_TIMEOUT = timedelta(hours=24)
DRAIN_TIMEOUT = timedelta(seconds=2)


class JobActorInterface(ActorInterface):
    """The methods of a job's actor."""

    @actormethod(name=TAKE)  # type: ignore[untyped-decorator]
    async def take(self, message: bytes) -> bytes:
        """Takes one turn; message and answer are those of `hosts.node_messages`."""
        raise NotImplementedError


class JobActor(Actor, JobActorInterface, Remindable):
    """One job. A turn is taken without the SDK's state, under a lock of its own."""

    def __init__(self, ctx: ActorRuntimeContext, actor_id: ActorId, host: DaprHost) -> None:
        super().__init__(ctx, actor_id)
        self._host = host

    async def take(self, message: bytes) -> bytes:
        """Takes one turn."""
        return await self._host.take(self.id.id, message)

    async def receive_reminder(
        self, name: str, state: bytes, due_time: timedelta, period: timedelta, ttl: timedelta | None = None
    ) -> None:
        """Takes the turn AlarmRang; errors of the job are not raised."""
        await self._host.remind(self.id.id)

    async def _on_deactivate(self) -> None:
        await self._host.deactivate(self.id.id)


# The SDK takes the actor type from the class name; the resiliency policy refers to it by this one.
JobActor.__name__ = ACTOR_TYPE


class PlainSerializer(Serializer):
    """Messages stay bytes; all else is JSON, read without guessing at dates and durations."""

    def __init__(self) -> None:
        self._json = DefaultJSONSerializer()

    def serialize(self, obj: object, custom_hook: object = None) -> bytes:
        """Bytes as they are, else JSON."""
        return obj if isinstance(obj, bytes) else self._json.serialize(obj)

    def deserialize(self, data: bytes, data_type: object = object, custom_hook: object = None) -> object:
        """Bytes where bytes are asked for, else what the JSON says."""
        return data if data_type is bytes else _read_json(data)


async def register(host: DaprHost, client: DaprActorClientBase) -> None:
    """Makes this process a host of jobs; daprd learns that by `/dapr/config`."""
    serializer = PlainSerializer()
    ActorRuntime.set_actor_config(
        ActorRuntimeConfig(
            actor_idle_timeout=IDLE_TIMEOUT,
            drain_ongoing_call_timeout=DRAIN_TIMEOUT,
            actor_type_configs=[ActorTypeConfig(ACTOR_TYPE, actor_idle_timeout=IDLE_TIMEOUT)],
        )
    )
    await ActorRuntime.register_actor(
        JobActor,
        message_serializer=serializer,
        state_serializer=serializer,
        actor_factory=lambda ctx, actor_id: JobActor(ctx, actor_id, host),
        actor_client=client,
    )


def _read_json(data: bytes) -> object:
    return json.loads(data) if data else None
