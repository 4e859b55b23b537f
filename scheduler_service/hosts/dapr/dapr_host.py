"""The dapr host: how it is built, and the turns of this process on the jobs whose actors live here."""

from collections.abc import Callable, Iterable, Sequence

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import Created
from scheduler_service.domain.wire import write_holder
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.background_tasks import STOPPING, Tasks, close_history, wait_for_rest
from scheduler_service.hosts.clock import TimedRelease
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.actor_turns import ClusterTurns
from scheduler_service.hosts.dapr.cluster_jobs import LONGEST_TURN_MS, ClusterJobs, TakeOver
from scheduler_service.hosts.dapr.direct_creation import DirectCreation
from scheduler_service.hosts.dapr.first_turns import FirstLoads, FirstRings
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.heartbeat import (
    CUT_OFF,
    DRAINING,
    OFF,
    OFFLINE_AFTER_MS,
    RUNNING,
    ActiveActors,
)
from scheduler_service.hosts.dapr.leaving import Deactivation, LastTurns, Leaving
from scheduler_service.hosts.dapr.node import DaprParts, LocalJobs
from scheduler_service.hosts.dapr.reminders import ReminderAlarms, Ring
from scheduler_service.hosts.dapr.send_guard import NodeSendGuard
from scheduler_service.hosts.dapr.sweep import Sweep
from scheduler_service.hosts.effect_handlers import EffectHandlers
from scheduler_service.hosts.event_redelivery import Redelivery
from scheduler_service.hosts.host import Host
from scheduler_service.hosts.host_dependencies import Act
from scheduler_service.hosts.job_cache import JobCache, OpenBytes
from scheduler_service.hosts.job_loading import ProgramCache
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreStopping
from scheduler_service.ports.history import Batch


