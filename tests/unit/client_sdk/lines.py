"""Lines to a service that lose what they carry, a waiter that does not wait, and a server on loopback."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn

from client_sdk.client.call_retries import Patience
from client_sdk.client.connection import Connection
from client_sdk.client.jobs import Jobs
from tests.wire.service import SERVED, World


class LossyLine(httpx.AsyncBaseTransport):
    """A transport before another one. Each call takes the next of `fates`; afterwards all goes well.

    `before`: the request is lost on its way; `after`: its answer is; an answer: that one comes instead;
    an error: the transport raises it.
    """

    def __init__(
        self, inner: httpx.AsyncBaseTransport, fates: Sequence[str | httpx.Response | Exception]
    ) -> None:
        self.inner = inner
        self.fates = list(fates)
        self.sent: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(request)
        fate = self.fates.pop(0) if self.fates else ""
        if isinstance(fate, Exception):
            raise fate
        if isinstance(fate, httpx.Response):
            return fate
        if fate == "before":
            raise httpx.ConnectError("refused", request=request)
        answer = await self.inner.handle_async_request(request)
        if fate == "after":
            await answer.aread()
            raise httpx.ReadError("cut", request=request)
        return answer


class Waits:
    """Notes how long somebody wanted to wait, and lets them go on at once, after those who are ready."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def connect(
    transport: httpx.AsyncBaseTransport,
    patience: Patience,
    waits: Waits | None = None,
    *,
    url: str = "http://scheduler.test",
    timeout: float = 5,
    **further: Any,
) -> Connection:
    """A connection over this transport, on which nobody waits."""
    return Connection(
        url=url, key=None, timeout=timeout, patience=patience, transport=transport, pause=waits or Waits(),
        chance=lambda: 0.0, **further,
    )  # fmt: skip


class Line:
    """A connection to a real service over a line that loses what `fates` say."""

    def __init__(
        self, world: World | None, *fates: str | httpx.Response | Exception, **patience: Any
    ) -> None:
        async def nobody(scope: Any, receive: Any, send: Any) -> None:
            raise AssertionError("nothing else is asked")

        inner = httpx.ASGITransport(world.service.api if world else nobody)
        self.line = LossyLine(inner, fates)
        self.waits = Waits()
        self.connection = connect(self.line, Patience(**patience), self.waits, url=SERVED)
        self.jobs = Jobs(self.connection)

    @property
    def keys(self) -> list[str | None]:
        """The Idempotency-Key of each call."""
        return [request.headers.get("idempotency-key") for request in self.line.sent]


def problem(status: int, code: str = "", **headers: str) -> httpx.Response:
    """A problem document as the service writes it."""
    body = {
        "type": "about:blank",
        "title": "no",
        "status": status,
        "detail": "not now",
        "errors": [{"pointer": "", "code": code, "message": "not now"}] if code else [],
        "resp_code": status,
        "resp_msg": "not now",
    }
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, json=body, headers=named)


@asynccontextmanager
async def serving(app: Any, *, lifespan: str = "off") -> AsyncIterator[str]:
    """The address of `app` on a free port of loopback, served by uvicorn within this event loop."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan=lifespan))
    task = asyncio.create_task(server.serve([listener]))
    try:
        # The listener takes connections from now on; they are answered as soon as the server runs.
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


class NewerLine(httpx.AsyncBaseTransport):
    """A transport to a service of a later version: every object of its answers says more than we know."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self.inner.handle_async_request(request)
        body = json.loads(await answer.aread())
        kept = {name: value for name, value in answer.headers.items() if name != "content-length"}
        return httpx.Response(answer.status_code, json=_add(body), headers=kept)


MAPS = frozenset({"labels", "options", "headers", "definition", "params", "body", "byState"})
"""Members whose own members are no shape of ours."""


def _add(value: Any) -> Any:
    if isinstance(value, dict):
        told = {name: item if name in MAPS else _add(item) for name, item in value.items()}
        return told | {"later": {"version": 2}}
    return [_add(item) for item in value] if isinstance(value, list) else value
