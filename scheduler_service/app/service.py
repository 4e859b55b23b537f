"""One service over one store: opened, started, stopped."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from scheduler_service.app.alert_jobs import headers_of, urls_of
from scheduler_service.app.builders import judge_of
from scheduler_service.app.container import Container, ContainerBase
from scheduler_service.app.data_folder import history_address
from scheduler_service.app.node_figures import describe_parts
from scheduler_service.app.sharding import check_workers, shard_of
from scheduler_service.app.store_opening import StoreWatch, data_folder, keep_contexts, open_store
from scheduler_service.app.surroundings import Compiler, Secrets, make_surroundings
from scheduler_service.app.system_jobs import install
from scheduler_service.app.telemetry import Telemetry
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.processes.worker_processes import WorkerProcess
from scheduler_service.persistence.common.fault_points import FaultPoints
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.ports.clock import Timekeeper
from scheduler_service.ports.log import Log
from scheduler_service.settings import Loaded
from scheduler_service.telemetry.decorators import NO_DECORATORS, PortDecorators

if TYPE_CHECKING:
    from fastapi import FastAPI


class KeepTime(Protocol):
    """Makes the clock of a service, from the skew that is stored and how to store another one."""

    def __call__(self, *, skew: int, on_step: Callable[[int], Awaitable[None]]) -> Timekeeper:
        """The clock."""


class Service:
    """One running service; `components` is what it is made of, for tests."""

    def __init__(self, *, loaded: Loaded, rooms: Container, telemetry: Telemetry) -> None:
        self._resumed = asyncio.Event()
        self._loaded = loaded
        self.components = rooms
        self.telemetry = telemetry
        self._log = telemetry.log

    @cached_property
    def api(self) -> "FastAPI":
        """Its ASGI application; what that is made of is loaded when it is first asked for."""
        from scheduler_service.api.application import create_api
        from scheduler_service.console.application import console_mounts

        return create_api(self.components.api_parts, mounts=console_mounts())

    async def resumed(self) -> None:
        """Returns when what was in flight has been sent again."""
        await self._resumed.wait()

    async def start(self) -> None:
        """Recovers, installs the system jobs, takes firings; is ready at last. Raises StoreError."""
        rooms = self.components
        # First, for the jobs of this process may want those of the others at once.
        await rooms.workers.start()
        await rooms.host.start()
        self._resumed.set()
        await rooms.services.start_queues(rooms.jobs.deliver)
        noted = await rooms.review.read_noted()
        await install(rooms.host, rooms.compiler, self._loaded.settings, noted)
        await rooms.review.start(noted)
        await rooms.alerts.start()
        rooms.trial_rounds.start()
        rooms.has_started = True
        self._log("ready", jobsHeld=(await rooms.jobs.status()).held)

    def is_settled(self, *, open_calls: int = 0) -> bool:
        """As `EmbeddedHost.is_settled`, pull queues included: for tests, which move the clock only then."""
        components = self.components
        if not (components.alerts.is_idle and components.trial_rounds.is_idle and components.review.is_idle):
            return False
        return components.services.is_idle and components.host.is_settled(open_calls=open_calls)

    def describe(self) -> Mapping[str, Mapping[str, object]]:
        """The figures of each part."""
        rooms = self.components
        return describe_parts(
            rooms.host, rooms.sender, rooms.writer, commits_waiting=rooms.store.commits_waiting
        )

    def processes(self) -> Iterable[int]:
        """The ids of the worker processes."""
        return self.components.workers.pids

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms, then closes everything (SPEC section 14)."""
        self.components.is_stopping = True
        self._log("draining", graceMs=grace, running=self.components.host.running)
        self.components.services.stop_claims()
        rooms = self.components
        grace = await self._stop_own_work(grace)
        await asyncio.gather(rooms.host.stop(grace), rooms.workers.stop(grace), rooms.trial_rounds.stop())
        await self.telemetry.end_events()
        await self.components.sender.close()
        await self.components.reads.close()
        await self.components.services.close()
        self.components.database.close()
        self.components.readiness.stop()
        self._log("stopped")
        self.telemetry.close()

    async def _stop_own_work(self, grace: int) -> int:
        """Ends what needs the jobs; returns what is left of `grace`."""
        rooms = self.components
        began = rooms.clock.now().steady
        await asyncio.gather(rooms.alerts.stop(), rooms.review.stop(), rooms.operations.stop(grace))
        return max(grace - (rooms.clock.now().steady - began), 0)

    def flush_log(self) -> None:
        """Writes the lines that the API still sums up, after its last answer."""
        if "api" in vars(self):
            self.components.api_parts.store_faults.flush()


async def open_service(
    loaded: Loaded,
    *,
    served: str,
    log: Log,
    decorators: PortDecorators = NO_DECORATORS,
    faults: FaultPoints | None = None,
    keep_time: KeepTime = SystemClock,
    begins_anew: bool = False,
) -> Service:
    """Opens the data folder and builds the service; nothing fires before `start`.

    `decorators` wrap the ports of this process, not those of worker processes; `faults` watches durable
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
        telemetry = Telemetry(settings=settings, log=log, decorators=decorators)
        base = await _open_base(loaded, served, telemetry, faults, keep_time, begins_anew)
        telemetry.follow(base.clock)
        rooms = Container(base=base, launched=launched)
        await rooms.attach()
        rooms.readiness.watch()
        await rooms.workers.open()
    except BaseException:
        await asyncio.gather(*map(WorkerProcess.end, launched))
        raise
    return Service(loaded=loaded, rooms=rooms, telemetry=telemetry)


async def _open_base(
    loaded: Loaded,
    served: str,
    telemetry: Telemetry,
    faults: FaultPoints | None,
    keep_time: KeepTime,
    begins_anew: bool,
) -> ContainerBase:
    """What has to be opened before anything can be built."""
    settings, log = loaded.settings, telemetry.log
    surroundings = make_surroundings(settings, served, judge_target=judge_of(loaded))
    compiler = Compiler(
        defaults=settings.defaults,
        surroundings=surroundings,
        history=settings.history,
        secrets=Secrets(headers=headers_of(settings), urls=urls_of(settings)),
    )
    watch = StoreWatch(log=log)
    job_shard = shard_of(settings.server.workers)
    rows = await open_store(
        settings, watch=watch, faults=faults, shard_of=job_shard, log=log, begins_anew=begins_anew
    )
    store = await keep_contexts(
        settings, rows, log=log, is_own=lambda job_id: job_shard(job_id) == 0, faults=faults
    )
    database = await asyncio.to_thread(
        HistoryDatabase,
        url=history_address(settings, data_folder(settings)),
        durability=settings.store.durability,
        faults=faults,
    )
    return ContainerBase(
        loaded=loaded,
        served=served,
        log=log,
        surroundings=surroundings,
        compiler=compiler,
        watch=watch,
        shard_of=job_shard,
        store=store,
        database=database,
        clock=keep_time(skew=await store.clock_skew(), on_step=store.save_clock_skew),
        telemetry=telemetry,
    )
