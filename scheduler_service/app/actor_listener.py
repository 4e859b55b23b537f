"""The listener for daprd: the actors' routes and `/healthz`, and nothing else (SPEC section 16)."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from dapr.ext.fastapi import DaprActor
from fastapi import FastAPI

from scheduler_service.app.server import Server
from scheduler_service.hosts.dapr.host import DaprHost

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


def create_actor_app(host: DaprHost, is_healthy: Callable[[], bool]) -> Asgi:
    """The routes of the SDK over `host`; `/healthz` answers 503 where `is_healthy` says no."""
    logging.getLogger("fastapi").setLevel(logging.WARNING)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    DaprActor(app)

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path")
        if path == "/dapr/config":
            host.doubt()  # daprd asks once per start: it began anew
        if path == "/healthz" and not is_healthy():
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return serve


def make_actor_server(app: Asgi) -> Server:
    """A server for `app`.

    daprd keeps its connections for minutes: one closed before it expects that would lose a turn.
    """
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=600,
    )
    return Server(config)
