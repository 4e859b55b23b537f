"""The placement Dapr: nodes that join, die, halt and leave, over a shared database and stand-ins of sidecars.

A node is a process of its own (`loop.py`): the stand-in reaches it by tasks in that process, so that a turn
dies or stands still with it.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import cache
from typing import Any

from dapr.actor import ActorId
from dapr.actor.runtime.manager import ActorManager
from dapr.clients.exceptions import DaprInternalError

from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.clock import SystemClock
from scheduler_service.hosts.dapr.dapr_host import DaprHost, build_dapr_host
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.hosts.dapr.node import Cluster, DaprParts
from scheduler_service.hosts.dapr.sidecar import ActorContexts, Sidecar
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.sql.database import Database
from scheduler_service.ports.clock import Alarm
from scheduler_service.ports.cluster import TURNS_IN_ROWS, Node, TurnClaim
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.state import StoredJob
from scheduler_service.security.record_masking import Masking
from tests.conformance.hosts.process import Process, ProcessDatabase, ProcessStore
from tests.conformance.hosts.standin import TIMEOUT_FACTOR, StandIn, StandInClient
from tests.simulation.alone import LIMITS, Life, keep_nothing
from tests.simulation.callers import NoAnswer
from tests.simulation.disk import Disk, SimulatedHistory
from tests.simulation.faults import KillingPoints
from tests.simulation.loop import SimulatedProcess, VirtualLoop, outside, set_once
from tests.simulation.world import World, WorldPlan
from tests.unit.hosts.house import CORE

QUIET_SECONDS = 60
TAKEN_OVER_SECONDS = 30.0
STARTED_SECONDS = 1.0
POINTS = {"claim": "commit", "claims": "commit", "save": "write", "outbox": "write", "settlement": "write"}


class Reached:
    """A node's actors as the sidecars reach them: by tasks of its process."""

    def __init__(self, manager: ActorManager, process: SimulatedProcess, around: World) -> None:
        self.manager = manager
        self._process = process
        self._around = around

    async def dispatch(self, actor_id: ActorId, method: str, data: bytes) -> bytes:
        """One turn. Raises DaprInternalError: the node is gone."""
        return bytes(await self._there(lambda: self.manager.dispatch(actor_id, method, data)))

    async def fire_reminder(self, actor_id: ActorId, name: str, data: bytes) -> None:
        """A reminder."""
        await self._there(lambda: self.manager.fire_reminder(actor_id, name, data))

    async def deactivate_actor(self, actor_id: ActorId) -> None:
        """The actor lives elsewhere from now on."""
        await self._there(lambda: self.manager.deactivate_actor(actor_id))

    @property
    def _active_actors(self) -> dict[str, Any]:
        return self.manager._active_actors

    async def _there(self, call: Callable[[], Awaitable[Any]]) -> Any:
        answer: asyncio.Future[Any] = self._around.loop.create_future()

        async def take() -> None:
            try:
                found = await call()
            except Exception as error:  # noqa: BLE001 - it is the sidecar's answer
                if not answer.done():
                    answer.set_exception(error)
                return
            set_once(answer, found)

        self._process.start(take())
        self._process.tell_of_death(lambda: _fail_once(answer))
        return await answer


class CountedPoints:
    """The points of the conformance suite's process, counted with those of the world."""

    def __init__(self, points: KillingPoints, process: SimulatedProcess) -> None:
        self._points = points
        self._process = process

    async def pass_by(self, _: str, what: str) -> None:
        side, _, name = what.partition(" ")
        await self._points.pass_by(self._process, f"{side} {POINTS.get(name, name)}")


class WatchedStore(ProcessStore):
    """The shared tables, in the hands of one life; what it has claimed is written down."""

    watch: Callable[[TurnClaim], None]

    async def claim(self, claim: TurnClaim) -> None:
        await super().claim(claim)
        self.watch(claim)

    async def claim_all(self, claims: Sequence[TurnClaim]) -> Sequence[StoreError | None]:
        errors = await super().claim_all(claims)
        for claim, error in zip(claims, errors, strict=True):
            if error is None:
                self.watch(claim)
        return errors


class ClusterLife(Life):
    """One process of one node, from its start to its end."""

    node: DaprHost | None = None

    def __init__(self, around: World, number: int, name: str, shared: "SharedWorld") -> None:
        super().__init__(around, number)
        self.name = name
        self._shared = shared
        self.client: StandInClient | None = None

    @property
    def is_up(self) -> bool:
        return self.node is not None and self.up_at is not None and not self.process.is_dead

    def forget(self) -> None:
        super().forget()
        self.node = self.client = None

    async def serve(self) -> None:
        around, process, name = self._around, self.process, self.name
        counted = Process(name, CountedPoints(around.points, process))  # type: ignore[arg-type]
        database = ProcessDatabase(self._shared.database, counted)
        store = WatchedStore(database=database, process=counted)
        store.watch = self._note
        nodes = Nodes(database=database)
        clock = SystemClock(
            skew=self._shared.skew, on_step=keep_nothing, wall=around.wall, monotonic=around.loop.time
        )
        epoch, now = await nodes.next_epoch(), clock.now()
        said = Node(
            name, str(epoch), f"http://{name}", "0", "running", now.wall, now.steady, 0, 0, TURNS_IN_ROWS
        )
        heartbeat = NodeHeartbeat(nodes=nodes, clock=clock, node=said, log=self.log)
        await heartbeat.enter()
        self.client = StandInClient(self._shared.standin, name, counted.doing)
        history = SimulatedHistory(archive=around.disk.archive, risks=self._risks)
        sidecar = Sidecar(client=self.client, timeout_factor=TIMEOUT_FACTOR)
        parts = DaprParts(
            core=CORE,
            contexts=ActorContexts(sidecar=sidecar),
            cluster=Cluster(store=store, nodes=nodes, heartbeat=heartbeat, epoch=epoch),
            sidecar=sidecar,
            clock=clock,
            log=self.log,
            history=history,
            sender=self._sender(clock.now),
            router=self._router(clock),
            redact=Masking().redact_all,
            new_identity=around.new_identity,
            limits=LIMITS,
        )
        node = build_dapr_host(parts)
        history.confirm = node.store.written
        await self._shared.join(name, node, self)
        await node.start()
        self.node = node
        self.host = self.jobs = node  # type: ignore[assignment]
        self.up_at = around.loop.time()
        around.note(process.name, f"{name} is up, epoch {epoch}")
        await self._resend()

    def _note(self, claim: TurnClaim) -> None:
        self._around.disk.note(self.process.name, claim.commit, self._around.loop)


