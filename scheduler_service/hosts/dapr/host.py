"""The dapr host: turns run in this process for the jobs whose actors live here."""

import asyncio
from collections.abc import Sequence

import msgspec

from scheduler_service.domain.events import Created
from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.deactivation import Deactivation
from scheduler_service.hosts.dapr.direct_creation import DirectCreation
from scheduler_service.hosts.dapr.first_loads import FirstLoads
from scheduler_service.hosts.dapr.heartbeat import HeartbeatListener
from scheduler_service.hosts.dapr.job_store import ClusterJobs
from scheduler_service.hosts.dapr.leaving import Leaving
from scheduler_service.hosts.dapr.liveness import CUT_OFF, DRAINING, RUNNING
from scheduler_service.hosts.dapr.local_turns import LocalTurns
from scheduler_service.hosts.dapr.node import LocalJobs, NodeContext
from scheduler_service.hosts.dapr.send_guard import NodeSendGuard
from scheduler_service.hosts.dapr.sweep import Sweep
from scheduler_service.hosts.dapr.turns import ClusterTurns
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.tasks import STOPPING, Tasks, close_history, wait_for_rest
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreStopping
from scheduler_service.ports.history import History


class HostComponents(msgspec.Struct, frozen=True, kw_only=True):
    """What `build` makes for the host of one node."""

    client: ActorClient
    creation: DirectCreation
    first_loads: FirstLoads
    local: LocalJobs
    store: ClusterJobs
    turns: ClusterTurns
    leaving: Leaving
    local_turns: LocalTurns
    deactivation: Deactivation
    send_guard: NodeSendGuard
    effects: EffectHandlers
    sweep: Sweep
    history: History
    tasks: Tasks


