"""The main program of a worker process: an embedded host over one shard of the jobs, driven by the service.

`worker_start`, which the service alone starts, calls it.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Unpack

import uvloop

from scheduler_service.app.core_settings import make_surroundings
from scheduler_service.app.data_folder import tell_trouble
from scheduler_service.app.egress import make_sender
from scheduler_service.app.metrics import add_host, add_outbox
from scheduler_service.app.process_parts import GivenParts, ProcessParts, make_embedded_host
from scheduler_service.app.process_setup import freeze_memory, log_of, raise_limit
from scheduler_service.app.store_opening import keep_contexts, open_history, open_rows, shard_of
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.effects import QueueWrite
from scheduler_service.domain.job_key import DEFAULT_TENANT
from scheduler_service.engine import params_schema  # noqa: F401 - else the first schema's turn would import it
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.embedded.embedded_host import EmbeddedHost
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent import (
    LookupSender,
    OccurrenceRelay,
    ParentDirectory,
    RemoteRates,
    RemoteRouter,
    wake_parent_claimers,
)
from scheduler_service.hosts.processes.remote_shard import WorkerService
from scheduler_service.hosts.processes.rpc_methods import RpcConnection, WorkerConfig
from scheduler_service.persistence.contexts.external_contexts import WholeStore
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.log import Log
from scheduler_service.services.rate_sharing import RateSharing
from scheduler_service.settings import LoadedSettings, Settings
from scheduler_service.system_jobs import alert_jobs
from scheduler_service.telemetry.logs import EventLog
from scheduler_service.telemetry.loop_watch import RunningWatch
from scheduler_service.telemetry.metrics.process_metrics import process_age
from scheduler_service.telemetry.sigusr1_report import SignalReports

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


class OpenShard(ProcessParts):
    """The host of one shard of the jobs, with what it stands on; nothing fires before `start`."""

    def __init__(
        self,
        loaded: LoadedSettings,
        *,
        config: WorkerConfig,
        own: WholeStore,
        store: WholeStore,
        connection: RpcConnection,
        **parts: Unpack[GivenParts],
    ) -> None:
        """`own` is the file of the jobs, `store` the same with their contexts; `parts`: `ProcessParts`."""
        super().__init__(loaded, served=config.served, **parts)
        self._shard = config.shard
        self._store = store
        self._connection = connection
        self._directory = ParentDirectory(connection=connection)
        self._began = self.clock.now().wall - process_age()
        self.service = WorkerService(
            host=self.host,
            store=own,
            compile_text=self.compile_received,
            status=lambda: self.status_since(self._began),
        )
        self.relay = OccurrenceRelay(
            occurrences=self.telemetry.occurrences, connection=connection, worker=config.shard
        )
        if self.telemetry.metrics is not None:
            gathering = self.telemetry.metrics.gathering
            add_host(gathering, self.host, {"history": self.writer.samples, "state": store.samples})
            add_outbox(gathering, store, self.clock)

    @property
    def store(self) -> WholeStore:
        """The jobs of the shard."""
        return self._store

    @property
    def commits_waiting(self) -> int:
        """How many commits wait for the store."""
        return self._store.commits_waiting

    @property
    def router(self) -> RemoteRouter:
        """That of the service."""
        return RemoteRouter(connection=self._connection)

    def wake_claimers(self, write: QueueWrite) -> None:
        """Tells the service, where they wait."""
        wake_parent_claimers(self._connection, write)

    @cached_property
    def sender(self) -> LookupSender:
        """Sends requests; the service knows the addresses of services."""
        sender = make_sender(
            self.loaded,
            self.served,
            directory=self._directory,
            system={alert_jobs.SEND: alert_jobs.accept},
            clock=self.clock,
            log=self.log,
            room=self.answer_room,
            signer=self.signer,
            listeners=0,
        )
        self.telemetry.show("connections", sender.samples)
        return LookupSender(sender=sender, directory=self._directory)

    @cached_property
    def host(self) -> EmbeddedHost:
        """Takes the turns of the shard."""
        return make_embedded_host(self.host_parts, self._store, Path(self.settings.store.data), self._shard)

    @cached_property
    def shared_rates(self) -> RateSharing:
        """In the service's process."""
        return RateSharing(
            shared=RemoteRates(connection=self._connection),
            clock=self.clock,
            holder=f"{self._shard} {os.getpid()}",
            log=self.log,
        )

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything."""
        await self.host.stop(grace)
        await self.shared_rates.stop()
        await self.relay.flush()
        await self.sender.close()
        await self.close_shared()
        self.database.close()
        self.telemetry.close()


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
                self._log = partial(self._event_log, worker=config.shard)
                raise_limit(self._log)
                self._shard = await open_shard(config, connection=self.connection, log=self._log)
            case rpc_methods.START.name:
                assert self._shard is not None, "opened before"
                await self._shard.open_shared()
                await self._shard.host.start()
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


async def open_shard(config: WorkerConfig, *, connection: RpcConnection, log: Log) -> OpenShard:
    """Opens the store and the history, and builds the host. Raises StoreError."""
    settings = Settings.model_validate_json(config.settings)
    # As the service has read it: a file may have changed since.
    settings = settings.model_copy(
        update={"env_file": None, "env": settings.env | {DEFAULT_TENANT: config.environment}}
    )
    loaded = LoadedSettings(settings, config.sources, config.has_file)
    telemetry = Telemetry(settings=settings, log=log)
    own, store = await _open_store(settings, config, telemetry.log)
    return OpenShard(
        loaded,
        config=config,
        own=own,
        store=store,
        connection=connection,
        surroundings=make_surroundings(loaded, config.served),
        database=await open_history(settings),
        clock=SystemClock(skew=config.skew, on_step=_save_no_skew),
        telemetry=telemetry,
    )


async def _save_no_skew(_: int) -> None:
    """The service's own process does."""


async def _open_store(settings: Settings, config: WorkerConfig, log: Log) -> tuple[WholeStore, WholeStore]:
    """The rows of the jobs, and the same with the contexts of its own jobs."""
    folder, of_all = Path(settings.store.data), shard_of(settings.server.workers)

    def is_own(job_id: str) -> bool:
        return of_all(job_id) == config.shard

    own = await open_rows(
        settings,
        await asyncio.to_thread(FolderLock.claim_worker, folder, config.shard),
        node_id=config.node,
        owns=is_own,
        on_trouble=tell_trouble(log),
        log=log,
        is_first=False,
    )
    return own, await keep_contexts(settings, own, log=log, is_own=is_own)