class DaprHost(Host):
    """One node: events go to their jobs wherever these live, and turns on the jobs that live here are taken.

    Implements `ports.Deliver` for this process, and `hosts.dapr.actor` calls it for the sidecar.
    """

    def __init__(
        self,
        parts: DaprParts,
        *,
        client: ActorClient,
        creation: DirectCreation,
        first_loads: FirstLoads,
        local: LocalJobs,
        store: ClusterJobs,
        turns: ClusterTurns,
        leaving: Leaving,
        deactivation: Deactivation,
        send_guard: NodeSendGuard,
        effects: EffectHandlers,
        sweep: Sweep,
        tasks: Tasks,
    ) -> None:
        super().__init__(parts, jobs=local.cache, creation=creation, effects=effects, tasks=tasks)
        self._client = client
        self._handovers = local.handovers
        self._turns = turns
        self._leaving = leaving
        self._deactivation = deactivation
        self._send_guard = send_guard
        self._sweep = sweep
        self.active = local.active
        self.heartbeat = parts.cluster.heartbeat
        self._nodes = parts.cluster.nodes
        self.store = store
        self.alarms = local.alarms
        self.first_loads = first_loads

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes the turn. Raises StoreError. What is kept under an Idempotency-Key is the reply as JSON."""
        if isinstance(command.event, Created):
            return await self._to_its_end(self._creation.create(command))
        return await self._client(job_id, command)

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn, at whichever node it lives. Raises StoreError."""
        return await self._client.read(job_id)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """Nothing: another node may have a newer entry, so the catalogue is read."""
        return None

    async def other_holders(self) -> frozenset[str]:
        """The other nodes with fresh heartbeats, and the store: whoever has what is durable settles it."""
        seen_since = self._clock.now().steady - OFFLINE_AFTER_MS
        known = await self._nodes.list()  # of a moment ago this node may not know one that has just started
        alive = {node.holder for node in known if node.state != OFF and node.seen_at > seen_since}
        return frozenset({"", *map(write_holder, alive - {self.heartbeat.holder})})

    @property
    def is_healthy(self) -> bool:
        """Not while it gives its jobs away: then daprd moves them to the other nodes."""
        return not self._leaving.has_begun

    async def start(self) -> None:
        """Begins to write heartbeats, to sweep and to take turns."""
        self.heartbeat.start(
            figures=lambda: (self.jobs_held, self.running),
            on_standstill=self.recheck_cache,
            on_refresh=self._look_after_dead_nodes,
        )
        self._sweep.start()
        self._is_ready = True

    async def take(self, job_id: str, message: bytes) -> bytes:
        """Takes the turn of a message to its end, even if the caller is cancelled. Never raises."""
        self.active.add(job_id)
        return await self._to_its_end(self._turns.take(job_id, message))

    async def remind(self, job_id: str) -> None:
        """The job's reminder rang. Raises StoreStopping while the node stops: another one takes it."""
        self.active.add(job_id)
        self.alarms.rang(job_id)
        if self._is_draining and not self._jobs.is_live(job_id):
            raise StoreStopping(STOPPING)
        await self._to_its_end(self._turns.look(job_id))

    async def deactivate(self, job_id: str) -> None:
        """The job leaves this process. Never raises; returns within a second (`Deactivation`)."""
        self.active.remove(job_id)
        if self._leaving.has_begun:
            return
        await self._deactivation.deactivate(job_id)

    async def report_missing(self, missing: Sequence[str]) -> None:
        """Without its sidecar a node reaches no job: it reports that, so that the others take over."""
        if missing:
            self.active.clear()
        self.alarms.excuse(self._clock.now().steady)
        if self._leaving.has_begun and missing:
            self._client.close()
        if not self._is_draining:
            await self.heartbeat.report(CUT_OFF if "sidecar" in missing else RUNNING)

    def recheck_cache(self) -> None:
        """daprd started anew, or this process stood still: no actor is taken to be active here.

        Cached states are compared with the store before they are used.
        """
        self.active.clear()
        self.alarms.excuse(self._clock.now().steady)
        self.store.recheck_all()

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms: hands what runs to the other nodes, or lets it end
        (SPEC section 14)."""
        end = self._clock.now().steady + grace
        self._is_ready = False
        self._is_draining = True
        self._turns.stop_starting()
        self._creation.close()
        self.first_loads.close()
        self.active.close()
        await self.heartbeat.report(DRAINING)
        await wait_for_rest(lambda: self._is_at_work(end), clock=self._clock, end=end)
        await self._leaving.stop()
        await self._sweep.stop()
        await self.alarms.stop()
        await self.effects.stop()
        await self._send_guard.stop()
        await self._tasks.wait_for_all()
        self._deactivation.close()
        await self.heartbeat.stop()
        await close_history(self._history, self._log, clock=self._clock, until=end)

    async def crash(self) -> None:
        """Ends everything at once and reports nothing, as the death of the process does: for tests."""
        await self.heartbeat.cancel()
        self.first_loads.close()
        await self._leaving.stop()
        await self._sweep.cancel()
        await self.alarms.cancel()
        await self._tasks.cancel()
        await self._send_guard.stop()
        await self.effects.calls.stop()
        await self.effects.watches.stop()
        await self.notifications.stop()

    def _leave(self, end: int) -> None:
        """Another node is alive: what is here goes there. Calls have half of the rest of the drain."""
        now = self._clock.now().steady
        self._leaving.begin(now + (end - now) // 2)
        self._tasks.start(self._sweep.stop())

    def _is_at_work(self, end: int) -> bool:
        if self.heartbeat.others and not self._leaving.has_begun:
            self._leave(end)
        has_turns = self.alarms.is_ringing or len(self._tasks) + len(self._send_guard) > 0
        return has_turns or self._jobs.live > 0 or not self.effects.is_idle

    def _look_after_dead_nodes(self) -> None:
        """Jobs whose calls were in flight from a node that has died look at once."""
        self.alarms.excuse(self.heartbeat.left_at)
        for job_id in self._handovers.jobs_with_lost_calls():
            self._tasks.start(self.alarms.ring(job_id))


LONGEST_LINE_MS = LONGEST_TURN_MS // 2
"""A turn that waited for longer could hardly commit any more: it is delivered again, and begins then."""
LONGEST_PAUSE_MS = 2 * SECOND
"""An answer that comes while its job moves keeps the job from its next firing until it is delivered again."""


def build_dapr_host(parts: DaprParts) -> DaprHost:
    """One node's host; it writes no heartbeat and takes no turn before `start`."""

    # Calls go out through the send guard, which needs the handovers, which need the calls in flight, and the
    # turns need the alarms, whose rings are turns: what is built later is used by these functions.
    def take_over(batches: Sequence[Batch], deliveries: Iterable[Delivery]) -> None:
        for batch in batches:
            parts.history.append(batch, durable=True)
        effects.notifications.adopt(deliveries)

    tasks = Tasks()
    store = ClusterJobs(node=parts, take_over=take_over)
    programs = ProgramCache(read=store.definition, compiler=parts.core.compile)
    client = ActorClient(
        node=parts, programs=programs, tasks=tasks, take_here=lambda *of: turns.take_here(*of)
    )
    redelivery = Redelivery(
        take=client.deliver, clock=parts.clock, lease=parts.limits.lease, longest_pause=LONGEST_PAUSE_MS
    )
    local = _make_local_jobs(parts, client.ring, lambda: effects)
    send_guard = NodeSendGuard(node=parts, store=store, redelivery=redelivery)
    effects = EffectHandlers(
        parts, store=store, send_guard=send_guard, redelivery=redelivery, holder=parts.holder
    )
    turn = _make_turn(parts, local, store, effects.act)
    last_turns = LastTurns(node=parts, local=local, store=store, turn=turn)
    deactivation = Deactivation(node=parts, local=local, last_turns=last_turns, tasks=tasks)
    leaving = Leaving(node=parts, local=local, last_turns=last_turns, effects=effects)
    turns = ClusterTurns(node=parts, local=local, store=store, turn=turn, leaving=leaving, tasks=tasks)
    loads = FirstLoads(node=parts, client=client, alarms=local.alarms, tasks=tasks)
    return DaprHost(
        parts,
        client=client,
        first_loads=loads,
        creation=DirectCreation(node=parts, local=local, turn=turn, client=client, expect=loads.expect),
        local=local,
        store=store,
        turns=turns,
        leaving=leaving,
        deactivation=deactivation,
        send_guard=send_guard,
        effects=effects,
        sweep=_make_sweep(parts, local.alarms, loads, take_over),
        tasks=tasks,
    )


