"""Opens connections: the guard admits their addresses, and over TLS a certificate matches the URL's host."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from ipaddress import IPv4Address

from client_sdk.trust import explain_tls
from scheduler_service.pacing.waiting_room import Room
from scheduler_service.transport.addresses import Address, Site
from scheduler_service.transport.client_certificates import ClientCertificates
from scheduler_service.transport.connection import (
    ConnectionOwner,
    Deadlines,
    HttpConnection,
    ReadBuffer,
    make_prober,
)
from scheduler_service.transport.egress_guard import Guard, Route
from scheduler_service.transport.errors import (
    ConnectFailed,
    MachineExhausted,
    Unreached,
    has_descriptor,
    is_exhausted,
)

_CONNECT_SECONDS = 5.0  # for one of several addresses, so that a dead first one leaves time for the next

TLS_RECEIVE_BYTES = 32 << 10
"""So much, or twice that, the system takes in of an answer over TLS before it is read.

The layer of TLS reads up to 256 KiB whenever as much has come, and keeps them twice, for as long as the
connection is open. Without TLS one buffer serves all connections.
"""


class Connector:
    """Opens connections that read at most `response_bytes` of an answer, large ones as there is `room`.

    `trust` makes the TLS context; it is called at the first connection that needs one, and once more where
    its certificates could not be read. Origins of `certificates` have contexts of their own.
    """

    def __init__(
        self,
        *,
        guard: Guard,
        deadlines: Deadlines,
        trust: Callable[[], ssl.SSLContext],
        response_bytes: int,
        room: Room,
        certificates: ClientCertificates | None = None,
    ) -> None:
        self._certificates = certificates
        self._guard = guard
        self._deadlines = deadlines
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._response_bytes = response_bytes
        self._room = room
        self._buffer = ReadBuffer()
        self._make_probe = make_prober()

    async def connect(self, route: Route, owner: ConnectionOwner) -> HttpConnection:
        """A new connection of `owner`; the admitted addresses are tried in turn.

        Raises RefusedTarget, Exhausted, or the last Unreached.
        """
        addresses = await self._guard.admit(route)
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._connect(route.site, address, owner)
            except MachineExhausted:
                raise
            except (ConnectFailed, TimeoutError):
                continue
        return await self._connect(route.site, addresses[-1], owner)

    async def _connect(self, site: Site, address: Address, owner: ConnectionOwner) -> HttpConnection:
        family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
        raw = _make_socket(family, site)
        try:
            await _reach(raw, (str(address), site.port))
            return await self._attach(site, raw, owner)
        except OSError as error:
            raw.close()
            raise Unreached(f"{site.origin} cannot be reached: {_reason(error)}") from error
        except BaseException:
            raw.close()
            raise

    async def _attach(self, site: Site, raw: socket.socket, owner: ConnectionOwner) -> HttpConnection:
        """Attaches the protocol to a connected socket."""
        connection = HttpConnection(
            origin=site.origin,
            owner=owner,
            deadlines=self._deadlines,
            limit=self._response_bytes,
            is_silent=self._make_probe(raw),
            buffer=self._buffer,
            room=self._room,
        )
        loop = asyncio.get_running_loop()
        if site.scheme == "https":
            context = self._find_certificate(site) or self._context or self._read_trust(site)
            with contextlib.suppress(OSError):  # it is closed already, as attaching it will show
                # Not before it is connected: the two ends have agreed how wide it can become.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TLS_RECEIVE_BYTES)
            await loop.create_connection(lambda: connection, sock=raw, ssl=context, server_hostname=site.host)
        else:
            await loop.create_connection(lambda: connection, sock=raw)
        return connection

    def _find_certificate(self, site: Site) -> ssl.SSLContext | None:
        return None if self._certificates is None else self._certificates.find(site.origin)

    def _read_trust(self, site: Site) -> ssl.SSLContext:
        """A context, kept if it has certificates. Raises Exhausted, OSError.

        OpenSSL reports no error when it cannot open its file of certificates.
        It reads those of a folder later.
        """
        try:
            context = self._trust()
        except OSError as error:
            if is_exhausted(error):
                raise _exhausted(site, str(error.strerror)) from error
            raise
        if context.cert_store_stats()["x509_ca"]:
            self._context = context
        elif not has_descriptor():
            raise _exhausted(site, "no certificates could be read")
        return context


async def _reach(raw: socket.socket, address: tuple[str, int]) -> None:
    """Connects to a numeric address, without the threads in which a loop looks up names. Raises OSError."""
    try:
        raw.connect(address)
    except BlockingIOError:
        pass
    else:
        return
    loop, number = asyncio.get_running_loop(), raw.fileno()
    writable: asyncio.Future[None] = loop.create_future()
    loop.add_writer(number, _settle, writable)
    try:
        await writable
    finally:
        loop.remove_writer(number)
    error = raw.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))


def _settle(writable: "asyncio.Future[None]") -> None:
    if not writable.done():
        writable.set_result(None)


def _make_socket(family: socket.AddressFamily, site: Site) -> socket.socket:
    """A socket that does not block. Raises Exhausted, Unreached."""
    try:
        raw = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        kind = MachineExhausted if is_exhausted(error) else Unreached
        raise kind(f"{site.origin} cannot be reached: {error.strerror}. Raise LimitNOFILE.") from error
    raw.setblocking(False)
    return raw


def _exhausted(site: Site, cause: str) -> MachineExhausted:
    return MachineExhausted(f"{site.origin} cannot be reached: {cause}. Raise LimitNOFILE.")


def _reason(error: OSError) -> str:
    """What went wrong, and the remedy. Failures of TLS have numbers of their own, which no system words."""
    return explain_tls(error) or f"{error.strerror or str(error) or type(error).__name__}. Is it up?"