class DaprHost:
    """One node: events go to their jobs wherever these live, and turns on the jobs that live here are taken.

    Implements `ports.Deliver` for this process, and `hosts.dapr.actor.Turns` for the sidecar.
    """

    _is_ready = False
    _is_draining = False

    def __init__(self, *, node: NodeContext, components: HostComponents) -> None:
        self._node = node
        self._components = components
        self._client = components.client
        self._cache = components.local.cache
        self.active = components.local.active
        self._turns = components.turns
        self._leaving = components.leaving
        self._tasks = components.tasks
        self.heartbeat = node.cluster.heartbeat
        self.store = components.store
        self.alarms = components.local.alarms
        self.effects = components.effects
        self.notifications = components.effects.notifications
        self.create_all = components.creation.create_all
        self.first_loads = components.first_loads
        self.read = components.client.read

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes the turn. Raises StoreError. What is kept under an Idempotency-Key is the reply as JSON."""
        if isinstance(command.event, Created):
            return await self._components.creation.create(job_id, command)
        return await self._client(job_id, command)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """Nothing: another node may have a newer entry, so the catalogue is read."""
        return None

    @property
    def is_ready(self) -> bool:
        """Whether the host takes turns."""
        return self._is_ready

    @property
    def is_draining(self) -> bool:
        """Whether the node is stopping."""
        return self._is_draining

    @property
    def is_healthy(self) -> bool:
        """Not while it gives its jobs away: then daprd moves them to the other nodes."""
        return not self._leaving.has_begun

    @property
    def jobs_held(self) -> int:
        """How many jobs are in memory."""
        return len(self._cache)

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return self._cache.live

    @property
    def open_bytes(self) -> int:
        """How much open executions keep in memory (`hosts.open_bytes`)."""
        return self._cache.open_bytes.total

    @property
    def tasks_running(self) -> int:
        """How many turns and deliveries are under way."""
        return len(self._tasks)

    async def start(self) -> None:
        """Begins to write heartbeats, to sweep and to take turns."""
        self.heartbeat.start(
            HeartbeatListener(
                figures=lambda: (self.jobs_held, self.running),
                on_standstill=self.recheck_cache,
                on_refresh=self._look_after_dead_nodes,
            )
        )
        self._components.sweep.start()
        self._is_ready = True

    async def take(self, job_id: str, message: bytes) -> bytes:
        """Takes the turn of a message to its end, even if the caller is cancelled. Never raises."""
        self.active.add(job_id)
        return await asyncio.shield(self._tasks.start(self._turns.take(job_id, message)))

    async def remind(self, job_id: str) -> None:
        """The job's reminder rang. Raises StoreStopping while the node stops: another one takes it."""
        self.active.add(job_id)
        self.alarms.rang(job_id)
        if self._is_draining and not self._cache.is_live(job_id):
            raise StoreStopping(STOPPING)
        await asyncio.shield(self._tasks.start(self._turns.look(job_id)))

    async def deactivate(self, job_id: str) -> None:
        """The job leaves this process. Never raises; returns within a second (`Deactivation`)."""
        self.active.remove(job_id)
        if self._leaving.has_begun:
            return
        await self._components.deactivation.deactivate(job_id)

    async def report_missing(self, missing: Sequence[str]) -> None:
        """Without its sidecar a node reaches no job: it reports that, so that the others take over."""
        if missing:
            self.active.clear()
        self.alarms.excuse(self._node.clock.now().steady)
        if self._leaving.has_begun and missing:
            self._client.close()
        if not self._is_draining:
            await self.heartbeat.report(CUT_OFF if "sidecar" in missing else RUNNING)

    def recheck_cache(self) -> None:
        """daprd started anew, or this process stood still: no actor is taken to be active here.

        Cached states are compared with the store before they are used.
        """
        self.active.clear()
        self.alarms.excuse(self._node.clock.now().steady)
        self.store.recheck_all()

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms: hands what runs to the other nodes, or lets it end
        (SPEC section 14)."""
        end = self._node.clock.now().steady + grace
        self._is_ready = False
        self._is_draining = True
        self._turns.stop_starting()
        self._components.creation.close()
        self.first_loads.close()
        self.active.close()
        await self.heartbeat.report(DRAINING)
        await wait_for_rest(lambda: self._is_at_work(end), clock=self._node.clock, end=end)
        await self._leaving.stop()
        await self._components.sweep.stop()
        await self.alarms.stop()
        await self.effects.stop()
        await self._components.send_guard.stop()
        await self._tasks.wait_for_all()
        self._components.deactivation.close()
        await self.heartbeat.stop()
        await close_history(self._components.history, self._node.log, clock=self._node.clock, until=end)

    async def crash(self) -> None:
        """Ends everything at once and reports nothing, as the death of the process does: for tests."""
        await self.heartbeat.cancel()
        self.first_loads.close()
        await self._leaving.stop()
        await self._components.sweep.cancel()
        await self.alarms.cancel()
        await self._tasks.cancel()
        await self._components.send_guard.stop()
        await self.effects.calls.stop()
        await self.effects.parts.stop()
        await self.effects.watches.stop()
        await self.notifications.stop()

    def _leave(self, end: int) -> None:
        """Another node is alive: what is here goes there. Calls have half of the rest of the drain."""
        now = self._node.clock.now().steady
        self._leaving.begin(now + (end - now) // 2)
        self._tasks.start(self._components.sweep.stop())

    def _is_at_work(self, end: int) -> bool:
        if self.heartbeat.others and not self._leaving.has_begun:
            self._leave(end)
        has_turns = self.alarms.is_ringing or len(self._tasks) + len(self._components.send_guard) > 0
        return has_turns or self._cache.live > 0 or not self.effects.is_idle

    def _look_after_dead_nodes(self) -> None:
        """Jobs whose calls were in flight from a node that has died look at once."""
        self.alarms.excuse(self.heartbeat.left_at)
        for job_id in self._components.local.handovers.jobs_with_lost_calls():
            self._tasks.start(self.alarms.ring(job_id))
