"""HTTP over ASGI: reads calls and sends answers."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from datetime import datetime
from typing import Any

import msgspec

from client_sdk.errors import Flaw

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

DEADLINE_HEADER = "X-Scheduling-Deadline"
BODY_BYTES = 1 << 20
"""The longest body of a call, unless a service says otherwise."""
DIGITS = 18
TITLES = {
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    410: "Gone",
    413: "Content Too Large",
    422: "Unprocessable Content",
    503: "Service Unavailable",
}


class InboundCall(msgspec.Struct, frozen=True):
    """A request; header names in lower case. `peer`: the address that it comes from; empty: unknown."""

    method: str
    headers: dict[str, str]
    body: bytes
    peer: str = ""


class OutboundAnswer(msgspec.Struct, frozen=True):
    """An answer."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    kind: str = "application/json"


class TooLarge(Exception):
    """The body is longer than it may be."""


class CallerGone(Exception):
    """The connection ended before the whole body had come: what came is no call."""


async def read_call(scope: Scope, receive: Receive, *, limit: int = BODY_BYTES) -> InboundCall:
    """The whole request. Raises TooLarge beyond `limit` bytes, unread if its length says so; CallerGone."""
    headers = {name.decode("latin-1").lower(): _decode(value) for name, value in scope["headers"]}
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:18]) > limit:
        raise TooLarge
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise CallerGone
        body += message.get("body", b"")
        if len(body) > limit:
            raise TooLarge
        if not message.get("more_body"):
            peer = scope.get("client") or ("",)
            return InboundCall(scope["method"], headers, bytes(body), str(peer[0]))


async def until_gone(receive: Receive) -> None:
    """Returns when the caller of a request that was read has closed the connection, or it is lost."""
    try:
        message = await receive()
    except Exception:  # noqa: BLE001 - a middleware on the way that cannot say
        message = {}
    if message.get("type") != "http.disconnect":
        await asyncio.Event().wait()


async def send_answer(send: Send, answer: OutboundAnswer) -> None:
    """Sends an answer."""
    headers = [
        ("content-type", answer.kind),
        ("content-length", str(len(answer.body))),
        *answer.headers,
    ]
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": answer.body})


def refuse(status: int, detail: str, *, flaws: Iterable[Flaw] = (), **headers: str) -> OutboundAnswer:
    """A problem document (RFC 9457)."""
    body = {
        "type": "about:blank",
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "detail": detail,
        "errors": [flaw._asdict() for flaw in flaws],
    }
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return OutboundAnswer(status, json.dumps(body).encode(), named, "application/problem+json")


def read_moment(headers: Mapping[str, str], name: str) -> datetime | None:
    """The moment in the header `name`; names of `headers` are in lower case. Raises ValueError."""
    text = headers.get(name.lower())
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _invalid_moment(name, text) from None
    if moment.tzinfo is None:
        raise _invalid_moment(name, text)
    return moment


def read_number(headers: Mapping[str, str], name: str) -> int:
    """The number in the header `name`, in lower case; 0 where it is absent. Raises ValueError."""
    text = headers.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        raise ValueError(f"{name} {text[:40]!r} is not a number")
    return int(text)


def _invalid_moment(name: str, text: str) -> ValueError:
    form = "RFC 3339 with a time zone, as in 2026-01-01T00:00:00.000Z"
    return ValueError(f"{name} {text[:40]!r} is not a moment; write {form}")


def _decode(value: bytes) -> str:
    """The scheduler sends header values outside ASCII as UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
