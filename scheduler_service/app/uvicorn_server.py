"""Uvicorn as this service uses it: its own listeners, limited connections, an end that others decide."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import uvicorn

from scheduler_service.app.acceptor import Acceptor
from scheduler_service.app.api_protocol import ApiProtocol
from scheduler_service.app.connections import Connections
from scheduler_service.app.limited_protocol import STALL_SECONDS
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.tally import Tally

CUT_OFF_SECONDS = 1.0
MALFORMED_SECONDS = 60.0
DATE_SECONDS = 1.0
"""The unit of the header Date."""


def until_next_date(now: float) -> float:
    """The seconds from `now` (since the epoch) to the moment at which the header Date changes; above 0."""
    return DATE_SECONDS - now % DATE_SECONDS


class Server(uvicorn.Server):
    """Uvicorn, whose end is decided by the service and not by the signal itself.

    Its listeners accept by `Acceptor`, and `connections` are limited; `malformed` counts refused requests,
    `faults` failed ones. A caller that stands still for `stall_seconds` is cut off.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        connections: Connections,
        exhausted: Tally,
        malformed: Tally,
        faults: Tally,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        super().__init__(config)
        self.connections = connections
        self._exhausted = exhausted
        self._malformed = malformed
        self._faults = faults
        self._stall_seconds = stall_seconds
        self._asked_to_end = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts from `sockets`."""
        make_protocol = partial(
            ApiProtocol,
            open_connections=self.connections,
            malformed=self._malformed,
            faults=self._faults,
            stall_seconds=self._stall_seconds,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=asyncio.get_running_loop(),
        )
        self.servers: list[Any] = [
            Acceptor(one, make_protocol, connections=self.connections, exhausted=self._exhausted)
            for one in sockets or ()
        ]
        self.started = True

    async def main_loop(self) -> None:
        """Until it is asked to end; uvicorn by itself looks for that ten times a second.

        Where `should_exit` alone is set, it ends within a second.
        """
        while not await self.on_tick(0):  # writes the date of the answers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._asked_to_end.wait(), until_next_date(time.time()))

    def ask_to_end(self) -> None:
        """Ends `serve` once what is being answered is. Called on the loop's thread."""
        self.should_exit = True
        self._asked_to_end.set()

    async def end(self, serving: "asyncio.Task[None]", *, seconds: float) -> None:
        """Ends `serving`, the task of `serve`: what is not answered within `seconds` is cut off.

        Connections without a request, and those whose request is not complete, are closed at once.
        """
        self.ask_to_end()
        await asyncio.wait({serving}, timeout=seconds)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.wait({serving}, timeout=CUT_OFF_SECONDS)
        self.force_exit = True  # what hangs now is no connection
        await serving
        self._malformed.flush()
        self._faults.flush()
        self._exhausted.flush()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves the signals alone."""
        yield


def make_server(
    app: Any,
    *,
    log: Log,
    connections: int = 1_000,
    head_seconds: float = 10.0,
    keep_alive_seconds: int = 30,
    stall_seconds: float = STALL_SECONDS,
) -> Server:
    """A server for an ASGI application over a socket that listens already.

    At most so many `connections` at the same time; a head is to be complete within `head_seconds`. A request
    of which nothing comes, or an answer of which nothing is read, ends after `stall_seconds`.
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
        date_header=True,
        timeout_keep_alive=keep_alive_seconds,
    )
    limited = Connections(
        most=connections, head_seconds=head_seconds, idle_seconds=keep_alive_seconds, log=log
    )
    return Server(
        config,
        connections=limited,
        exhausted=Tally("descriptors_exhausted", log=log),
        malformed=Tally("requests_malformed", log=log, line_seconds=MALFORMED_SECONDS),
        faults=Tally("requests_failed", log=log),
        stall_seconds=stall_seconds,
    )
