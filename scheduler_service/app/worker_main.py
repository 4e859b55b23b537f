"""The main program of a worker process: an embedded host over one shard of the jobs, driven by the service.

`worker_start`, which the service alone starts, calls it.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import uvloop

from scheduler_service.app.builders import (
    judge_of,
    make_embedded_host,
    make_host_parts,
    make_sender,
    open_writer,
)
from scheduler_service.app.data_folder import history_address, tell_trouble
from scheduler_service.app.metrics import add_host, add_outbox
from scheduler_service.app.node_figures import describe_parts, own_status
from scheduler_service.app.own_process import freeze_memory, log_of, raise_limit
from scheduler_service.app.store_opening import keep_contexts, shard_of
from scheduler_service.app.surroundings import DefinitionCompiler, Secrets, make_surroundings
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.engine import parameters  # noqa: F401 - else the first schema's turn would import it
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.host import HostStatus
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent import (
    LookupSender,
    OccurrenceRelay,
    ParentDirectory,
    RemoteRouter,
    wake_parent_claimers,
)
from scheduler_service.hosts.processes.remote_shard import WorkerService
from scheduler_service.hosts.processes.rpc_connection import RpcConnection
from scheduler_service.hosts.processes.rpc_methods import WorkerConfig
from scheduler_service.pacing.room import Room
from scheduler_service.persistence.contexts.apart_store import WholeStore
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sqlite.folder import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.settings import LoadedSettings, Settings
from scheduler_service.system_jobs import alert_jobs
from scheduler_service.system_jobs.alert_jobs import made_here
from scheduler_service.telemetry.logs import EventLog
from scheduler_service.telemetry.loop_watch import RunningWatch
from scheduler_service.telemetry.metrics.process_metrics import process_age
from scheduler_service.telemetry.report_signal import SignalReports
from scheduler_service.transport.pool import RESPONSES_BYTES

OpenLog = Callable[[Settings, int | None], EventLog]
"""Opens the log of this process, as the settings have it; lines of libraries name the shard, once known."""

DONE = rpc_methods.START.write_result(None)


def main() -> None:
    """Works until the connection to the service is cut."""
    uvloop.run(work(socket.socket(fileno=int(sys.argv[1])), open_log=_open_log, end=os._exit))


async def work(socket_: socket.socket, *, open_log: OpenLog, end: Callable[[int], None]) -> None:
    """Serves one shard over a connected socket; `end` is called with an exit code when it is cut.

    A cut before `stop` is the death of the service: then nothing may be begun any more.
    """
    worker = WorkerMain(open_log=open_log)
    # One that comes earlier waits: the service starts this process with the signal blocked.
    SignalReports(log=worker.write_log).parts = worker.describe

    def leave() -> None:
        worker.flush_log()
        end(0 if worker.is_stopped else 1)

    worker.connection = await RpcConnection.open(
        socket_,
        serve=worker.serve,
        on_notice=worker.take_notice,
        on_lost=leave,
        log=worker.write_log,
    )
    await asyncio.get_running_loop().create_future()


class OpenShard:
    """The host of one shard of the jobs, with what it stands on; nothing fires before `start`."""

    def __init__(
        self,
        config: WorkerConfig,
        loaded: LoadedSettings,
        *,
        telemetry: Telemetry,
        own: SqliteStateStore,
        store: WholeStore,
        database: HistoryDatabase,
        connection: RpcConnection,
    ) -> None:
        settings, log, compiler = loaded.settings, telemetry.log, _make_compiler(loaded, config)
        clock = SystemClock(skew=config.skew, on_step=_save_no_skew)  # the service's own process does
        telemetry.follow(clock)
        room = Room(RESPONSES_BYTES)
        self.telemetry = telemetry
        self._store = store
        self._database = database
        self._sender = _make_worker_sender(loaded, config, connection, clock, telemetry, room)
        self._history = open_writer(store.written, database, log, made_here(settings))
        parts = make_host_parts(
            settings,
            compiler,
            history=self._history,
            sender=self._sender,
            room=room,
            router=RemoteRouter(connection=connection),
            clock=clock,
            log=log,
            wake_claimers=lambda write: wake_parent_claimers(connection, write),
            decorators=telemetry.decorators,
        )
        self._host = make_embedded_host(parts, store, Path(settings.store.data), config.shard)
        self._began = clock.now().wall - process_age()
        self.service = WorkerService(
            host=self._host,
            store=own,
            compile_text=compiler.stored,
            status=self._status,
        )
        self.relay = OccurrenceRelay(
            occurrences=telemetry.occurrences, connection=connection, worker=config.shard
        )
        if telemetry.metrics is not None:
            gathering = telemetry.metrics.gathering
            add_host(gathering, self._host, {"history": self._history.samples, "state": store.samples})
            add_outbox(gathering, store, clock)

    def describe(self) -> Mapping[str, Mapping[str, object]]:
        """The figures of each part."""
        waiting = self._store.commits_waiting
        return describe_parts(self._host, self._sender, self._history, commits_waiting=waiting)

    async def start(self) -> None:
        """Recovers. Raises StoreError."""
        await self._host.start()

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything."""
        await self._host.stop(grace)
        await self.relay.flush()
        await self._sender.close()
        self._database.close()
        self.telemetry.close()

    def _status(self) -> HostStatus:
        return own_status(
            held=self._host.jobs_held,
            running=self._host.running,
            started_at=self._began,
            standstills=self.telemetry.standstills,
        )


