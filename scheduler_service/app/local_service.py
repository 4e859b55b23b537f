"""One service over one store: what is built for one machine, how it is opened, started and stopped."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from secrets import token_hex
from typing import Unpack

from scheduler_service import __version__
from scheduler_service.app.base_service import RunningService, process_wire, versions_of
from scheduler_service.app.core_settings import make_surroundings
from scheduler_service.app.data_folder import known_formats
from scheduler_service.app.egress import make_sender
from scheduler_service.app.process_parts import GivenParts, holder_of, make_embedded_host
from scheduler_service.app.store_opening import (
    StoreWatch,
    check_workers,
    data_folder,
    open_history,
    open_store,
    shard_of,
    worker_configs,
)
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.domain.moments import rfc3339
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.embedded.embedded_host import EmbeddedHost
from scheduler_service.hosts.host import Host
from scheduler_service.hosts.processes.parent import ParentService
from scheduler_service.hosts.processes.shards import Processes, ShardOf, Shards, build_processes
from scheduler_service.hosts.processes.worker_processes import WorkerContext, WorkerProcess, WorkerProcesses
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.contexts.external_contexts import WholeStore
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.log import Log
from scheduler_service.ports.queues import Queues
from scheduler_service.ports.state import ServiceStore
from scheduler_service.services.rate_sharing import MemoryRates, RateSharing
from scheduler_service.settings import LoadedSettings
from scheduler_service.telemetry.event_feed import EventFeed, LocalEvents
from scheduler_service.telemetry.metrics.metric_list import Ask, Source
from scheduler_service.telemetry.metrics.process_metrics import process_age
from scheduler_service.telemetry.readiness import HISTORY, STORE, Readiness, WorkerStores
from scheduler_service.telemetry.turn_observers import RecordObserver, WrapSender
from scheduler_service.transport.sender import HttpSender

KeepTime = Callable[..., Timekeeper]
"""Makes the clock of a service, from `skew`, which is stored, and `on_step`, which stores another one."""


class LocalService(RunningService):
    """One service on one machine; `launched` are its worker processes, one for each shard but its own."""

    kind = "embedded"

    def __init__(
        self,
        loaded: LoadedSettings,
        *,
        store: WholeStore,
        watch: StoreWatch,
        job_shard: ShardOf,
        launched: Sequence[WorkerProcess],
        served: str,
        **parts: Unpack[GivenParts],
    ) -> None:
        """`parts` are those of `ProcessParts`."""
        super().__init__(loaded, served=served, **parts)
        self._store = store
        self.node_id = store.node_id
        self.holder = holder_of(store)
        self._watch = watch
        self._job_shard = job_shard
        self._launched = launched
        self._worker_stores = WorkerStores()
        self.telemetry.occurrences.listen(self._worker_stores.take)
        self._began = self.clock.now().wall - process_age()
        self._resumed = asyncio.Event()
        self._has_started = False

    @property
    def store(self) -> WholeStore:
        """The store, of which this process has the jobs of its shard."""
        return self._store

    @property
    def commits_waiting(self) -> int:
        """How many commits wait for the store."""
        return self.store.commits_waiting

    async def resumed(self) -> None:
        """Returns when what was in flight has been sent again."""
        await self._resumed.wait()

    async def start(self) -> None:
        """Recovers, installs the system jobs, takes firings; is ready at last. Raises StoreError."""
        # First, for the jobs of this process may want those of the others at once.
        await self.workers.start()
        await self.host.start()
        self._resumed.set()
        await self._begin()
        self._has_started = True
        self.log("ready", jobsHeld=(await self.jobs.status()).held)

    def is_settled(self, *, open_calls: int = 0) -> bool:
        """As `EmbeddedHost.is_settled`, pull queues included: for tests, which move the clock only then."""
        if not (
            self.alerts.is_idle
            and self.trial_rounds.is_idle
            and self.review.is_idle
            and self.calendar_rounds.is_idle
        ):
            return False
        return self.queues.is_idle and self.host.is_settled(open_calls=open_calls)

    def processes(self) -> Iterable[int]:
        """The ids of the worker processes."""
        return self.workers.pids

    async def list_nodes(self) -> Sequence[Mapping[str, object]]:
        """The service as the only node; worker processes that do not answer are named without figures."""
        others = await asyncio.gather(*(remote.status() for remote in self._shards.remotes))
        state = "draining" if self.host.is_draining else "running"
        found = [self.status_since(self._began), *others]
        rows = "state" if self.settings.store.url is None else "cluster"
        return [
            {
                "nodeId": self.node_id,
                "address": self.served,
                "version": __version__,
                "state": state,
                "startedAt": rfc3339(self._began),
                "lastHeartbeat": rfc3339(self.clock.now().wall),
                "jobsHeld": sum(one.held for one in found),
                "running": sum(one.running for one in found),
                "processes": [
                    process_wire(shard, one, state if one.pid else "missing", self._lacks(shard))
                    for shard, one in enumerate(found)
                ],
                "versions": versions_of([self.database]),
                "formats": {name: known_formats()[name] for name in (rows, "history")},
            }
        ]

    async def _stop_jobs(self, grace: int) -> None:
        await asyncio.gather(self.host.stop(grace), self.workers.stop(grace))

    @cached_property
    def sender(self) -> HttpSender:
        """Sends requests, and runs what system jobs name."""
        return make_sender(
            self.loaded,
            self.served,
            directory=self.services.directory,
            system=self.system,
            clock=self.clock,
            log=self.log,
            room=self.answer_room,
            signer=self.signer,
        )

    @cached_property
    def host(self) -> EmbeddedHost:
        """Takes the turns of the service's own shard."""
        return make_embedded_host(self.host_parts, self.store, data_folder(self.settings))

    @cached_property
    def jobs(self) -> Host | Shards:
        """All jobs, whichever process has them."""
        return self._shards.jobs(self.host)

    @cached_property
    def service_store(self) -> ServiceStore:
        """The store as requests use it, which all processes write."""
        return self._shards.store

    @cached_property
    def workers(self) -> WorkerProcesses:
        """The worker processes."""
        context = WorkerContext(
            config_for=worker_configs(self.loaded, self.surroundings, self.served, self.node_id, self.clock),
            new_parent=self._new_parent,
            on_restart=lambda _: self.queues.recover(),
            log=self.log,
            follow_interest=self.telemetry.occurrences.follow_interest,
        )
        return WorkerProcesses(workers=self._shards.workers, launched=self._launched, context=context)

    @cached_property
    def readiness(self) -> Readiness:
        """What the service needs to accept work; without worker processes there is no such part."""
        remotes, name = self._shards.remotes, self._worker_stores.name
        history = self.telemetry.history_watch
        workers = {"workers": lambda: [name for remote in remotes for name in remote.missing]}
        return Readiness(
            parts={
                "host": lambda: [] if self.host.is_ready and not self.is_stopping else ["host"],
                **(workers if remotes else {}),
                "store": lambda: [*self._watch.missing, *name(STORE, len(remotes))],
                "start": lambda: [] if self._has_started else ["start"],
                "history": lambda: [*history.lacks(), *name(HISTORY, len(remotes))],
            },
            clock=self.clock,
        )

    @cached_property
    def events(self) -> EventFeed:
        """The event stream."""
        # A store in memory counts its starts from 1 each time: ids of another start must not fit.
        line = token_hex(4) if data_folder(self.settings) is None else str(self.store.boot)
        return self.telemetry.feed_events(LocalEvents(occurrences=self.telemetry.occurrences, line=line))

    @property
    def counted(self) -> Mapping[str, Source]:
        """History, state and connections."""
        return {
            "history": self.writer.samples,
            "state": lambda: self.store.samples(is_away=bool(self._watch.missing)),
            "connections": self.sender.samples,
        }

    def _other_figures(self) -> Mapping[str, Ask]:
        return {str(number): remote.collect for number, remote in enumerate(self._shards.remotes, start=1)}

    @cached_property
    def _shards(self) -> Processes:
        """The way to the worker processes."""
        return build_processes(
            count=1 + len(self._launched),
            store=self.store,
            shard_of=self._job_shard,
            compiler=self.compiler.stored,
        )

    @property
    def queue_table(self) -> Queues:
        """That of the store, which all processes write."""
        return self.service_store.queues

    def _lacks(self, shard: int) -> Sequence[str]:
        """What a process cannot write now."""
        if shard:
            return self._worker_stores.lacks(shard)
        return [*self._watch.missing, *self.telemetry.history_watch.lacks()]

    def _new_parent(self) -> ParentService:
        return ParentService(
            router=self.services.router,
            address_of=self.services.locate,
            wake_claimers=self.queues.wake,
            publish=self.telemetry.occurrences.publish,
            rates=self._rates,
        )

    @cached_property
    def _rates(self) -> MemoryRates:
        """What all processes of the service count in."""
        return MemoryRates()

    @cached_property
    def shared_rates(self) -> RateSharing | None:
        """Over the worker processes, where there are any."""
        if not self._launched:
            return None
        return RateSharing(shared=self._rates, clock=self.clock, holder="0", log=self.log)

    async def _close(self) -> None:
        if self.shared_rates is not None:
            await self.shared_rates.stop()


