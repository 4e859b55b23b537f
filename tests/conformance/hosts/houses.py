"""The hosts that pass the suite of promises, each with the same few handles for a test."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
from dapr.actor import ActorRuntime
from dapr.actor.runtime.manager import ActorManager

from scheduler_service.domain.records import ExecutionRecord, Record
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import AlarmRang
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.dapr_host import DaprHost, build_dapr_host
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.hosts.dapr.node import Cluster, DaprParts
from scheduler_service.hosts.dapr.sidecar import ActorContexts, Sidecar
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.contexts.external_contexts import ApartTurns, ContextKeeper
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.ports.cluster import TURNS_IN_ROWS, Node, TurnClaim
from scheduler_service.ports.errors import StoreError, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import StateStore
from scheduler_service.security.history_masking import Masking
from scheduler_service.services.lost_instances import Losses
from scheduler_service.services.router import MemoryRouter, Terms
from tests.conformance.hosts.process import Points, Process, ProcessDatabase, ProcessSender, ProcessStore
from tests.conformance.hosts.standin import TIMEOUT_FACTOR, StandIn, StandInClient
from tests.conformance.hosts.stillness import ProcessClock
from tests.unit.hosts.house import CORE, Handles, House, MemoryHistory, wait_for_large_work
from tests.unit.hosts.memory_store import MemoryStore
from tests.unit.hosts.scripted_sender import ScriptedSender
from tests.unit.persistence.memory_contexts import MemoryContexts


class AtOnce(ThreadPoolExecutor):
    """Does work in the caller's thread: what the SDK leaves to threads would outlast a count of rounds."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **keywords: Any) -> "Future[Any]":
        """The future of work that is over."""
        over: Future[Any] = Future()
        try:
            over.set_result(work(*args, **keywords))
        except Exception as error:  # noqa: BLE001 - it belongs to who awaits the future
            over.set_exception(error)
        return over


class DaprNode:
    """One scheduler process of the stand-in's cluster."""

    def __init__(
        self,
        process: Process,
        host: DaprHost,
        client: StandInClient,
        history: MemoryHistory,
        shared: ProcessStore,
        parts: DaprParts,
    ) -> None:
        self.name = process.name
        self.process = process
        self.host = host
        self.shared = shared
        self.parts = parts
        self.cluster = parts.cluster
        self.nodes = parts.cluster.nodes
        self.client = client
        self.history = history
        self.manager: ActorManager | None = None