class WorkerMain:
    """Opens, starts and stops the shard when the service says so; in between it answers calls."""

    connection: RpcConnection
    is_stopped = False
    _shard: OpenShard | None = None
    _watch: RunningWatch | None = None

    def __init__(self, *, open_log: OpenLog) -> None:
        self._open_log = open_log
        self._event_log = open_log(Settings(), None)
        self._log: Log = self._event_log

    def write_log(self, event: str, /, **keys: object) -> None:
        """Writes a line; before the shard is open, as the default settings have it."""
        self._log(event, **keys)

    def flush_log(self) -> None:
        """Writes what is summed up so far."""
        self._event_log.flush()

    def describe(self) -> Mapping[str, Mapping[str, object]]:
        """The figures of each part; none before the shard is open."""
        return {} if self._shard is None else self._shard.describe()

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call. Raises StoreError."""
        match method:
            case rpc_methods.OPEN.name:
                config = rpc_methods.OPEN.read_argument(argument)
                self._event_log = self._open_log(Settings.model_validate_json(config.settings), config.shard)
                self._log = bind(self._event_log, worker=config.shard)
                raise_limit(self._log)
                self._shard = await open_shard(config, connection=self.connection, log=self._log)
            case rpc_methods.START.name:
                assert self._shard is not None, "opened before"
                await self._shard.start()
                freeze_memory()
                telemetry = self._shard.telemetry
                self._watch = RunningWatch(
                    log=self._log, standstills=telemetry.standstills, note_lag=telemetry.note_lag
                )
            case rpc_methods.STOP.name:
                self.is_stopped = True
                if self._shard is not None:
                    await self._shard.stop(rpc_methods.STOP.read_argument(argument))
                if self._watch is not None:
                    self._watch.stop()
            case rpc_methods.PING.name:
                pass
            case rpc_methods.METRICS.name if self._shard is not None:
                return rpc_methods.METRICS.write_result(await self._shard.telemetry.collect())
            case _:
                if self._shard is None:
                    raise StoreUnavailable("this worker process is not open", is_public=True)
                return await self._shard.service.serve(method, argument)
        return DONE

    def take_notice(self, method: str, argument: bytes) -> None:
        """Handles one notice; unknown ones are ignored."""
        if method == rpc_methods.LISTEN.name and self._shard is not None:
            self._shard.relay.listen(rpc_methods.LISTEN.read_argument(argument))


def _open_log(settings: Settings, shard: int | None) -> EventLog:
    return log_of(settings) if shard is None else log_of(settings, worker=shard)


def bind(log: Log, **bound: object) -> Log:
    """The log with `bound` in every line."""

    def write(event: str, /, **keys: object) -> None:
        log(event, **bound, **keys)

    return write


async def open_shard(config: WorkerConfig, *, connection: RpcConnection, log: Log) -> OpenShard:
    """Opens the store and the history, and builds the host. Raises StoreError."""
    settings = Settings.model_validate_json(config.settings)
    telemetry = Telemetry(settings=settings, log=log)
    own, store = await _open_store(settings, config, telemetry.log)
    database = await asyncio.to_thread(
        HistoryDatabase,
        url=history_address(settings, Path(settings.store.data)),
        durability=settings.store.durability,
    )
    return OpenShard(
        config,
        LoadedSettings(settings, config.sources, config.has_file),
        telemetry=telemetry,
        own=own,
        store=store,
        database=database,
        connection=connection,
    )


def _make_worker_sender(
    loaded: LoadedSettings,
    config: WorkerConfig,
    connection: RpcConnection,
    clock: Clock,
    telemetry: Telemetry,
    room: Room,
) -> LookupSender:
    directory = ParentDirectory(connection=connection)
    sender = make_sender(
        loaded,
        config.served,
        directory=directory,
        system={alert_jobs.SEND: alert_jobs.accept},
        clock=clock,
        log=telemetry.log,
        room=room,
        listeners=0,
    )
    telemetry.show("connections", sender.samples)
    return LookupSender(sender=sender, directory=directory)


async def _save_no_skew(_: int) -> None:
    return


async def _open_store(
    settings: Settings, config: WorkerConfig, log: Log
) -> tuple[SqliteStateStore, WholeStore]:
    """The file of the jobs, and the same with the contexts of its own jobs."""
    folder, of_all = Path(settings.store.data), shard_of(settings.server.workers)

    def is_own(job_id: str) -> bool:
        return of_all(job_id) == config.shard

    own = await SqliteStateStore.open(
        folder=folder,
        durability=settings.store.durability,
        node_id=config.node,
        lock=await asyncio.to_thread(FolderLock.claim_worker, folder, config.shard),
        owns=is_own,
        on_trouble=tell_trouble(log),
    )
    return own, await keep_contexts(settings, own, log=log, is_own=is_own)


def _make_compiler(loaded: LoadedSettings, config: WorkerConfig) -> DefinitionCompiler:
    """That of the service: the environment is as the service has read it."""
    settings = loaded.settings
    surroundings = msgspec.structs.replace(
        make_surroundings(settings.model_copy(update={"env_file": None}), config.served),
        environment=config.environment,
        judge_target=judge_of(loaded),
    )
    return DefinitionCompiler(
        defaults=settings.defaults,
        surroundings=surroundings,
        history=settings.history,
        secrets=Secrets(headers=config.secret_headers, urls=config.secret_urls),
    )
