"""A worker process: an embedded host over one share of the jobs, at the end of a line to its service.

`python -m scheduler_service.app.worker_main DESCRIPTOR` is started by the service alone
(`hosts.processes.worker_supervisor`).
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

from scheduler_service.app.builders import limits_of, make_core, make_masking, make_sender, open_writer
from scheduler_service.app.data_folder import history_address
from scheduler_service.app.gc_tuning import freeze_memory
from scheduler_service.app.surroundings import Compiler, make_surroundings
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.embedded.build import EmbeddedParts, build_embedded_host
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent_client import (
    LookupSender,
    ParentDirectory,
    RemoteRouter,
    wake_parent_claimers,
)
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import WorkerConfig
from scheduler_service.hosts.processes.worker_service import WorkerService
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Sender
from scheduler_service.settings import Loaded, Settings
from scheduler_service.telemetry.logs import stderr_log
from scheduler_service.timing.misfire import count_missed

DONE = rpc_methods.START.write_result(None)


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
    worker = WorkerMain(log=log)
    worker.line = await RpcConnection.open(
        socket_,
        serve=worker.serve,
        hear=lambda method, argument: None,
        lost=lambda: end(0 if worker.is_stopped else 1),
        log=log,
    )
    await asyncio.get_running_loop().create_future()


class ShardParts(msgspec.Struct, frozen=True):
    """What a worker process holds open."""

    host: EmbeddedHost
    sender: Sender
    database: HistoryDatabase
    calls: WorkerService


class WorkerMain:
    """Opens, starts and stops its share when the service says so; in between it answers calls."""

    line: RpcConnection
    is_stopped = False
    _parts: ShardParts | None = None

    def __init__(self, *, log: Log) -> None:
        self._log = log

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises StoreError, CursorError."""
        match method:
            case rpc_methods.OPEN.name:
                await self._open(rpc_methods.OPEN.read_argument(argument))
            case rpc_methods.START.name:
                await self._start()
            case rpc_methods.STOP.name:
                await self._stop(rpc_methods.STOP.read_argument(argument))
            case rpc_methods.PING.name:
                pass
            case _:
                return await self._call(method, argument)
        return DONE

    async def _call(self, method: str, argument: bytes) -> bytes:
        if self._parts is None:
            raise StoreUnavailable("this worker process is not open")
        return await self._parts.calls.serve(method, argument)

    async def _open(self, orders: WorkerConfig) -> None:
        """Opens the share's files; nothing fires yet. Raises StoreError."""
        self._log = bind(self._log, worker=orders.share)
        self._parts = await open_shard(orders, line=self.line, log=self._log)

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


async def open_shard(orders: WorkerConfig, *, line: RpcConnection, log: Log) -> ShardParts:
    """The host of one share over its own file. Raises StoreError."""
    settings = Settings.model_validate_json(orders.settings)
    loaded = Loaded(settings, orders.sources, orders.has_file)
    folder = Path(settings.store.data)
    store = await SqliteStateStore.open(
        folder=folder, durability=settings.store.durability, node_id=orders.node, shard=orders.share
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
    directory = ParentDirectory(line=line)
    sender = LookupSender(
        sender=make_sender(loaded, orders.served, directory=directory, system={}), directory=directory
    )
    writer = open_writer(store, database, log)
    clock = SystemClock(skew=orders.skew, on_step=store.save_clock_skew)
    host = build_embedded_host(
        EmbeddedParts(
            core=make_core(compiler),
            store=store,
            history=writer,
            sender=sender,
            router=RemoteRouter(line=line),
            stir=lambda write: wake_parent_claimers(line, write),
            clock=clock,
            redact=make_masking(settings).redact_all,
            count=count_missed,
            log=log,
            holder=Holder(store.node_id, f"{store.boot}-{os.getpid()}"),
            boot=store.boot,
            limits=limits_of(settings),
        )
    )
    calls = WorkerService(
        host=host,
        store=store,
        history=writer,
        compile_text=compiler.stored,
        compile_cache=compiler.compile_cache,
        clock=clock,
    )
    return ShardParts(host=host, sender=sender, database=database, calls=calls)


if __name__ == "__main__":
    main()