class DaprHouse(Handles):
    """A cluster over the stand-in; `host` is the node that a test speaks to, `shared` their database."""

    def __init__(self, *, shared: str = "sqlite://", **options: Any) -> None:
        super().__init__(**options)
        self._shared = shared
        self.core = CORE
        self.world = StandIn(self.clock)
        self.points = Points(self.freeze)
        self.nodes: dict[str, DaprNode] = {}
        self.gone: list[DaprNode] = []
        self.written: list[MemoryHistory] = []
        self.targets = [self.sender]

    async def start(self) -> "DaprHouse":
        """Opens the shared database and starts one node."""
        asyncio.get_running_loop().set_default_executor(AtOnce())
        self.database = await JobDatabase.open(url=self._shared)
        self.catalogue = TurnStore(database=self.database).catalogue
        self.node = await self.add("one")
        await self.settle()
        return self

    @property
    def host(self) -> DaprHost:
        """The host that the test speaks to."""
        return self.node.host

    async def add(self, name: str) -> DaprNode:
        """Starts another node."""
        process = Process(name, self.points)
        database = ProcessDatabase(self.database, process)
        shared = ProcessStore(database=database, process=process)
        nodes = Nodes(database=database)
        epoch = await nodes.next_epoch()
        now = self.clock.now()
        said = Node(
            name, str(epoch), f"http://{name}", "0", "running", now.wall, now.steady, 0, 0, TURNS_IN_ROWS
        )
        clock = ProcessClock(self.clock, process.stillness)
        heartbeat = NodeHeartbeat(nodes=nodes, clock=clock, node=said, log=self._write_log)
        await heartbeat.enter()
        cluster = Cluster(store=shared, nodes=nodes, heartbeat=heartbeat, epoch=epoch)
        client = StandInClient(self.world, name, process.doing)
        history = MemoryHistory(None, self.journal)  # type: ignore[arg-type]
        sidecar = Sidecar(client=client, timeout_factor=TIMEOUT_FACTOR)
        parts = DaprParts(
            core=self.core,
            cluster=cluster,
            sidecar=sidecar,
            contexts=ActorContexts(sidecar=sidecar),
            clock=clock,
            log=self._write_log,
            history=history,
            sender=ProcessSender(lambda: self.sender, process),
            router=self.route(clock, heartbeat),
            redact=Masking().redact_all,
            new_identity=self._new_life,
            **self.options,
            **self.make_parts(process, clock),
        )
        host = build_dapr_host(parts)
        history.store, history.processes = host.store, self.written
        self.written.append(history)
        await self.world.join(name, host)
        await host.start()
        node = self.nodes[name] = DaprNode(process, host, client, history, shared, parts)
        return node

    async def create_by_actor(self, job_id: str = "job", **members: Any) -> Reply:
        """Delivers Created, and has the job's actor load it and guard it by a reminder."""
        reply = await self.create(job_id, **members)
        await self.deliver(AlarmRang(), job_id)
        return reply

    def make_parts(self, process: Process, clock: ProcessClock) -> dict[str, Any]:
        """What else a node is made of."""
        return {}

    def route(self, clock: ProcessClock, heartbeat: NodeHeartbeat) -> MemoryRouter:
        """A node's router: every node knows all instances, and tells of each that is lost."""
        losses = Losses(
            instances=self.instances,
            clock=clock,
            lost_after=10_000,
            complete_at=lambda: 0,
            log=self._write_log,
        )
        return MemoryRouter(instances=self.instances, terms=lambda _, __: Terms(), clock=clock, losses=losses)

    def freeze(self, name: str) -> None:
        """A process and its sidecar stand still; what needs them goes on elsewhere, where there is a node."""
        node = self.nodes[name]
        node.process.stillness.begin()
        node.client.stillness.begin()
        node.manager = self.world.nodes[name]
        self.world.kill(name)

    async def thaw(self, name: str) -> None:
        """They go on, the sidecar last, and find out what has become of the actors that they had."""
        node = self.nodes[name]
        node.process.stillness.end()
        await self.settle()
        node.client.stillness.end()
        assert node.manager is not None
        await self.world.come_back(name, node.manager)

    async def crash(self, name: str = "one") -> None:
        """A node dies where it stands; where it was the only one, another start of it comes up."""
        await self.settle()
        node = self.nodes.pop(name)
        self.gone.append(node)
        self.world.kill(name)
        node.client.is_cut = True
        await node.host.crash()
        if not self.nodes:
            self.sender = ScriptedSender(self.journal)
            self.targets.append(self.sender)
            self.clock.advance(10_001)  # until then a node of this name is taken for alive
            self.node = await self.add(name)
        else:
            self.node = next(iter(self.nodes.values()))

    async def recover(self) -> None:
        """Lets the sweep find what the dead node left."""
        await self.advance(14_000)

    async def settle(self) -> None:
        """Returns when everything that can go on without the clock has."""
        calm = 0
        for _ in range(2_000):
            for _ in range(4):
                await asyncio.sleep(0)
            at_work = (
                node.host.tasks_running for node in self.nodes.values() if not node.process.stillness.is_on
            )
            is_apart = await wait_for_large_work()
            calm = 0 if is_apart or any(at_work) else calm + 1
            if calm == 4:
                return

    def history_of_now(self) -> MemoryHistory:
        """The present process's."""
        return self.node.history

    def histories(self) -> list[MemoryHistory]:
        """Those of all processes there ever were."""
        return [node.history for node in (*self.gone, *self.nodes.values())]

    def records(self) -> list[Record]:
        """Every record that any history was given."""
        return [record for history in self.histories() for record in history.records()]

    def batches(self, job_id: str = "job") -> list[Batch]:
        """Every batch that any history was given."""
        given = [batch for history in self.histories() for batch, _ in history.batches]
        return [batch for batch in given if batch.job_id == job_id]

    def finished(self, job_id: str) -> list[ExecutionRecord]:
        """The records of executions that ended, of each the last one."""
        found = [record for batch in self.batches(job_id) for record in batch.records]
        ended = [one for one in found if isinstance(one, ExecutionRecord) and one.ended_at is not None]
        return list({one.execute_number: one for one in ended}.values())

    async def close(self) -> None:
        """Ends everything, what still stands still as well."""
        for node in self.nodes.values():
            node.process.stillness.end()
            node.client.stillness.end()
            await node.host.stop(0)
        await self.database.close()
        # Other tests may share the loop.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())


