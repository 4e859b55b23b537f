"""The API of a service is loaded when its calls in flight are out, and until then callers wait."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler_service.app.lifetime import ApiServer
from scheduler_service.app.listener import listen
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.settings import Settings

PATIENCE = 30
ROUNDS = 5


def _ignore(event: str, /, **keys: object) -> None:
    """A log that nobody reads."""


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """An application."""
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


class Resuming:
    """A service whose calls are out when `out` is set."""

    def __init__(self) -> None:
        self.telemetry = Telemetry(settings=Settings(), log=_ignore)
        self.out = asyncio.Event()
        self.asked = False
        self.flushed = False

    @property
    def api(self) -> ASGIApp:
        self.asked = True
        return answer

    async def resumed(self) -> None:
        await self.out.wait()

    def flush_log(self) -> None:
        self.flushed = True


def serving(service: Resuming, listener: socket.socket, *, loaded_within: float) -> ApiServer:
    """The API of `service`."""
    return ApiServer(
        service=service,
        listener=listener,
        settings=Settings(),
        connections=10,
        log=_ignore,
        loaded_within=loaded_within,
    )


async def test_a_caller_waits_until_the_calls_are_out() -> None:
    """It is not refused meanwhile, and is answered then."""
    service, listener = Resuming(), listen("127.0.0.1", 0)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    server = serving(service, listener, loaded_within=3600)
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        for _ in range(ROUNDS):
            await asyncio.to_thread(int)  # behind the import, had it been begun: there is one thread
        assert not service.asked
        service.out.set()
        await server.up()
        assert (await reader.read()).startswith(b"HTTP/1.1 204")
        writer.close()
        await server.end(seconds=1)
    assert service.flushed


async def test_it_does_not_wait_for_ever() -> None:
    """Who asks whether the process lives gets an answer, however many calls there are."""
    service, listener = Resuming(), listen("127.0.0.1", 0)
    server = serving(service, listener, loaded_within=0.01)
    async with asyncio.timeout(PATIENCE):
        await server.up()
        assert not service.out.is_set()
        await server.end(seconds=1)


async def test_an_end_before_it_was_loaded_closes_the_listener() -> None:
    """A process that is told to stop while it sends calls again need not load the API first."""
    service, listener = Resuming(), listen("127.0.0.1", 0)
    server = serving(service, listener, loaded_within=3600)
    async with asyncio.timeout(PATIENCE):
        await server.end(seconds=1)
    assert not service.asked
    assert listener.fileno() == -1
