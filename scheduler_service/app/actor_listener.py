"""The ASGI application for daprd: the actors' routes and `/healthz`, and nothing else (SPEC section 16)."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from dapr.ext.fastapi import DaprActor
from fastapi import FastAPI

from scheduler_service.hosts.dapr.host import DaprHost

# daprd keeps its connections for minutes: one that this side closes before would lose a turn.
SIDECAR_KEEP_ALIVE_SECONDS = 600

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def create_actor_app(host: DaprHost) -> Asgi:
    """The routes of the SDK over `host`; `/healthz` answers 503 where the host is not healthy."""
    logging.getLogger("fastapi").setLevel(logging.WARNING)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    DaprActor(app)

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path")
        if path == "/dapr/config":
            host.recheck_cache()  # daprd asks once per start: it started anew
        if path == "/healthz" and not host.is_healthy:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return serve