class OutsideClock(SystemClock):
    """Reminders and probes outlive the node that asked for them."""

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        return outside(lambda: SystemClock.call_after(self, pause, call))


class SharedWorld:
    """What the nodes of a cluster share: the database, placement, and the sidecars' own."""

    def __init__(self, around: World) -> None:
        self._around = around
        self.skew = 0
        self.standin = StandIn(
            OutsideClock(skew=0, on_step=keep_nothing, wall=around.wall, monotonic=around.loop.time)  # type: ignore[arg-type]
        )
        self.database = around.disk.database

    async def join(self, name: str, node: DaprHost, life: ClusterLife) -> None:
        """A node comes up; what moves for it goes on moving if it dies."""

        def reach(manager: ActorManager) -> Any:
            return Reached(manager, life.process, self._around)

        joining = self.standin.join(name, node, reach)
        await outside(lambda: self._around.loop.create_task(joining))


def _fail_once(answer: "asyncio.Future[Any]") -> None:
    if not answer.done():
        answer.set_exception(DaprInternalError("the node is gone"))


@cache
def cluster_template() -> bytes:
    """The tables of a cluster."""
    database = Database(url="sqlite://", migrations=MIGRATIONS)
    with closing(database), database.reading() as connection:
        raw: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]
        return raw.serialize()


class ClusterWorld(World):
    """A world in which a cluster of two or three nodes runs the jobs."""

    def __init__(self, plan: WorldPlan, loop: VirtualLoop) -> None:
        super().__init__(plan, loop)
        self._shared = SharedWorld(self)
        self._names = ("one", "two", "three")[: self.chance("nodes").choice((2, 3))]
        self._present: dict[str, ClusterLife] = {}
        self._which = self.chance("which")

    def _make_disk(self) -> Disk:
        return Disk(cluster_template)

    async def _open(self) -> None:
        for name in self._names:
            self._start(name, 0)
            await asyncio.sleep(0.1)

    def _start(self, name: str, down: int) -> None:
        self._lives += 1
        life = self._present[name] = ClusterLife(self, self._lives, name, self._shared)
        self.lives.append(life)
        self.loop.call_later(down / 1_000, lambda: self._serve(life))

    async def _deliver(self, job_id: str, command: Command) -> Reply:
        up = [life for life in self._present.values() if life.is_up and not life.process.is_frozen]
        if not up:
            raise NoAnswer
        return await self._which.choice(up).deliver(job_id, command)

    def _victim(self) -> Life | None:
        up = [life for life in self._present.values() if life.is_up and not life.process.is_frozen]
        return self._which.choice(up) if up else None

    def _kill_life(self, life: Life, down: int) -> None:
        assert isinstance(life, ClusterLife)
        life.died_at = self.loop.time()
        life.process.kill()
        if life.client is not None:
            life.client.is_cut = True
        self._shared.standin.kill(life.name)
        self._start(life.name, down)

    async def _freeze(self, life: Life, during: int) -> None:
        """Its sidecar stands still with it: its actors move, and it finds that out when it goes on."""
        assert isinstance(life, ClusterLife)
        standin = self._shared.standin
        reached = standin.nodes.get(life.name) or standin.ill[life.name]
        life.process.freeze()
        standin.kill(life.name)
        await asyncio.sleep(during / 1_000)
        life.process.thaw()
        if not life.process.is_dead:
            with contextlib.suppress(DaprInternalError):  # killed while it was told
                await standin.come_back(life.name, reached)

    def is_calm(self, begin: float, end: float, job_id: str) -> bool:
        """Nor did a node come or go in the half minute before, which a cluster may take (SPEC section 8)."""
        since = begin - TAKEN_OVER_SECONDS
        changes = [moment for life in self.lives for moment in (life.up_at, life.died_at) if moment]
        has_change = any(since <= moment <= end and moment > STARTED_SECONDS for moment in changes)
        return not has_change and all(until < since or end < at for at, until in self.troubled)

    def forget(self) -> None:
        """Nor do the sidecars know anybody any more."""
        super().forget()
        self._present.clear()
        self._shared.standin.nodes.clear()
        self._shared.standin.ill.clear()

    async def _is_over(self) -> bool:
        """Whether all executions have ended, and nothing was said for a while.

        The rows do not tell: what the history has not confirmed lies within them.
        """
        latest = max((seen.at for seen in self.targets.seen), default=0.0)
        return self.loop.time() - max(latest, self.plan.horizon / 1_000) > QUIET_SECONDS

    async def _end(self) -> None:
        for life in self.lives:
            life.process.kill()
        for written in self.disk.written:
            self.left[written.commit.entry.job_id] = StoredJob(
                written.commit.entry, written.commit.sequence, written.commit.document, written.commit.due
            )
