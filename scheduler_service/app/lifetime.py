"""Runs a service until it is told to stop: the socket, its API, the signals, the drain."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import uvloop
from starlette.types import ASGIApp

from scheduler_service.api import CONSOLE
from scheduler_service.api.authentication import is_loopback
from scheduler_service.app.base_service import RunningService
from scheduler_service.app.data_folder import are_keys_made
from scheduler_service.app.egress import log_egress
from scheduler_service.app.listener import address_of, listen
from scheduler_service.app.local_service import open_service
from scheduler_service.app.process_setup import divide, freeze_memory, process_log, raise_limit
from scheduler_service.domain.moments import SECOND
from scheduler_service.pacing.interpreter import short_turns
from scheduler_service.ports.log import Log
from scheduler_service.security.trusted_proxies import find_widest
from scheduler_service.settings import LoadedSettings, Settings, SettingsError
from scheduler_service.telemetry.loop_watch import watching
from scheduler_service.telemetry.sigusr1_report import SignalReports

if TYPE_CHECKING:
    from scheduler_service.http_server.server import Server

MOST_NAMED = 10
"""So many files are named where there are more."""
LOADED_WITHIN_SECONDS = 10.0
"""However many calls there are to send again: whoever asks whether the process lives does not wait longer."""

LAST_ANSWERS_SECONDS = 1.0
"""What callers have to read their last answers where the drain took all of its time."""
OnListening = Callable[[str], Awaitable[None]]


class OpenService(Protocol):
    """Opens a service; nothing fires before its `start`."""

    async def __call__(self, loaded: LoadedSettings, *, served: str, log: Log) -> RunningService:
        """Raises StoreError, SettingsError."""


def run_service(loaded: LoadedSettings, *, begins_anew: bool = False) -> None:
    """`punctual serve`; `begins_anew`: without jobs, where the state of those in its history is missing.

    Raises SettingsError and StoreError where it cannot start.
    """
    with process_log(loaded.settings) as log:
        opening = partial(open_service, begins_anew=begins_anew)
        uvloop.run(through_hangups(serve(loaded, log=log, opening=opening), log=log))


async def through_hangups(work: Awaitable[None], *, log: Log) -> None:
    """Awaits `work`; SIGHUP, of a terminal that closes or of a supervisor, is a line of the log meanwhile."""
    note = "the service goes on; settings are read at its start alone: restart it to change them"
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, lambda: log("hangup_ignored", note=note))
    await work


async def serve(
    loaded: LoadedSettings,
    *,
    log: Log,
    began: OnListening | None = None,
    opening: OpenService = open_service,
    listeners: int = 1,
) -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal ends the waiting.

    `began` is awaited with the served address once the service answers and fires; `opening` opens the
    service, which has so many `listeners` with that of the API. SIGUSR1 writes into
    the log what the process and its worker processes are doing.
    """
    reports = SignalReports(log=log)
    try:
        await _serve(loaded, opening, log, reports, began, listeners)
    finally:
        reports.stop()


async def _serve(
    loaded: LoadedSettings,
    opening: OpenService,
    log: Log,
    reports: SignalReports,
    began: OnListening | None,
    listeners: int,
) -> None:
    settings = loaded.settings
    await asyncio.to_thread(check_exposure, settings)
    log_egress(loaded, log)
    if loaded.passed_over:
        note = "an orchestrator's, for a Service of this name: no settings, which have two underscores"
        log("variables_ignored", variables=list(loaded.passed_over), note=note)
    if exposed := loaded.exposed_files():
        note = "every user of this machine can read these secrets; chmod o-r"
        log("files_exposed", files=exposed[:MOST_NAMED], note=note)
    shares = divide(raise_limit(log), listeners=listeners, connections=settings.limits.connections)
    listener = listen(settings.server.host, settings.server.port)
    served = address_of(settings, listener, log=log)
    with contextlib.ExitStack() as failing:
        failing.callback(listener.close)
        service = await opening(loaded, served=served, log=log)
        failing.pop_all()
    reports.parts, reports.others = service.describe, service.processes
    server = ApiServer(service=service, listener=listener, settings=settings, connections=shares.api, log=log)
    signals = EndSignals()
    watched = contextlib.ExitStack()  # from the start to the end of the drain
    try:
        if await _start(service, server, signals):
            freeze_memory()
            log("listening", url=served, console=f"{served}{CONSOLE}/")
            shown = service.telemetry
            watched.enter_context(watching(log, shown.standstills, note_lag=shown.note_lag))
            if began is not None:
                await began(served)
            await signals.wait_for_stop(server.serving)
    finally:
        with watched:
            await _stop(service, server, signals, settings)


