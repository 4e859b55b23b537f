"""A worker process: an embedded host over one share of the jobs, at the end of a line to its service.

`python -m scheduler_service.app.worker DESCRIPTOR` is started by the service alone (`app.workers`).
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import uvloop

from scheduler_service.app.database import history_address
from scheduler_service.app.embedded_host import Ground, make_embedded_host
from scheduler_service.app.making import (
    limits_of,
    make_core,
    make_masking,
    make_sender,
    open_writer,
)
from scheduler_service.app.memory import freeze_memory
from scheduler_service.app.surroundings import Compiler, make_surroundings
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.core import Log
from scheduler_service.hosts.embedded import EmbeddedHost
from scheduler_service.hosts.workers import methods
from scheduler_service.hosts.workers.calls import Calls
from scheduler_service.hosts.workers.guests import AskedDirectory, AskingSender, RemoteRouter, stir_service
from scheduler_service.hosts.workers.line import Line
from scheduler_service.hosts.workers.methods import Orders
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.state.sqlite_store import SqliteStateStore
from scheduler_service.ports import Sender, StoreUnavailable
from scheduler_service.settings import Loaded, Settings
from scheduler_service.telemetry.logs import stderr_log
from scheduler_service.timing.misfire import count_missed

DONE = methods.START.write_result(None)


def main() -> None:
    """Works until the line to the service is cut."""
    # The service is told to stop, and tells its worker processes: signals of a terminal reach all of them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    uvloop.run(work(socket.socket(fileno=int(sys.argv[1])), log=stderr_log(), end=os._exit))


async def work(socket_: socket.socket, *, log: Log, end: Callable[[int], None]) -> None:
    """Serves one share over a connected socket; `end` is called with an exit code when it is cut.

    A cut without a word before it is the death of the service: then nothing may be begun any more.
    """
    worker = Worker(log=log)
    worker.line = await Line.open(
        socket_,
        serve=worker.serve,
        hear=lambda method, argument: None,
        lost=lambda: end(0 if worker.is_stopped else 1),
        log=log,
    )
    await asyncio.get_running_loop().create_future()


class Parts(msgspec.Struct, frozen=True):
    """What a worker process holds open."""

    host: EmbeddedHost
    sender: Sender
    database: HistoryDatabase
    calls: Calls


class Worker:
    """Opens, starts and stops its share when the service says so; in between it answers calls."""

    line: Line
    is_stopped = False
    _parts: Parts | None = None

    def __init__(self, *, log: Log) -> None:
        self._log = log

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises StoreError, CursorError."""
        match method:
            case methods.OPEN.name:
                await self._open(methods.OPEN.read_argument(argument))
            case methods.START.name:
                await self._start()
            case methods.STOP.name:
                await self._stop(methods.STOP.read_argument(argument))
            case methods.PING.name:
                pass
            case _:
                return await self._call(method, argument)
        return DONE

    async def _call(self, method: str, argument: bytes) -> bytes:
        if self._parts is None:
            raise StoreUnavailable("this worker process is not open")
        return await self._parts.calls.serve(method, argument)

    async def _open(self, orders: Orders) -> None:
        """Opens the share's files; nothing fires yet. Raises StoreError."""
        self._log = bind(self._log, worker=orders.share)
        self._parts = await open_share(orders, line=self.line, log=self._log)

    async def _start(self) -> None:
        """Recovers, then takes firings. Raises StoreError."""
        assert self._parts is not None, "opened before"
        await self._parts.host.start()
        freeze_memory()

    async def _stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything."""
        self.is_stopped = True
        if self._parts is None:
            return
        await self._parts.host.stop(grace)
        await self._parts.sender.close()
        self._parts.database.close()


def bind(log: Log, **known: object) -> Log:
    """The log with `known` in every line."""

    def write(event: str, /, **keys: object) -> None:
        log(event, **known, **keys)

    return write


async def open_share(orders: Orders, *, line: Line, log: Log) -> Parts:
    """The host of one share over its own file. Raises StoreError."""
    settings = Settings.model_validate_json(orders.settings)
    loaded = Loaded(settings, orders.sources, orders.has_file)
    folder = Path(settings.store.data)
    store = await SqliteStateStore.open(
        folder=folder, durability=settings.store.durability, node_id=orders.node, share=orders.share
    )
    surroundings = msgspec.structs.replace(
        make_surroundings(settings.model_copy(update={"env_file": None}), orders.served),
        environment=orders.environment,
    )
    compiler = Compiler(
        defaults=settings.defaults, surroundings=surroundings, history_detail=settings.history.detail
    )
    database = await asyncio.to_thread(
        HistoryDatabase, url=history_address(settings, folder), durability=settings.store.durability
    )
    directory = AskedDirectory(line=line)
    sender = AskingSender(
        sender=make_sender(loaded, orders.served, directory=directory, system={}), directory=directory
    )
    writer = open_writer(store, database, log)
    clock = SystemClock(skew=orders.skew, on_step=store.save_clock_skew)
    host = make_embedded_host(
        Ground(
            core=make_core(compiler),
            store=store,
            history=writer,
            sender=sender,
            router=RemoteRouter(line=line),
            stir=lambda write: stir_service(line, write),
            clock=clock,
            redact=make_masking(settings).redact_all,
            count=count_missed,
            log=log,
            holder=Holder(store.node_id, f"{store.boot}-{os.getpid()}"),
            boot=store.boot,
            limits=limits_of(settings),
        )
    )
    calls = Calls(
        host=host,
        store=store,
        history=writer,
        compile_text=compiler.stored,
        moulds=compiler.moulds,
        clock=clock,
    )
    return Parts(host=host, sender=sender, database=database, calls=calls)


if __name__ == "__main__":
    main()
