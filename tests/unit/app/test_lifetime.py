"""The life of a service from its socket to its drain."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from scheduler_service.app.lifetime import ApiServer, serve
from scheduler_service.app.listener import listen
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.settings import LoadedSettings, Settings, load_settings
from scheduler_service.telemetry.loop_watch import THREAD

PATIENCE = 30


def _ignore(event: str, /, **keys: object) -> None:
    """A log that nobody reads."""


class EndlessStart:
    """A service that is told to stop while it starts, which takes for ever."""

    def __init__(self) -> None:
        self.telemetry = Telemetry(settings=Settings(), log=_ignore)
        self.api = FastAPI()
        self.stopped = False

    async def resumed(self) -> None:
        pass

    async def start(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.get_running_loop().create_future()

    def describe(self) -> Mapping[str, Mapping[str, object]]:
        return {}

    def processes(self) -> Iterable[int]:
        return ()

    async def stop(self, grace: int) -> None:
        self.stopped = True

    def flush_log(self) -> None:
        pass


async def test_a_signal_ends_a_start() -> None:
    """A start that waits for something, as for a worker process that dies again and again, can be ended."""
    service = EndlessStart()
    began = []

    async def opening(loaded: LoadedSettings, *, served: str, log: Log) -> EndlessStart:
        return service

    async def begin(served: str) -> None:
        began.append(served)

    loaded = load_settings({"server.port": 0}, {})
    await serve(loaded, log=lambda event, /, **keys: None, opening=opening, began=begin)
    assert service.stopped
    assert began == []


class Held(EndlessStart):
    """A service with a request that waits for `release`; it is told to stop when that has come."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__()
        self.fault = fault
        self.has_flushed = False
        self.held = asyncio.Event()
        self.release = asyncio.Event()
        self.api.add_api_route("/held", self.hold)

    async def hold(self) -> str:
        self.held.set()
        await self.release.wait()
        return "ok"

    async def start(self) -> None:
        pass

    async def stop(self, grace: int) -> None:
        if self.fault is not None:
            self.release.set()
            raise self.fault

    def flush_log(self) -> None:
        assert self.release.is_set()
        self.has_flushed = True

    async def open(self, loaded: LoadedSettings, *, served: str, log: Log) -> "Held":
        return self

    async def serve(self) -> None:
        """Asks, then stops."""
        loaded = load_settings(
            {"server.port": 0, "server.drain_seconds": 600, "limits.head_seconds": 600}, {}
        )
        await serve(loaded, log=lambda event, /, **keys: None, opening=self.open, began=self.begin)

    async def begin(self, served: str) -> None:
        port = int(served.rpartition(":")[2])
        self.idle, self.other = await asyncio.open_connection("127.0.0.1", port)
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        self.writer.write(b"GET /held HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await self.held.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    async def close(self) -> None:
        """Closes the connections of its callers."""
        for writer in (self.writer, self.other):
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_a_second_signal_ends_the_waiting_for_callers() -> None:
    """Also after the drain, while an answer is waited for."""
    service = Held()

    async def hurry() -> None:
        await service.held.wait()
        assert await service.idle.read() == b"", "the API has begun to end"
        os.kill(os.getpid(), signal.SIGTERM)

    others = asyncio.all_tasks()
    hurrying = asyncio.create_task(hurry())
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(SystemExit) as caught:
            await service.serve()
        assert caught.value.code == 1
        await hurrying
        service.release.set()
        await asyncio.gather(*(asyncio.all_tasks() - others), return_exceptions=True)
    await service.close()


async def test_a_drain_that_fails_ends_the_api_too() -> None:
    """What it raised is raised when the last caller has gone."""
    service = Held(StoreUnavailable("the history is away"))
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(StoreUnavailable, match="is away"):
            await service.serve()
        assert service.has_flushed, "what the API sums up in the log is written after its last answer"
        assert (await service.reader.read()).startswith(b"HTTP/1.1 200"), "and then its connection ends"
    await service.close()


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector of this process as it was: a service that has started freezes its own."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)


def watches() -> set[threading.Thread]:
    """The threads that look after a loop."""
    return {thread for thread in threading.enumerate() if thread.name == THREAD}


class WatchedDrain(EndlessStart):
    """A service that starts, and notes who watches the loop while it drains."""

    watched: set[threading.Thread]

    async def start(self) -> None:
        """Has started."""

    async def stop(self, grace: int) -> None:
        for watch in watches():
            await asyncio.to_thread(watch.join, 0.2)  # one that was told to end does so at once
        self.watched = watches()


@pytest.mark.usefixtures("collector")
async def test_the_loop_is_watched_until_the_drain_has_ended() -> None:
    """What holds the loop then is named like anything else."""
    service, before = WatchedDrain(), watches()

    async def opening(loaded: LoadedSettings, *, served: str, log: Log) -> WatchedDrain:
        return service

    async def begin(served: str) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    loaded = load_settings({"server.port": 0}, {})
    await serve(loaded, log=lambda event, /, **keys: None, opening=opening, began=begin)
    [watch] = service.watched - before
    await asyncio.to_thread(watch.join, 30)
    assert not watch.is_alive()


ROUNDS = 5


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
