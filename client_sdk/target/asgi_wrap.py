"""An ASGI application with a service around it: the service starts after it and stops before it."""

from collections.abc import Callable
from typing import Protocol

from client_sdk.target.messages import App, Message, Receive, Scope, Send


class Startable(Protocol):
    """An ASGI application that is started and stopped."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Wrapped:
    """`app` with `service` in front of it, which takes the requests that it `owns`; all if `app` is None."""

    def __init__(self, *, app: App | None, service: Startable, owns: Callable[[Scope], bool]) -> None:
        self._app = app
        self._service = service
        self._owns = owns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _Lifespan(app=self._app, service=self._service, receive=receive, send=send).run(scope)
        elif self._app is None or (scope["type"] == "http" and self._owns(scope)):
            await self._service(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _Lifespan:
    """One run of the lifespan protocol, whether the application supports it or not."""

    def __init__(self, *, app: App | None, service: Startable, receive: Receive, send: Send) -> None:
        self._app = app
        self._service = service
        self._receive = receive
        self._send = send
        self._has_answered = False
        self._has_received = False

    async def run(self, scope: Scope) -> None:
        await self._run_app(scope)
        if not self._has_answered:
            await self._run_alone()

    async def _run_app(self, scope: Scope) -> None:
        if self._app is None:
            return
        try:
            await self._app(scope, self._receive_message, self._send_message)
        except Exception:
            # An application without lifespan support raises before it sends anything (ASGI specification).
            if self._has_answered:
                raise

    async def _run_alone(self) -> None:
        if not self._has_received:
            await self._receive()
        await self._service.start()
        await self._send({"type": "lifespan.startup.complete"})
        await self._receive()
        await self._service.stop()
        await self._send({"type": "lifespan.shutdown.complete"})

    async def _receive_message(self) -> Message:
        message = await self._receive()
        self._has_received = True
        if message["type"] == "lifespan.shutdown":
            await self._service.stop()
        return message

    async def _send_message(self, message: Message) -> None:
        self._has_answered = True
        if message["type"] == "lifespan.startup.complete":
            await self._service.start()
        await self._send(message)
