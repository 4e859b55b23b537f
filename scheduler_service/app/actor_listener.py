"""The listener of a node that only daprd calls: the actors' routes of the SDK behind a door of their own."""

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from dapr.ext.fastapi import DaprActor
from fastapi import FastAPI

from scheduler_service.api.authentication import is_loopback_host
from scheduler_service.api.bodies import header
from scheduler_service.hosts.dapr.sidecar import LARGEST_MESSAGE_BYTES

Asgi = Callable[[Any, Any, Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]
"""Gives the next message of a request."""

TOKEN_HEADER = b"dapr-api-token"
"""By which daprd shows the token that it was started with (its `APP_API_TOKEN`)."""

OF_BROWSERS = (b"origin", b"sec-fetch-site", b"referer")
OPEN_PATHS = frozenset({"/healthz"})


class Actors(Protocol):
    """The host behind the actors of this process."""

    @property
    def is_healthy(self) -> bool:
        """Whether daprd may send it turns."""

    def recheck_cache(self) -> None:
        """daprd has started anew: what it held is to be looked at again."""


def create_actor_app(host: Actors, *, token: str | None = None) -> Asgi:
    """The routes of the SDK over `host`; `/healthz` answers 503 where the host is not healthy.

    Refused with 403 is what daprd never sends: a Host that is not of this machine, and what a browser says
    of the page that asks, so that no web page takes turns. With `token` everything but `/healthz` needs it.
    A body of more than LARGEST_MESSAGE_BYTES is refused: with 413 where its length says so, else cut off.
    """
    logging.getLogger("fastapi").setLevel(logging.WARNING)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    DaprActor(app)
    expected = None if token is None else token.encode()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        path = scope["path"]
        status = _refusal(scope, None if path in OPEN_PATHS else expected)
        if status is None and path == "/healthz" and not host.is_healthy:
            status = 503
        if status is not None:
            await _answer(send, status)
            return
        if path == "/dapr/config":
            host.recheck_cache()  # daprd asks once per start: it started anew
        await app(scope, _bounded(receive), send)

    return serve


def _refusal(scope: Any, token: bytes | None) -> int | None:
    """The status of what daprd would not send; None: it may pass."""
    if not is_loopback_host(header(scope, b"host") or ""):
        return 403
    if any(header(scope, name) is not None for name in OF_BROWSERS):
        return 403
    if token is not None:
        given = (header(scope, TOKEN_HEADER) or "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, token):
            return 403
    length = header(scope, b"content-length")
    # The server has checked that a length is a number.
    if length is not None and int(length) > LARGEST_MESSAGE_BYTES:
        return 413
    return None


def _bounded(receive: Receive) -> Receive:
    """`receive`, but for bodies without end: the SDK keeps a body whole. daprd names no length of its own."""
    left = LARGEST_MESSAGE_BYTES

    async def take() -> Any:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return take


async def _answer(send: Any, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})
