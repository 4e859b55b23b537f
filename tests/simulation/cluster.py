"""The placement Dapr: nodes that join, die, halt and leave, over a shared database and stand-ins of sidecars.

A node is a process of its own (`loop.py`): the stand-in reaches it by tasks in that process, so that a turn
dies or stands still with it.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
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
from scheduler_service.hosts.dapr.sidecar import ALARM, ActorContexts, Sidecar, SidecarUnreached
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.sql.database import Database
from scheduler_service.ports.clock import Alarm
from scheduler_service.ports.cluster import TURNS_IN_ROWS, Node
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreStopping
from scheduler_service.ports.state import StoredJob
from scheduler_service.security.history_masking import Masking
from tests.conformance.hosts.standin import NOT_PERIODIC, Call, StandIn, StandInClient, name_of
from tests.simulation.alone import LIMITS, Life, keep_nothing
from tests.simulation.callers import NoAnswer
from tests.simulation.disk import (
    SLOWEST_SECONDS,
    Disk,
    SimulatedDatabase,
    SimulatedHistory,
    answer_with,
)
from tests.simulation.faults import OUTAGES, Freeze, Kill, KillAt, SidecarTrouble, Stop, StoreTrouble, Trouble
from tests.simulation.loop import SimulatedProcess, VirtualLoop, outside, set_once
from tests.simulation.world import World, WorldPlan
from tests.unit.hosts.house import CORE

QUIET_SECONDS = 60
TAKEN_OVER_SECONDS = 30.0
STARTED_SECONDS = 1.0
HANGING_SECONDS, LATEST_SECONDS = 0.25, 15.0
DEADLY = (Kill, KillAt, Freeze, Stop, StoreTrouble)


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
                answer_with(answer, await call())
            except Exception as error:  # noqa: BLE001 - it is the sidecar's answer
                answer_with(answer, error)

        self._process.start(take())
        gone = DaprInternalError("the node is gone")
        self._process.tell_of_death(lambda: answer_with(answer, gone))
        return await answer


class SimulatedClient(StandInClient):
    """A node's daprd, and the way to it: what it has begun it ends, whoever still awaits the answer."""

    timeout_factor = 1.0

    def __init__(self, shared: "SharedWorld", life: "ClusterLife") -> None:
        super().__init__(shared.standin, life.name, life.doing)
        self._shared = shared
        self._loop = life.process.loop

    async def carry(self, call: Call) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        outside(lambda: self._loop.create_task(self._carry_out(call, answer)))
        return await answer

    async def _carry_out(self, call: Call, answer: "asyncio.Future[Any]") -> None:
        try:
            answer_with(answer, await self._meet_troubles(call))
        except Exception as error:  # noqa: BLE001 - it is the sidecar's answer
            answer_with(answer, error)

    async def _meet_troubles(self, call: Call) -> Any:
        trouble = self._shared.trouble_of(self.node)
        while trouble == "hanging":
            await asyncio.sleep(HANGING_SECONDS)
            trouble = self._shared.trouble_of(self.node)
        if trouble == "refused":
            raise SidecarUnreached("the sidecar takes no connection")
        if trouble == "slow":
            await asyncio.sleep(self._shared.chance.uniform(0.2, SLOWEST_SECONDS))
        if trouble == "forgetful" and call.func.__name__ == "get_state":
            self._shared.forget(*call.args[2:])
        found = await call()
        if trouble == "twice" and call.func.__name__ == "invoke_method":
            await asyncio.sleep(self._shared.chance.uniform(1, 2))
            found = await call()
        if trouble == "lost":
            raise DaprInternalError("the answer is lost")
        return found


class ClusterLife(Life):
    """One process of one node, from its start to its end."""

    node: DaprHost | None = None
    reached: Reached

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
        self.__dict__.pop("reached", None)

    async def serve(self) -> None:
        around, name = self._around, self.name
        database = SimulatedDatabase(disk=around.disk, risks=self._risks)
        store = TurnStore(database=database)
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
        self.client = SimulatedClient(self._shared, self)
        history = SimulatedHistory(archive=around.disk.archive, risks=self._risks)
        sidecar = Sidecar(client=self.client)
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
        around.note(self.process.name, f"{name} is up, epoch {epoch}")
        self.process.start(self._watch_sidecar(node))
        await self._resend()

    @asynccontextmanager
    async def doing(self, _: str) -> AsyncIterator[None]:
        """What its sidecar writes for it."""
        await self._risks.pass_by("before write")
        yield
        await self._risks.pass_by("after write")

    async def _watch_sidecar(self, node: DaprHost) -> None:
        """What `SidecarWatch` does."""
        was_away = False
        while True:
            known = len(node.active)
            await asyncio.sleep(1)
            is_away = self._shared.trouble_of(self.name) in OUTAGES
            if not is_away:
                node.active.compare(self._shared.count_active(self.name), known)
            if is_away != was_away:
                await node.report_missing(["sidecar"] if is_away else [])
            was_away = is_away


class OutsideClock(SystemClock):
    """Reminders and probes outlive the node that asked for them."""

    def call_after(self, pause: int, call: Callable[[], object]) -> Alarm:
        return outside(lambda: SystemClock.call_after(self, pause, call))


