"""A bare actor as users write it: `python -m tests.bench.cluster.bare_actor PORT CLIENT again|once|twice`."""

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import uvicorn
from dapr.actor import Actor, ActorId, ActorInterface, Remindable, actormethod
from dapr.actor.runtime.context import ActorRuntimeContext
from dapr.clients.grpc.dapr_actor_grpc_client import DaprActorGrpcClient
from dapr.ext.fastapi import DaprActor
from fastapi import FastAPI

STATE, ALARM, LATER = "state", "alarm", timedelta(hours=1)
DOCUMENT = "x" * 1_000
arrivals: list[tuple[str, float]] = []


class Bare(ActorInterface):
    """What can be asked of the actor."""

    @actormethod(name="create")
    async def create(self, moment: float) -> bool:
        """Saves a state and registers the reminder for `moment` (s since the epoch)."""
        raise NotImplementedError


class BareActor(Actor, Bare, Remindable):
    """Saves its state at its reminder, `once` or `twice`, or registers the next one, too (`again`)."""

    def __init__(self, ctx: ActorRuntimeContext, actor_id: ActorId, kind: str) -> None:
        super().__init__(ctx, actor_id)
        self._kind = kind

    async def create(self, moment: float) -> bool:
        """As above."""
        await self._save(0)
        await self.register_reminder(ALARM, b"", timedelta(seconds=moment - time.time()))
        return True

    async def receive_reminder(
        self, name: str, state: bytes, due_time: timedelta, period: timedelta, ttl: timedelta | None = None
    ) -> None:
        """Notes when it came."""
        arrivals.append((self.id.id, time.time() * 1_000))
        found, known = await self._state_manager.try_get_state(STATE)
        count = known["count"] + 1 if found else 1
        await self._save(count)
        if self._kind == "twice":
            await self._save(count + 1)
        if self._kind == "again":
            await self.register_reminder(ALARM, b"", LATER)

    async def _save(self, count: int) -> None:
        await self._state_manager.set_state(STATE, {"count": count, "document": DOCUMENT})
        await self._state_manager.save_state()


def make_app(client: str, kind: str) -> FastAPI:
    """The application; `client` is `http`, the SDK's default, or `grpc`, which costs less."""

    def make(ctx: ActorRuntimeContext, actor_id: ActorId) -> BareActor:
        return BareActor(ctx, actor_id, kind)

    @asynccontextmanager
    async def register(app: FastAPI) -> AsyncIterator[None]:
        given = {"actor_client": DaprActorGrpcClient()} if client == "grpc" else {}
        await actors.register_actor(BareActor, actor_factory=make, **given)
        yield

    app = FastAPI(lifespan=register)
    actors = DaprActor(app)

    @app.get("/count")
    async def count() -> int:
        return len(arrivals)

    @app.get("/arrivals")
    async def list_arrivals() -> Any:
        return arrivals

    return app


if __name__ == "__main__":
    _, port, client, kind = sys.argv
    uvicorn.run(make_app(client, kind), host="127.0.0.1", port=int(port), log_level="warning")
