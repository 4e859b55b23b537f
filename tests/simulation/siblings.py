"""The placement of worker processes: a service and its worker processes over one database.

The service has shard 0 and routes commands; it watches the others, kills one that stands still and starts it
again, all by the product's own code. What they say to each other goes through the world, byte by byte.
"""

import asyncio
from typing import Any

from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.host import HostStatus
from scheduler_service.hosts.processes import rpc_methods
from scheduler_service.hosts.processes.parent import UNKNOWN, ParentService
from scheduler_service.hosts.processes.remote_shard import WorkerService
from scheduler_service.hosts.processes.rpc_methods import RpcConnection, WorkerConfig
from scheduler_service.hosts.processes.shards import ShardOf, build_processes, make_shard_of
from scheduler_service.hosts.processes.worker_processes import (
    EXIT_TIMEOUT_SECONDS,
    WatchLimits,
    WorkerContext,
    WorkerProcess,
    WorkerSupervisor,
)
from tests.simulation.alone import Life
from tests.simulation.loop import VirtualLoop, Wire, set_once
from tests.simulation.world import World, WorldPlan
from tests.unit.hosts.house import compile_stored

LIMITS = WatchLimits(hangs=8.0)
"""Below the longest of the drawn halts, so that frozen processes are killed as well."""
DONE = rpc_methods.PING.write_result(None)


class ShardLife(Life):
    """A process of a service that has divided its jobs."""

    _around: "SiblingsWorld"

    def __init__(self, around: "SiblingsWorld", number: int, shard: int, shard_of: ShardOf) -> None:
        super().__init__(around, number)
        self.shard = shard
        self.shard_of = shard_of

    def owns(self, job_id: str) -> bool:
        return self.shard_of(job_id) == self.shard

    def log(self, event: str, /, **keys: object) -> None:
        super().log(event, **keys)
        if event == "call_failed":
            self._around.broken.append(f"{self.process.name}: {keys}")


class WorkerLife(ShardLife):
    """A worker process: it does what the service says over its `end` of a wire, until that is cut."""

    end: Wire | None = None
    _service: WorkerService | None = None

    async def serve(self) -> None:
        await RpcConnection.open(
            self.end,  # type: ignore[arg-type]
            serve=self._answer,
            on_notice=lambda *_: None,
            on_lost=self.die,
            log=self.log,
        )

    def die(self) -> None:
        """The process ends where it is."""
        self._around.bury(self)

    async def _answer(self, method: str, argument: bytes) -> bytes:
        match method:
            case rpc_methods.OPEN.name:
                await self.open(rpc_methods.OPEN.read_argument(argument).skew)
                assert self.host is not None
                self._service = WorkerService(
                    host=self.host, store=self.store, compile_text=compile_stored, status=HostStatus
                )
            case rpc_methods.START.name:
                await self.begin()
            case rpc_methods.STOP.name:
                assert self.host is not None
                await self.host.stop(rpc_methods.STOP.read_argument(argument))
            case rpc_methods.PING.name:
                pass
            case _:
                assert self._service is not None, "opened before"
                return await self._service.serve(method, argument)
        return DONE

    def forget(self) -> None:
        super().forget()
        self.end = self._service = None


class LaunchedWorker(WorkerProcess):
    """A worker process in the hands of the service."""

    def __init__(self, life: WorkerLife, end: Wire) -> None:
        self._life = life
        self._wire = end

    @property
    def pid(self) -> int:
        return 0

    def hand_over(self) -> Any:
        return self._wire

    def kill(self) -> None:
        self._life.die()

    async def end(self) -> int:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life.process.tell_of_death(lambda: set_once(gone, None))
        self._wire.close()
        await asyncio.wait({gone}, timeout=EXIT_TIMEOUT_SECONDS)
        self.kill()
        return 1


class SimulatedSupervisor(WorkerSupervisor):
    """Starts processes of the world."""

    life: "ServiceLife"

    async def _begin(self) -> None:
        self._process = self.life.launch(self._worker.shard)
        await self._open()


