"""Accepts the connections of a listening socket, and goes on where there is no descriptor for one."""

import asyncio
import errno
import socket
from collections.abc import Callable

from scheduler_service.app.connections import Connections
from scheduler_service.telemetry.tally import Tally
from scheduler_service.transport.errors import is_exhausted

# In one round of the loop, so that a flood of connections does not hold up what else is due.
MOST_AT_ONCE = 32

PAUSE_SECONDS = 0.05

# Faults of the listening socket itself: it stays readable, and the next accept fails in the same way.
LISTENER_FAULTS = {errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}


class Acceptor:
    """Hands each connection of `listener` to a protocol of `make_protocol`, until `close`.

    Where there is no descriptor, the server of uvloop accepts what waits and drops it without a word. Here it
    goes on waiting, the oldest connection without a request gives way, and accepting goes on 50 ms later, as
    after a fault of the listening socket itself.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        *,
        connections: Connections,
        exhausted: Tally,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._connections = connections
        self._exhausted = exhausted
        self._loop = asyncio.get_running_loop()
        self._attaching: set[asyncio.Task[object]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._resume()

    def close(self) -> None:
        """Accepts nothing any more, and closes the listening socket."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pause is not None:
            self._pause.cancel()
        else:
            self._loop.remove_reader(self._listener.fileno())
        self._listener.close()
        self._connections.close()

    async def wait_closed(self) -> None:
        """Returns when what was accepted has its protocol."""
        await asyncio.gather(*self._attaching, return_exceptions=True)

    def _resume(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        """Accepts what waits, up to `MOST_AT_ONCE`."""
        for _ in range(MOST_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if is_exhausted(error):
                    self._exhausted.count("accept", error=error.strerror)
                    self._connections.shed("noDescriptor")
                    self._wait()
                elif error.errno in LISTENER_FAULTS:
                    self._exhausted.count("listener", error=error.strerror)
                    self._wait()
                return  # else it is the fault of one connection, which is gone with it (accept(2))
            accepted.setblocking(False)
            attaching = self._loop.create_task(self._attach(accepted))
            self._attaching.add(attaching)
            attaching.add_done_callback(self._attaching.discard)

    def _wait(self) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._pause = self._loop.call_later(PAUSE_SECONDS, self._resume)

    async def _attach(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, accepted)
        except OSError:
            accepted.close()  # the peer has gone already
