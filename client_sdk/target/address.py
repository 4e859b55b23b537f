"""Finds the address at which the scheduler reaches this process (SPEC section 16)."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from client_sdk.client.connection import read_url
from client_sdk.target.messages import Scope

LOG = logging.getLogger("client_sdk")
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
TRIES_BEFORE_WARNING = 8
OPEN_FILES = "/dev/fd"
HAS_NO_TIMEOUT = getattr(socket, "SOCK_NONBLOCK", 0)
"""Keeps socket.socket from giving a socket the default timeout, which would make it non-blocking."""
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - recognised, not listened on
UNKNOWN = "its port is not known; give port=… or address=… to the Service"
LOOPBACK = "it listens on loopback alone, where the scheduler cannot reach it; let its server listen on %s"


class ListeningSocket(NamedTuple):
    """A socket on which this process takes connections."""

    host: str
    port: int


class OwnAddress:
    """The address of this process, `known` as soon as it is found.

    Its host is the one from which `scheduler` is reached, unless the server listens on another one. Its port
    is `port`, else that of the only socket on which this process listens, else the one of the first request.
    A server that opens its socket after the application has started is waited for. Raises ValueError for an
    address that no connection can reach.
    """

    def __init__(
        self,
        *,
        name: str,
        given: str | None,
        port: int | None,
        scheduler: str,
        listeners: Callable[[], set[ListeningSocket]] | None = None,
        find_own: Callable[[str], Awaitable[str | None]] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if given is not None:
            read_url(given)
        self.known = given
        self._name = name
        self._port = port
        self._scheduler = scheduler
        self._listeners = listeners or find_listeners
        self._find_own = find_own or find_host
        self._pause = pause
        self._why = UNKNOWN

    async def find(self) -> str | None:
        """The address; None: it cannot be found yet."""
        if self.known is None:
            self.known = await self._look()
        return self.known

    async def wait(self) -> None:
        """Returns when the address is known; warns if that takes long."""
        tries, pause = 0, FIRST_PAUSE
        while await self.find() is None:
            tries += 1
            if tries == TRIES_BEFORE_WARNING:
                LOG.warning("%s is not registered yet: %s", self._name, self._why)
            await self._pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def learn(self, scope: Scope) -> None:
        """Takes the port from a request, if it is not known otherwise."""
        server = scope.get("server")
        if self.known is None and self._port is None and server and server[1]:
            self._port = int(server[1])

    async def _look(self) -> str | None:
        host, port = None, self._port
        if port is None:
            found = self._listeners()
            if len(found) != 1:
                return None
            [(host, port)] = found
        own = await self._find_own(self._scheduler)
        if host is None or host in WILDCARDS:
            host = own
        elif own is not None and ip_address(host).is_loopback and not ip_address(own).is_loopback:
            self._why = LOOPBACK % own
            return None
        return None if host is None else f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def find_host(url: str) -> str | None:
    """The address of this machine from which `url` is reached; nothing is sent. None: it has no way there."""
    parts = urlsplit(url)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM
        )
    except OSError:
        return None
    for family, kind, _, _, place in sorted(found, key=lambda one: one[0] != socket.AF_INET):
        try:
            with socket.socket(family, kind) as probe:
                probe.connect(place)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def find_listeners() -> set[ListeningSocket]:
    """The sockets on which this process listens for TCP; looking at them changes none.

    Empty where the system does not show them, or cannot without changing them.
    """
    if not HAS_NO_TIMEOUT and socket.getdefaulttimeout() is not None:  # neither Linux nor BSD
        return set()
    try:
        numbers = [int(file.name) for file in Path(OPEN_FILES).iterdir()]
    except OSError:
        return set()
    return {found for number in numbers if (found := _read_listener(number))}


def _read_listener(number: int) -> ListeningSocket | None:
    try:
        copy = os.dup(number)
    except OSError:
        return None
    try:
        # The copy has the original's flags: what changes them here changes them for their user.
        one = socket.socket(type=socket.SOCK_STREAM | HAS_NO_TIMEOUT, fileno=copy)
    except OSError:  # it is no socket
        os.close(copy)
        return None
    with one:
        is_inet = one.family in (socket.AF_INET, socket.AF_INET6)
        if not is_inet or not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return None
        place: Any = one.getsockname()
        return ListeningSocket(str(place[0]), int(place[1]))
