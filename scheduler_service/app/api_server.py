"""The API of a running service: loaded once the calls in flight are out, and served until its end."""

import asyncio
import socket
from typing import TYPE_CHECKING, Protocol

from starlette.types import ASGIApp

from scheduler_service.app.telemetry import Telemetry
from scheduler_service.pacing.short_turns import short_turns
from scheduler_service.ports.log import Log
from scheduler_service.settings import Settings

if TYPE_CHECKING:
    from scheduler_service.http_server.server import Server

LOADED_WITHIN_SECONDS = 10.0
"""However many calls there are to send again: whoever asks whether the process lives does not wait longer."""


class ServedService(Protocol):
    """A service that has an API, and may have calls to send before it."""

    telemetry: Telemetry

    @property
    def api(self) -> ASGIApp:
        """Its ASGI application; made when it is first asked for."""

    async def resumed(self) -> None:
        """Returns when what was in flight has been sent again."""

    def flush_log(self) -> None:
        """Writes the lines that the API still sums up, after its last answer."""


class ApiServer:
    """Serves the API of `service` on `listener`; until it does, callers wait in the listener's queue.

    What the API is made of takes a third of a start to import, and a call that is sent again needs none of
    it: so it is imported, beside the loop, when the service has `resumed`, or after `loaded_within` seconds.
    """

    def __init__(
        self,
        *,
        service: ServedService,
        listener: socket.socket,
        settings: Settings,
        connections: int,
        log: Log,
        loaded_within: float = LOADED_WITHIN_SECONDS,
    ) -> None:
        self._service = service
        self._listener = listener
        self._settings = settings
        self._connections = connections
        self._log = log
        self._loaded_within = loaded_within
        self._server: Server | None = None
        self._is_up = asyncio.Event()
        self.serving = asyncio.create_task(self._serve())
        """Ends with the API; it raises what keeps the API from being loaded."""

    async def up(self) -> None:
        """Returns when the API answers."""
        await self._is_up.wait()

    async def end(self, *, seconds: float) -> None:
        """Cuts off what is not answered within `seconds`. Raises what kept the API from being loaded."""
        if self._server is not None:
            await self._server.end(self.serving, seconds=seconds)
        else:
            self.serving.cancel()
            await asyncio.wait({self.serving})
            self._listener.close()
            if not self.serving.cancelled():
                self.serving.result()
        self._service.flush_log()

    async def _serve(self) -> None:
        resuming = asyncio.create_task(self._service.resumed())
        try:
            await asyncio.wait({resuming}, timeout=self._loaded_within)
        finally:
            resuming.cancel()
        await asyncio.to_thread(_load)
        self._server = self._make_server()
        self._is_up.set()
        await self._server.serve([self._listener])

    def _make_server(self) -> "Server":
        from scheduler_service.http_server.server import Server

        settings = self._settings
        server = Server(
            _application_of(self._service.api, settings, self._log),
            log=self._log,
            most=self._connections,
            head_seconds=settings.limits.head_seconds,
        )
        self._service.telemetry.show_connections("api", server.connections)
        return server


def _load() -> None:
    """Imports what the API is made of, and JSON Schema: what the loop imports after that is there already."""
    with short_turns():
        import scheduler_service.api.application
        import scheduler_service.console.application
        import scheduler_service.engine.parameters  # the engine has it of a first schema
        import scheduler_service.http_server.server  # noqa: F401


def _application_of(api: ASGIApp, settings: Settings, log: Log) -> ASGIApp:
    """The API, with a line of the log for each request where the settings ask for it."""
    if not settings.log.access:
        return api
    from scheduler_service.api.access_log import AccessLog

    return AccessLog(app=api, log=log)