async def open_service(
    loaded: LoadedSettings,
    *,
    served: str,
    log: Log,
    observer: RecordObserver | None = None,
    wrap_sender: WrapSender = lambda sender: sender,
    faults: FaultPoints | None = None,
    keep_time: KeepTime = SystemClock,
    begins_anew: bool = False,
) -> LocalService:
    """Opens the data folder and builds the service; nothing fires before `start`.

    `observer` and `wrap_sender` are those of this process, not of worker processes; `faults` watches durable
    writes, `keep_time` makes the clock; `begins_anew` is that of `open_store`. Raises StoreError where store
    or folder cannot be used, SettingsError for an env_file that cannot be read.
    """
    settings = loaded.settings
    check_workers(settings)
    # Started first: their imports take as long as the rest of the start.
    launched: list[WorkerProcess] = []
    try:
        while len(launched) < settings.server.workers - 1:
            launched.append(await WorkerProcess.launch())
        telemetry = Telemetry(settings=settings, log=log, observer=observer, wrap_sender=wrap_sender)
        surroundings = make_surroundings(loaded, served)
        watch, job_shard = StoreWatch(log=telemetry.log), shard_of(settings.server.workers)
        store = await open_store(
            settings, watch=watch, faults=faults, job_shard=job_shard, begins_anew=begins_anew
        )
        service = LocalService(
            loaded,
            served=served,
            surroundings=surroundings,
            database=await open_history(settings, faults),
            clock=keep_time(skew=await store.clock_skew(), on_step=store.save_clock_skew),
            telemetry=telemetry,
            store=store,
            watch=watch,
            job_shard=job_shard,
            launched=launched,
        )
        await service.attach()
        service.readiness.watch()
        await service.workers.open()
    except BaseException:
        await asyncio.gather(*map(WorkerProcess.end, launched))
        raise
    return service
