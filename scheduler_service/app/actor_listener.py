"""The listener of a node that only daprd calls: the actors' routes of the SDK behind a door of their own."""

import hmac
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from dapr.actor import ActorRuntime
from dapr.clients.exceptions import ERROR_CODE_UNKNOWN
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
SMALL_BYTES = 16 << 10
"""A body of up to this size, as most turns have, is always read."""
HELD_BYTES = 96 << 20
"""What all bodies that have not come to their end may take in memory; one that is too much for it is 503."""
METHOD_PARTS, REMINDER_PARTS = 6, 7
"""Parts of `/actors/TYPE/ID/method/NAME` and `/actors/TYPE/ID/method/remind/NAME`, the empty one first."""
HEALTH = "/healthz"
"""Where daprd asks once a second; an answer that takes half a second counts against the node."""


class ActorsHost(Protocol):
    """The host behind the actors of this process."""

    @property
    def is_healthy(self) -> bool:
        """Whether daprd may send it turns."""

    def recheck_cache(self) -> None:
        """daprd has started anew: what it held is to be looked at again."""


def create_actor_app(host: ActorsHost, *, token: str | None = None) -> Asgi:
    """The SDK's routes over `host`, its turns without their layers; `/healthz`: 503 where it is not healthy.

    Refused with 403 is what daprd never sends: a Host that is not of this machine, and what a browser says
    of the page that asks, so that no web page takes turns. With `token` everything but `/healthz` needs it.
    A body of more than LARGEST_MESSAGE_BYTES is refused: with 413 where its length says so, else cut off.
    """
    held = _HeldBytes()
    logging.getLogger("fastapi").setLevel(logging.WARNING)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    DaprActor(app)
    expected = None if token is None else token.encode()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        path = scope["path"]
        status = _refusal(scope, None if path == HEALTH else expected)
        if status is None and path == HEALTH:
            status = 200 if host.is_healthy else 503
        if status is not None:
            await _answer(send, status)
            return
        if path == "/dapr/config":
            host.recheck_cache()  # daprd asks once per start: it started anew
        turn = _turn_of(scope)
        coming = _BoundedBody(receive, held)
        try:
            if turn is None:
                await app(scope, coming.receive, send)
                return
            body = await _read(coming.receive)
        finally:
            coming.end()
        if body is not None:
            await _answer(send, *await _take(turn, body))
        elif coming.has_no_room:
            await _answer(send, 503)

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


class _HeldBytes:
    """The bytes of all bodies of a listener that are being read."""

    size = 0


class _BoundedBody:
    """A body as it comes, but for what is endless or too much: the SDK keeps a body whole.

    daprd names no length of its own.
    """

    def __init__(self, receive: Receive, held: _HeldBytes) -> None:
        self._receive = receive
        self._held = held
        self._size = self._counted = 0
        self.has_no_room = False

    async def receive(self) -> Any:
        """The next message of the request; that its sender is gone where no more is read."""
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if self._size > SMALL_BYTES:
            self._held.size += self._size - self._counted
            self._counted = self._size
            self.has_no_room = self._held.size > HELD_BYTES
        if self.has_no_room or self._size > LARGEST_MESSAGE_BYTES:
            return {"type": "http.disconnect"}
        return message

    def end(self) -> None:
        """It is read no further."""
        self._held.size -= self._counted
        self._counted = 0


Turn = tuple[str, str, str, str]
"""Actor type, actor id, and the name of a method, or else that of a reminder."""


def _turn_of(scope: Any) -> Turn | None:
    """What goes to the SDK's runtime past its routes, which took a fifth of the loop; None: they answer."""
    if scope["method"] != "PUT":
        return None
    parts = scope["path"].split("/")
    if parts[1:2] != ["actors"] or parts[4:5] != ["method"]:
        return None
    if len(parts) == METHOD_PARTS:
        return parts[2], parts[3], parts[5], ""
    return (
        (parts[2], parts[3], "", parts[6]) if len(parts) == REMINDER_PARTS and parts[5] == "remind" else None
    )


async def _read(receive: Receive) -> bytes | None:
    """The body; None: its sender is gone, or sent too much."""
    pieces = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _take(turn: Turn, body: bytes) -> tuple[int, bytes]:
    """Status and body. An error is one of the type or of what was sent: jobs answer with their own."""
    kind, actor_id, method, reminder = turn
    try:
        if reminder:
            await ActorRuntime.fire_reminder(kind, actor_id, reminder, body)
            return 200, b""
        return 200, await ActorRuntime.dispatch(kind, actor_id, method, body)
    except Exception as error:  # noqa: BLE001 - as the SDK's own routes answer
        return 500, json.dumps({"message": repr(error), "errorCode": ERROR_CODE_UNKNOWN}).encode()


async def _answer(send: Any, status: int, body: bytes = b"") -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    if body:
        headers.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
