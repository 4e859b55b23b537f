"""The processes of one service within a test: a host each over stores in memory, with real connections."""

import asyncio
import contextlib
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

from scheduler_service.app.core_settings import DefinitionCompiler
from scheduler_service.app.store_opening import shard_of
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.program import Surroundings
from scheduler_service.hosts.embedded.embedded_host import EmbeddedParts, build_embedded_host
from scheduler_service.hosts.host import HostStatus
from scheduler_service.hosts.host_dependencies import Core
from scheduler_service.hosts.processes.remote_shard import WorkerService
from scheduler_service.hosts.processes.rpc_methods import RpcConnection
from scheduler_service.hosts.processes.shards import build_processes
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.security.history_masking import Masking
from scheduler_service.services.instances import Instances
from scheduler_service.services.router import MemoryRouter, Terms
from scheduler_service.settings import Settings
from tests.manual_clock import ManualClock
from tests.unit.api.stores import START
from tests.unit.api.world import World
from tests.unit.hosts.house import MemoryHistory
from tests.unit.hosts.scripted_sender import ScriptedSender

SKEW = 1_000
Serve = Callable[[str, bytes], Awaitable[bytes]]
Answers = list[tuple[int, Any]]


class FleetShard:
    """What one process has. `serve` answers the service, `asked` names the methods that it was asked."""

    def __init__(self, store: SqliteStateStore) -> None:
        self.store = store
        self.compiler = DefinitionCompiler(settings=Settings(), surroundings=Surroundings())
        self.asked: list[str] = []
        clock = self.clock = ManualClock(wall=START, skew=SKEW)
        self.history = MemoryHistory(store, [])
        parts = EmbeddedParts(
            core=Core(self.compiler.stored),
            store=store,
            history=self.history,
            sender=ScriptedSender([]),
            router=MemoryRouter(instances=Instances(), terms=lambda _, __: Terms(), clock=clock),
            clock=clock,
            redact=Masking().redact_all,
            log=lambda event, /, **keys: None,
            holder=Holder("node", "1"),
            boot=store.boot,
        )
        self.host = build_embedded_host(parts)
        self._calls = WorkerService(
            status=HostStatus,
            host=self.host,
            store=store,
            compile_text=self.compiler.stored,
        )

    async def serve(self, method: str, argument: bytes) -> bytes:
        """Answers one call."""
        self.asked.append(method)
        return await self._calls.serve(method, argument)

    async def jobs(self, *job_ids: str) -> dict[str, tuple[object, ...]]:
        """The jobs as they are kept, but for what chance made of them."""
        found = await self.store.catalogue.some(job_ids)
        return {
            job_id: (
                entry.job_name, entry.creator, entry.state, entry.revision, entry.labels, entry.next_fire,
                entry.kind, await self.store.definition(entry.uid, entry.revision),
            )
            for job_id, entry in found.items()
        }  # fmt: skip


class Fleet:
    """A service of several processes; the first one has the API (`world`)."""

    def __init__(self, shards: list[FleetShard], **settings: Any) -> None:
        self.shards = shards
        self.shard_of = shard_of(len(shards))
        self._connections: list[RpcConnection] = []
        own = shards[0]
        processes = build_processes(
            count=len(shards),
            store=own.store,
            shard_of=self.shard_of,
            compiler=own.compiler.stored,
        )
        self.workers = processes.workers
        jobs = processes.jobs(own.host)
        self.world = World(
            jobs=jobs,
            compile_definition=own.compiler.posted,
            compile_stored=own.compiler.stored,
            compile_cache=own.compiler.compile_cache,
            **settings,
        )

    async def join(self, number: int, serve: Serve | None = None) -> RpcConnection:
        """The process of a shard is there from now on; returns its own end of the connection."""
        ends = []
        for answer, socket_ in zip(
            (_refuse, serve or self.shards[number].serve), socket.socketpair(), strict=True
        ):
            socket_.setblocking(False)
            connection = await RpcConnection.open(
                socket_,
                serve=answer,
                on_notice=lambda method, argument: None,
                on_lost=lambda: None,
                log=lambda event, /, **keys: None,
            )
            ends.append(connection)
        self._connections += ends
        self.workers[number - 1].connect(ends[0])
        return ends[1]

    async def post(self, *items: object, status: int = 200, **options: Any) -> list[dict[str, Any]]:
        """What became of each definition of an array."""
        async with self.world.client() as client:
            answer = await client.post("/jobs", json=list(items), **options)
        assert answer.status_code == status, answer.text
        return answer.json()["data"]["items"]

    async def jobs(self, *job_ids: str) -> dict[str, tuple[object, ...]]:
        """The jobs as all processes keep them."""
        return await self.shards[0].jobs(*job_ids)

    async def owner(self, job_id: str) -> str:
        """The service that the job belongs to; empty: to none."""
        job = await self.shards[self.shard_of(job_id)].host.read(job_id)
        assert job is not None
        assert job.document is not None
        return job.document.head.owner

    async def close(self) -> None:
        """Cuts all connections."""
        for connection in self._connections:
            connection.close()
        await asyncio.sleep(0)
        for shard in self.shards:
            await shard.host.stop(0)


async def _refuse(method: str, argument: bytes) -> bytes:
    raise AssertionError(f"{method}: no worker process calls the service here")


@contextlib.asynccontextmanager
async def fleet(processes: int, **settings: Any) -> AsyncIterator[Fleet]:
    """A service of so many processes, all of them there."""
    with tempfile.TemporaryDirectory() as folder:
        shards = [FleetShard(await _open(Path(folder), number, processes)) for number in range(processes)]
        opened = Fleet(shards, **settings)
        try:
            for number in range(1, processes):
                await opened.join(number)
            yield opened
        finally:
            await opened.close()


async def _open(folder: Path, number: int, processes: int) -> SqliteStateStore:
    of_all = shard_of(processes)
    return await SqliteStateStore.open(
        folder=folder,
        durability="process",
        lock=FolderLock.claim_worker(folder, number) if number else None,
        owns=lambda job_id: of_all(job_id) == number,
    )


async def send(client: httpx.AsyncClient, body: bytes, query: Mapping[str, str]) -> tuple[int, Any]:
    """Status and body of the answer to one array."""
    headers = {"content-type": "application/json"}
    answer = await client.post("/jobs", content=body, params=query, headers=headers)
    return answer.status_code, answer.json()