def check_exposure(settings: Settings) -> None:
    """Without a key only loopback is served (SPEC section 14): one of the settings, or one that was made.

    And who a user is nobody says from everywhere. Raises SettingsError, StoreUnavailable.
    """
    server = settings.server
    host, wide = server.host, find_widest(server.trusted_proxies)
    if server.trusted_user_header is not None and wide is not None and not is_loopback(host):
        raise SettingsError(
            f"server.trusted_proxies covers {wide}, from where anybody could write the header "
            f"{server.trusted_user_header} and be whom he likes; name the proxies' own addresses"
        )
    if settings.server.key is None and not is_loopback(host) and not are_keys_made(settings):
        raise SettingsError(
            f"server.host = {host!r} is not loopback, and no key is configured: whoever reaches it could "
            "run requests from here; set server.key (PUNCTUAL_SERVER__KEY), make a key ('punctual keys "
            "create'), or listen on 127.0.0.1"
        )


class ApiServer:
    """Serves the API of `service` on `listener`; until it does, callers wait in the listener's queue.

    What the API is made of takes a third of a start to import, and a call that is sent again needs none of
    it: so it is imported, beside the loop, when the service has `resumed`, or after `loaded_within` seconds.
    """

    def __init__(
        self,
        *,
        service: RunningService,
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
        api: ASGIApp = self._service.api
        if settings.log.access:
            from scheduler_service.api.application import AccessLog

            api = AccessLog(app=api, log=self._log)
        server = Server(
            api,
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
        import scheduler_service.console.site
        import scheduler_service.engine.params_schema  # the engine has it of a first schema
        import scheduler_service.http_server.server  # noqa: F401


class EndSignals:
    """SIGTERM and SIGINT: the first one asks for an end, the second one for an end at once."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self.hurry = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._take)

    async def wait_for_stop(self, *ends: "asyncio.Task[Any]") -> None:
        """Returns at the first signal, or when the server or what it stands on has ended by itself."""
        waiting = asyncio.create_task(self._stop.wait())
        await asyncio.wait({waiting, *ends}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def _take(self) -> None:
        if self._stop.is_set():
            self.hurry.set()
        self._stop.set()


async def _start(service: RunningService, server: ApiServer, signals: EndSignals) -> bool:
    """Whether the service fires and answers before it was told to stop. Raises StoreError."""

    async def begin() -> None:
        await service.start()
        await server.up()

    starting = asyncio.create_task(begin())
    await signals.wait_for_stop(starting, server.serving)
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    return False


async def _stop(service: RunningService, server: ApiServer, signals: EndSignals, settings: Settings) -> None:
    """Drains and ends; a second signal exits at once with 1, whatever is waited for. Raises StoreError."""
    ending = asyncio.create_task(_drain(service, server, seconds=settings.server.drain_seconds))
    hurry = asyncio.create_task(signals.hurry.wait())
    await asyncio.wait({ending, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        sys.exit(1)
    hurry.cancel()
    await ending


async def _drain(service: RunningService, server: ApiServer, *, seconds: float) -> None:
    """Readiness goes first, the API last: feedback of what still runs is taken while it may end.

    Callers that neither send nor read hold it up to the deadline of the drain at most. The API ends also
    where the drain raises.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # No `finally`: at a second signal this is cancelled, and waits for nobody any more.
    (fault,) = await asyncio.gather(service.stop(round(seconds * SECOND)), return_exceptions=True)
    await server.end(seconds=max(deadline - loop.time(), LAST_ANSWERS_SECONDS))
    if fault is not None:
        raise fault