class EmbeddedHouse(House):
    """The embedded host with the same handles."""

    async def crash(self, name: str = "one") -> None:
        await self.settle()
        self._foreign = {task for task in asyncio.all_tasks() if not _is_ours(task)}
        self.lost = [*getattr(self, "lost", []), self.history]
        await super().crash()

    async def recover(self) -> None:
        """The next process starts and takes up what the last one left."""
        await self.start()

    async def start(self) -> "EmbeddedHouse":
        await super().start()
        return self

    def history_of_now(self) -> MemoryHistory:
        """The present process's."""
        return self.history

    def records(self) -> list[Record]:
        """Every record that any history was given."""
        histories = [*getattr(self, "lost", []), self.history]
        return [record for history in histories for record in history.records()]

    def batches(self, job_id: str = "job") -> list[Batch]:
        """Every batch that any history was given or that lies in the store."""
        given = [batch for history in getattr(self, "lost", []) for batch, _ in history.batches]
        return [*(batch for batch in given if batch.job_id == job_id), *super().batches(job_id)]

    async def close(self) -> None:
        """Ends the present process."""
        await self.host.stop(0)


class ApartHouse(EmbeddedHouse):
    """The same with its contexts of qos 1 in a store of their own, which outlives the processes too."""

    def __init__(self, **options: Any) -> None:
        self.contexts = MemoryContexts()
        super().__init__(**options)

    def keep(self, store: MemoryStore) -> StateStore:
        """Each process draws its own number."""
        keeper = ContextKeeper(contexts=self.contexts, log=self._write_log)
        return ApartTurns(store=store, keeper=keeper)


def _is_ours(task: asyncio.Task[Any]) -> bool:
    """Whether the service began this task, and not the test's runner."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and "scheduler_service" in code.co_filename


AnyHouse = EmbeddedHouse | DaprHouse
HOUSES: dict[str, type[EmbeddedHouse] | type[DaprHouse]] = {
    "embedded": EmbeddedHouse,
    "contexts apart": ApartHouse,
    "dapr stand-in": DaprHouse,
}
ON_SERVERS = {
    "dapr stand-in, postgresql": "postgres_cluster_url",
    "dapr stand-in, mariadb": "mariadb_cluster_url",
}
"""The same cluster with its tables on a server, and the fixture of its address."""


def moved(cluster: DaprHouse, names: tuple[str, str] = ("one", "two")) -> str:
    """An id whose actor moves to the second node as soon as that is there."""
    cluster.world.nodes = dict.fromkeys(names)  # type: ignore[arg-type]
    found = next(name for name in map(str, range(100)) if cluster.world.place(name) == names[1])
    cluster.world.nodes = {"one": ActorRuntime._actor_managers["job_scheduler"]}
    return found


async def freeze(cluster: DaprHouse) -> "asyncio.Future[None]":
    """The next turn's claim stands still before it reaches the database, until the future is set."""
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    shared = cluster.node.shared
    original = shared.claim

    async def hold(claim: TurnClaim) -> None:
        shared.claim = original  # type: ignore[method-assign]
        await gate
        await original(claim)

    shared.claim = hold  # type: ignore[method-assign]
    return gate


GONE = StoreUncertain("the server is gone")


def lose_next_claim(
    cluster: DaprHouse, *, is_written: bool = False, others_go_on: bool = False, error: StoreError = GONE
) -> None:
    """The next claim is taken, or is not, and ends with `error`; perhaps another node claims after it."""
    shared = cluster.node.shared
    claim = shared.claim

    async def lose(one: TurnClaim) -> None:
        shared.claim = claim  # type: ignore[method-assign]
        if is_written:
            await claim(one)
        if others_go_on:
            later = msgspec.structs.replace(
                one,
                expected=one.sequence,
                sequence=one.sequence + 1,
                holder=Holder("gone", "0"),
                deliveries=(),
            )
            await claim(later)
        raise error

    shared.claim = lose  # type: ignore[method-assign]