def _make_local_jobs(parts: DaprParts, ring: Ring, effects: Callable[[], EffectHandlers]) -> LocalJobs:
    limits = parts.limits
    return LocalJobs(
        cache=JobCache(
            most=limits.hot, most_bytes=limits.hot_bytes, open_bytes=OpenBytes(most=limits.open_bytes)
        ),
        alarms=ReminderAlarms(sidecar=parts.sidecar, clock=parts.clock, ring=ring, log=parts.log),
        handovers=Handovers(own=parts.holder, others=parts.others, stopping=parts.stopping),
        own_calls=lambda uid: effects().calls.alive(uid),
        end_watches=lambda uid: effects().watches.end_all(uid),
        active=ActiveActors(liveness=parts.cluster.heartbeat.liveness),
    )


def _make_sweep(parts: DaprParts, alarms: ReminderAlarms, loads: FirstLoads, take_over: TakeOver) -> Sweep:
    return Sweep(
        node=parts,
        ring=alarms.ring,
        lag=lambda: alarms.lag,
        first_rings=FirstRings(node=parts, ring_at=alarms.ring_at, expect=loads.expect),
        take_over=take_over,
    )


def _make_turn(parts: DaprParts, local: LocalJobs, store: ClusterJobs, act: Act) -> Turn:
    """The turn on a job; `act` starts its effects."""
    return Turn(
        parts,
        store=store,
        holder=parts.holder,
        boot=parts.cluster.epoch,
        alarms=local.alarms,
        act=act,
        alive=local.calls_in_flight,
        gone=local.handovers.calls_gone,
        wait_until=TimedRelease(clock=parts.clock).wait_until,
        open_bytes=local.cache.open_bytes,
        longest_line=LONGEST_LINE_MS,
    )