class SimulatedStandIn(StandIn):
    """Reminders that come late, twice, or where the actor was."""

    def __init__(self, clock: OutsideClock, shared: "SharedWorld") -> None:
        super().__init__(clock)  # type: ignore[arg-type]
        self._shared = shared

    async def fire(self, actor_id: str, name: str, moment: int) -> None:
        trouble, chance = self._shared.trouble_of(""), self._shared.chance
        if trouble == "slow":
            await asyncio.sleep(chance.uniform(1, 10))
        await super().fire(actor_id, name, moment)
        if trouble == "twice":
            await asyncio.sleep(chance.choice((0, 1)))
            await super().fire(actor_id, name, moment)

    async def fire_astray(self, actor_id: str) -> None:
        """By a table of placement that is out of date; the new one takes the actor away."""
        manager = self.nodes[self._shared.chance.choice(sorted(self.nodes))]
        if actor_id in manager._active_actors:
            return
        with contextlib.suppress(DaprInternalError):  # dead by now
            with contextlib.suppress(StoreStopping):
                await manager.fire_reminder(ActorId(actor_id), ALARM, NOT_PERIODIC)
            if actor_id in manager._active_actors:
                await manager.deactivate_actor(ActorId(actor_id))


class SharedWorld:
    """What the nodes of a cluster share: placement, the sidecars, and their store of states."""

    def __init__(self, around: World) -> None:
        self._around = around
        self.skew = 0
        self.chance = around.chance("sidecars")
        clock = OutsideClock(skew=0, on_step=keep_nothing, wall=around.wall, monotonic=around.loop.time)
        self.standin = SimulatedStandIn(clock, self)
        self.standin.before_save = self._hold_back

    def trouble_of(self, node: str) -> str:
        """What the sidecar of `node` meets now."""
        return self._around.troubles.of(SidecarTrouble, node)

    def count_active(self, node: str) -> int:
        """How many actors its sidecar has active."""
        return list(self.standin.active.values()).count(node)

    async def join(self, name: str, node: DaprHost, life: ClusterLife) -> None:
        """A node comes up; what moves for it goes on moving if it dies."""

        def reach(manager: ActorManager) -> Any:
            life.reached = Reached(manager, life.process, self._around)
            return life.reached

        joining = self.standin.join(name, node, reach)
        await outside(lambda: self._around.loop.create_task(joining))

    def _hold_back(self, node: str, _: str) -> "asyncio.Future[None] | None":
        """A state that was accepted may be written late."""
        if self.trouble_of(node) != "late":
            return None
        written: asyncio.Future[None] = self._around.loop.create_future()
        self._around.loop.call_later(self.chance.uniform(0.6, LATEST_SECONDS), set_once, written, None)
        return written

    def forget(self, actor_id: str, key: str) -> None:
        """The store of states has lost it."""
        if self.standin.state.pop(name_of(actor_id, key), None) is not None:
            self._around.forgotten.add(actor_id)


@cache
def cluster_template() -> bytes:
    """The tables of a cluster."""
    database = Database(url="sqlite://", migrations=MIGRATIONS)
    with closing(database), database.reading() as connection:
        raw: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]
        return raw.serialize()


class ClusterWorld(World):
    """A world in which a cluster of two or three nodes runs the jobs."""

    unmet = (KillAt,)

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
        life.process.freeze()
        self._shared.standin.kill(life.name)
        await asyncio.sleep(during / 1_000)
        life.process.thaw()
        await self._come_back(life)

    async def outlast(self, fault: Trouble) -> None:
        """A daprd that is away comes back, and knows its actors no more where it was dead."""
        life = (
            self._present.get(fault.node) if isinstance(fault, SidecarTrouble) and fault.is_outage else None
        )
        if life is not None and life.is_up:
            self._shared.standin.kill(life.name)
        if isinstance(fault, SidecarTrouble) and fault.kind == "astray":
            self._begin(self._fire_astray(self.loop.time() + fault.during / 1_000))
        await super().outlast(fault)
        if life is None or not life.is_up or life.process.is_frozen:
            return
        if fault.kind == "hanging":
            await self._come_back(life)
        else:
            self._shared.standin.nodes[life.name] = life.reached
            life.node.recheck_cache()
            await self._shared.standin.rebalance()

    async def _fire_astray(self, end: float) -> None:
        """Reminders that were on their way when their actors moved."""
        standin = self._shared.standin
        while self.loop.time() < end:
            await asyncio.sleep(self._which.uniform(0.1, 4))
            if standin.active and standin.nodes:
                self._begin(standin.fire_astray(self._which.choice(sorted(standin.active))))

    async def _come_back(self, life: ClusterLife) -> None:
        if not life.process.is_dead:
            standin = self._shared.standin
            with contextlib.suppress(DaprInternalError):  # killed while it was told
                await standin.come_back(life.name, life.reached)
            await standin.rebalance()

    def is_calm(self, begin: float, end: float, job_id: str) -> bool:
        """Nor did a node come or go in the half minute before, which a cluster may take (SPEC section 8)."""
        since = begin - TAKEN_OVER_SECONDS
        changes = [moment for life in self.lives for moment in (life.up_at, life.died_at) if moment]
        has_change = any(since <= moment <= end and moment > STARTED_SECONDS for moment in changes)
        return not has_change and all(until < since or end < at for at, until in self.troubled)

    def may_lose(self, job_id: str) -> bool:
        return any(
            fault.kind in OUTAGES if isinstance(fault, SidecarTrouble) else isinstance(fault, DEADLY)
            for fault in self.plan.faults
        )

    def forget(self) -> None:
        """Nor do the sidecars know anybody any more."""
        super().forget()
        self._present.clear()
        del self._shared.standin

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