class ServiceLife(ShardLife):
    """The service's own process, with those that it has started."""

    def __init__(self, around: "SiblingsWorld", number: int, count: int) -> None:
        super().__init__(around, number, 0, make_shard_of(count))
        self._count = count
        self._supervisors: list[SimulatedSupervisor] = []
        self.workers: list[WorkerLife] = []

    async def serve(self) -> None:
        await self.open()
        assert self.host is not None
        processes = build_processes(
            count=self._count, store=self.store, shard_of=self.shard_of, compiler=compile_stored
        )
        context = WorkerContext(
            config_for=self._config_for,
            new_parent=self._new_parent,
            on_restart=lambda _: None,
            log=self.log,
            limits=LIMITS,
        )
        for worker in processes.workers:
            supervisor = SimulatedSupervisor(
                worker=worker, process=self.launch(worker.shard), context=context
            )
            supervisor.life = self
            self._supervisors.append(supervisor)
        await asyncio.gather(*(one.open() for one in self._supervisors))
        await asyncio.gather(*(one.start() for one in self._supervisors))
        self.jobs = processes.jobs(self.host)
        await self.begin()
        await self._resend()

    def forget(self) -> None:
        super().forget()
        self._supervisors.clear()

    def launch(self, shard: int) -> LaunchedWorker:
        """A worker process that begins to listen in a moment."""
        life = self._around.add_worker(shard, self.shard_of)
        self.workers.append(life)
        ours, life.end = Wire.between(self.process, life.process)
        self._around.loop.call_later(self._chance.uniform(0.1, 0.8), self._around.begin, life)
        return LaunchedWorker(life, ours)

    async def shut_down(self, grace: int, ended: "asyncio.Future[None]") -> None:
        stopping = (one.stop(grace) for one in self._supervisors)
        await asyncio.gather(super().shut_down(grace, self._around.loop.create_future()), *stopping)
        ended.set_result(None)

    def _config_for(self, shard: int) -> WorkerConfig:
        skew = round(self._around.wall() * SECOND) - self.clock.now().steady
        return WorkerConfig(shard, b"", {}, False, "", {}, "node", skew)

    def _new_parent(self) -> ParentService:
        return ParentService(
            router=self._router(self.clock), address_of=lambda _: UNKNOWN, wake_claimers=lambda *_: None
        )


class SiblingsWorld(World):
    """A world in which a service of one to three processes runs the jobs, as many as each start wants."""

    life: ServiceLife

    def __init__(self, plan: WorldPlan, loop: VirtualLoop) -> None:
        super().__init__(plan, loop)
        self._which = self.chance("which")

    def add_worker(self, shard: int, shard_of: ShardOf) -> WorkerLife:
        """Another process, which does nothing yet."""
        self._lives += 1
        life = WorkerLife(self, self._lives, shard, shard_of)
        self.lives.append(life)
        return life

    def begin(self, life: WorkerLife) -> None:
        """It runs from now on, unless it is dead already."""
        self._serve(life)

    def bury(self, life: Life) -> None:
        """The process ends where it is."""
        if not life.process.is_dead:
            life.died_at = self.loop.time()
            life.process.kill()

    def _start_node(self, down: int) -> None:
        self._lives += 1
        self.life = ServiceLife(
            self, self._lives, self._which.choice((2, 3) if self._lives == 1 else (1, 2, 3))
        )
        self.lives.append(self.life)
        self.loop.call_later(down / 1_000, self._serve, self.life)

    def _victim(self) -> Life | None:
        there = [one for one in (self.life, *self.life.workers) if one.is_begun and not one.process.is_dead]
        return self._which.choice(there) if there else None

    def _kill_life(self, life: Life, down: int) -> None:
        """With the service the system kills its worker processes; of these another one is started at once."""
        self.bury(life)
        if life is self.life:
            for worker in self.life.workers:
                self.bury(worker)
            self._start_node(down)

    async def stop(self, life: Life, grace: int, down: int) -> None:
        await super().stop(self.life, grace, down)
