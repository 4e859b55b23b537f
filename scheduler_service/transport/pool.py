"""Connections kept alive, by origin: the one used last is used first, and beyond the limit callers queue."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cached_property
from ipaddress import IPv4Address

from scheduler_service.transport.addresses import Address, Site
from scheduler_service.transport.connection import HttpConnection
from scheduler_service.transport.connection_limit import ConnectionLimit, Waiter, unreached
from scheduler_service.transport.deadlines import Deadlines
from scheduler_service.transport.errors import ConnectFailed, TimedOut
from scheduler_service.transport.idle_check import make_prober
from scheduler_service.transport.resolver import Guard, Route

_CONNECT_SECONDS = 5.0  # for one of several addresses, so that a dead first one leaves time for the next


class Pool:
    """Gives connections to judged addresses.

    `connections` bounds those of one route; few of them are opened at a time, and beyond 48 none that would
    serve nobody sooner (`ConnectionLimit`). Who waits for one takes the first that stands or comes back. One
    idle for `idle_seconds` is closed, which is shorter than the keep-alive of common servers, so that few are
    closed under our hands; one older than `age_seconds` is not kept, so that a change of the name's
    addresses is followed.
    """

    def __init__(
        self,
        *,
        guard: Guard,
        deadlines: Deadlines,
        trust: Callable[[], ssl.SSLContext],
        response_bytes: int,
        connections: int,
        idle_seconds: float,
        age_seconds: float,
    ) -> None:
        self._guard = guard
        self._deadlines = deadlines
        self._trust = trust
        self._context: ssl.SSLContext | None = None
        self._make_probe = make_prober()
        self._response_bytes = response_bytes
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._age_seconds = age_seconds
        self._lines: dict[tuple[str, bool], ConnectionLimit] = {}
        self._homes: dict[HttpConnection, ConnectionLimit] = {}
        self._sweep: asyncio.TimerHandle | None = None

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """To ask for the running one takes a system call each time."""
        return asyncio.get_running_loop()

    def take(self, site: Site, trusted: bool) -> HttpConnection | None:
        """The idle connection that was used last, alive as far as this machine knows; or None."""
        line = self._lines.get((site.origin, trusted))
        if line is None or not line.idle:
            return None
        now = self._loop.time()
        while line.idle:
            connection = line.idle.pop()
            if now - connection.idle_since < self._idle_seconds and connection.is_alive():
                return connection
            connection.abandon()
        return None

    async def get(self, route: Route, deadline: float) -> HttpConnection:
        """A connection to a judged address, by `deadline`; it may take a wait in line. Raises TransportError.

        Who waits in line does so without a task and a timer of its own: of a crowd most do.
        """
        key = (route.site.origin, route.trusted)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = ConnectionLimit(route, self._loop, self._connections, self._pass_on)
        if line.has_room():
            line.opening += 1
        else:
            given = await self._queue(line, deadline)
            if given is not None:
                return given
        opened: asyncio.Task[HttpConnection] | None = None
        try:
            # A task of its own: timeouts need one, and the caller may have none.
            opened = asyncio.create_task(self._open(line, deadline))
            return await opened
        except asyncio.CancelledError:
            if opened is not None and opened.done() and not opened.cancelled() and opened.exception() is None:
                self.release(opened.result())
            raise
        finally:
            # Its error's traceback names this frame: a circle, which would keep the whole request.
            opened = None
            line.opening -= 1
            self._pass_on(line)

    def release(self, connection: HttpConnection) -> None:
        """Takes a connection back after its exchange: for the next in line, or to keep."""
        line = self._homes.get(connection)
        now = self._loop.time()
        if line is None or now - connection.opened_at > self._age_seconds:
            connection.abandon()
            return
        connection.idle_since = now
        line.count_return()
        while line.waiting:
            if line.waiting.popleft().give(connection):
                return
        line.idle.append(connection)
        if self._sweep is None:
            self._schedule()

    def lose(self, connection: HttpConnection) -> None:
        """Forgets a closed connection; its place goes to the next in line."""
        line = self._homes.pop(connection, None)
        if line is None:
            return
        line.open.discard(connection)
        if connection in line.idle:
            line.idle.remove(connection)
        self._pass_on(line)

    def close(self, reason: str) -> None:
        """Closes every connection; who waits for an answer learns `reason`."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in tuple(self._homes):
            connection.fail(reason)

    async def _queue(self, line: ConnectionLimit, deadline: float) -> HttpConnection | None:
        """A live connection, or None: then a place is ours, counted in `opening`. Raises TimedOut."""
        waiter = Waiter(line.route.site.origin, self._loop)
        line.waiting.append(waiter)
        bucket = self._deadlines.arm(waiter, deadline)
        try:
            given = await waiter.given
        except asyncio.CancelledError:
            self._leave(line, waiter)
            raise
        finally:
            bucket.discard(waiter)
        if isinstance(given, TimedOut):
            self._leave(line, waiter)
            try:
                raise given
            finally:
                del given, waiter  # its traceback names this frame, as above
        if given is not None and not given.is_alive():
            given.abandon()
            line.opening += 1
            return None
        return given

    def _leave(self, line: ConnectionLimit, waiter: Waiter) -> None:
        """Takes back a place in line, and passes on what it was just given."""
        if waiter in line.waiting:
            line.waiting.remove(waiter)  # mostly near the front: who came first runs out of time first
        elif not waiter.given.cancelled():
            given = waiter.given.result()
            if isinstance(given, HttpConnection):
                self.release(given)
            elif given is None:
                line.opening -= 1
                self._pass_on(line)

    def _pass_on(self, line: ConnectionLimit) -> None:
        """Gives free places to those in line; forgets a line without anybody."""
        while line.waiting and line.has_room():
            if line.waiting.popleft().give(None):
                line.opening += 1
        if line.is_empty():
            self._lines.pop((line.route.site.origin, line.route.trusted), None)

    async def _open(self, line: ConnectionLimit, deadline: float) -> HttpConnection:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._reach(line)
        except TimeoutError:
            raise unreached(line.route.site.origin) from None

    async def _reach(self, line: ConnectionLimit) -> HttpConnection:
        """Tries the judged addresses in turn. Raises RefusedTarget, or ConnectFailed with the last reason."""
        addresses = await self._guard.admit(line.route)
        for address in addresses[:-1]:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._connect(line, address)
            except (ConnectFailed, TimeoutError):
                continue
        return await self._connect(line, addresses[-1])

    async def _connect(self, line: ConnectionLimit, address: Address) -> HttpConnection:
        site = line.route.site
        family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
        raw = socket.socket(family, socket.SOCK_STREAM)
        raw.setblocking(False)
        try:
            await self._loop.sock_connect(raw, (str(address), site.port))
            return await self._adopt(line, raw)
        except OSError as error:
            raw.close()
            raise ConnectFailed(f"{site.origin} cannot be reached: {_reason(error)}. Is it up?") from error
        except BaseException:
            raw.close()
            raise

    async def _adopt(self, line: ConnectionLimit, raw: socket.socket) -> HttpConnection:
        """Lets the protocol take over a connected socket; with TLS, the name checked is that of the URL."""
        site = line.route.site
        connection = HttpConnection(
            origin=site.origin,
            keeper=self,
            deadlines=self._deadlines,
            limit=self._response_bytes,
            is_silent=self._make_probe(raw),
        )
        if site.scheme == "https":
            self._context = self._context or self._trust()
            await self._loop.create_connection(
                lambda: connection, sock=raw, ssl=self._context, server_hostname=site.host
            )
        else:
            await self._loop.create_connection(lambda: connection, sock=raw)
        if not connection.is_closed:
            line.open.add(connection)
            self._homes[connection] = line
        return connection

    def _schedule(self) -> None:
        self._sweep = self._loop.call_later(self._idle_seconds, self._close_idle)

    def _close_idle(self) -> None:
        self._sweep = None
        oldest = self._loop.time() - self._idle_seconds
        for line in tuple(self._lines.values()):
            while line.idle and line.idle[0].idle_since <= oldest:
                line.idle.pop(0).abandon()
        if any(line.idle for line in self._lines.values()):
            self._schedule()


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return error.strerror or str(error) or type(error).__name__
