"""Connections that cannot be accepted for want of descriptors."""

import asyncio
import errno
import os
import socket
from typing import Any

import pytest

from scheduler_service.app.acceptor import Acceptor
from scheduler_service.app.connections import Connections
from scheduler_service.telemetry.tally import Tally
from tests.rows import each_row


@pytest.fixture(params=["uvloop", pytest.param("asyncio", marks=pytest.mark.long)])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Uvloop; for `--long` asyncio's own loop, too."""
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


class Starved(socket.socket):
    """A listener whose accepts fail as long as `errors` are left."""

    errors: list[int]

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts, or raises the next error."""
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))
        return super().accept()


class Silent:
    """A connection without a request."""

    is_cut = False

    def cut(self) -> None:
        self.is_cut = True


@each_row("number", [errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EPROTO, errno.EBADF, errno.EINVAL])
async def test_accepting_goes_on(number: int) -> None:
    """The connection waits in the listener's queue; the oldest silent one gives way where that may help."""
    lines: list[str] = []
    connections = Connections(
        most=9, head_seconds=10, idle_seconds=30, log=lambda event, **keys: lines.append(event)
    )
    silent = Silent()
    connections.admit(silent)
    made: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    class Greeter(asyncio.Protocol):
        """Ends each connection at once."""

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.close()
            made.set_result(None)

    with Starved(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.errors = [number] * 2
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)
        listener.setblocking(False)
        exhausted = Tally("descriptors_exhausted", log=lambda event, **keys: lines.append(event))
        acceptor = Acceptor(listener, Greeter, connections=connections, exhausted=exhausted)
        try:
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            async with asyncio.timeout(30):
                await made
                assert await reader.read() == b""
            writer.close()
        finally:
            acceptor.close()
            await acceptor.wait_closed()
    is_short = number in (errno.EMFILE, errno.ENFILE)
    assert silent.is_cut is is_short
    is_broken = number in (errno.EBADF, errno.EINVAL)
    assert exhausted.counts == ({"accept": 2} if is_short else {"listener": 2} if is_broken else {})
    assert ("connections_closed" in lines) is is_short
    assert ("descriptors_exhausted" in lines) is (is_short or is_broken)
