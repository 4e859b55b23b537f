"""A server over listening sockets: accepts where there is a descriptor, and ends when it is told to."""

import asyncio
import errno
import socket
import time
from collections.abc import Callable, Iterable
from email.utils import formatdate
from functools import partial

from scheduler_service.http_server.connections import STALL_SECONDS, Connections
from scheduler_service.http_server.protocol import Asgi, HttpProtocol, ServedSite
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_summaries import Tally

MOST_AT_ONCE = 32
"""Connections accepted in one round of the loop: a flood of them does not hold up what else is due."""

PAUSE_SECONDS = 0.05
CUT_OFF_SECONDS = 1.0
MALFORMED_SECONDS = 60.0
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
# Faults of the listening socket itself: it stays readable, and the next accept fails in the same way.
LISTENER_FAULTS = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}


class Server:
    """Serves an ASGI application on sockets that listen already.

    At most `most` connections at the same time; a head is to be complete within `head_seconds`, and the next
    request to begin within `idle_seconds`. One of which nothing comes, or of whose answer nothing is read,
    ends after `stall_seconds`. Made and used within a running loop.
    """

    def __init__(
        self,
        app: Asgi,
        *,
        log: Log,
        most: int = 1_000,
        head_seconds: float = 10.0,
        idle_seconds: float = 30.0,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self.connections = Connections(
            most=most,
            head_seconds=head_seconds,
            idle_seconds=idle_seconds,
            stall_seconds=stall_seconds,
            log=log,
        )
        self._exhausted = Tally("descriptors_exhausted", log=log)
        self._malformed = Tally("requests_malformed", log=log, line_seconds=MALFORMED_SECONDS)
        self._faults = Tally("requests_failed", log=log)
        self.site = ServedSite(
            app,
            connections=self.connections,
            malformed=self._malformed,
            faults=self._faults,
            date=make_date(),
        )
        self._asked_to_end = asyncio.Event()

    async def serve(self, sockets: Iterable[socket.socket]) -> None:
        """Accepts from `sockets` until it is asked to end, and returns when what is being answered is.

        Connections without a request, and those whose request is not complete, are closed at once.
        """
        acceptors = [Acceptor(one, self.site, exhausted=self._exhausted) for one in sockets]
        try:
            await self._asked_to_end.wait()
        finally:
            for acceptor in acceptors:
                acceptor.close()
        await asyncio.gather(*(acceptor.wait_closed() for acceptor in acceptors))
        await self.connections.end()
        await asyncio.gather(*self.site.tasks, return_exceptions=True)

    def ask_to_end(self) -> None:
        """Ends `serve` once what is being answered is. Called on the loop's thread."""
        self._asked_to_end.set()

    async def end(self, serving: "asyncio.Task[None]", *, seconds: float) -> None:
        """Ends `serving`, the task of `serve`: what is not answered within `seconds` is cut off."""
        self.ask_to_end()
        await asyncio.wait({serving}, timeout=seconds)
        for connection in [*self.connections.open]:
            connection.cut()
        await asyncio.wait({serving}, timeout=CUT_OFF_SECONDS)
        if serving.done():
            serving.result()
        serving.cancel()  # what hangs now is no connection
        for tally in (self._malformed, self._faults, self._exhausted):
            tally.flush()


class Acceptor:
    """Hands each connection of `listener` to a protocol over `site`, until `close`.

    Where there is no descriptor, the server of uvloop accepts what waits and drops it without a word. Here it
    goes on waiting, the oldest connection without a request gives way, and accepting goes on 50 ms later, as
    after a fault of the listening socket itself.
    """

    def __init__(self, listener: socket.socket, site: ServedSite, *, exhausted: Tally) -> None:
        self._listener = listener
        self._site = site
        self._exhausted = exhausted
        self._attaching: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._resume()

    def close(self) -> None:
        """Accepts nothing any more, and closes the listening socket."""
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._site.loop.remove_reader(self._listener.fileno())
        self._listener.close()

    async def wait_closed(self) -> None:
        """Returns when what was accepted has its protocol."""
        await asyncio.gather(*self._attaching)

    def _resume(self) -> None:
        self._pause = None
        self._site.loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        """Accepts what waits, up to `MOST_AT_ONCE`."""
        for _ in range(MOST_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._exhausted.count("accept", error=error.strerror)
                    self._site.connections.shed("noDescriptor")
                    self._wait()
                elif error.errno in LISTENER_FAULTS:
                    self._exhausted.count("listener", error=error.strerror)
                    self._wait()
                return  # else it is the fault of one connection, which is gone with it (accept(2))
            accepted.setblocking(False)
            attaching = self._site.loop.create_task(self._attach(accepted))
            self._attaching.add(attaching)
            attaching.add_done_callback(self._attaching.discard)

    def _wait(self) -> None:
        self._site.loop.remove_reader(self._listener.fileno())
        self._pause = self._site.loop.call_later(PAUSE_SECONDS, self._resume)

    async def _attach(self, accepted: socket.socket) -> None:
        try:
            await self._site.loop.connect_accepted_socket(partial(HttpProtocol, self._site), accepted)
        except OSError:
            accepted.close()  # the peer has gone already


def make_date() -> Callable[[], bytes]:
    """Gives the line of the header Date, which is written anew once a second."""
    written_at, line = 0, b""

    def write() -> bytes:
        nonlocal written_at, line
        now = int(time.time())
        if now != written_at:
            written_at, line = now, b"date: %b\r\n" % formatdate(now, usegmt=True).encode()
        return line

    return write
