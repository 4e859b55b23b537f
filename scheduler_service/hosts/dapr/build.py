"""Wires the rooms of the dapr host; where two need each other, the later one is asked by name."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import Token
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.core import Core, Redact
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.actor_store import ActorStore
from scheduler_service.hosts.dapr.deactivation import Deactivation
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.heartbeat import NodeHeartbeat
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.reminders import ReminderAlarms
from scheduler_service.hosts.dapr.send_guard import NodeSendGuard
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.dapr.sweep import Sweep
from scheduler_service.hosts.dapr.turns import ClusterTurns, OwnerOf, no_owner
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.identity import IdentitySource, NewIdentity
from scheduler_service.hosts.in_flight import wake_no_claimers
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.limits import DEFAULT_LIMITS, HostLimits
from scheduler_service.hosts.misfire_counter import Count
from scheduler_service.hosts.program_cache import ProgramCache
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.hosts.timed_release import TimedRelease
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.cluster import ClusterNodes, ClusterStore
from scheduler_service.ports.history import Batch, History
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Sender
from scheduler_service.ports.services import Router


class Cluster(msgspec.Struct, frozen=True):
    """What a node shares with the others: the SQL tables, and its own place among the nodes."""

    shared: ClusterStore
    nodes: ClusterNodes
    presence: NodeHeartbeat
    epoch: int


class DaprParts(msgspec.Struct, frozen=True, kw_only=True):
    """What a dapr host stands on."""

    core: Core
    cluster: Cluster
    sidecar: Sidecar
    history: History
    sender: Sender
    router: Router
    clock: Timekeeper
    redact: Redact
    count: Count
    log: Log
    owner_of: OwnerOf = no_owner
    lives: NewIdentity = msgspec.field(default_factory=IdentitySource)
    limits: HostLimits = DEFAULT_LIMITS


def build_dapr_host(ground: DaprParts) -> DaprHost:
    """One node's host; it neither beats nor takes turns before `start`."""
    rooms = _DaprContainer(ground)
    return DaprHost(
        reach=rooms.reach,
        turns=rooms.turns,
        leaving=rooms.leaving,
        actors=rooms.actors,
        handovers=rooms.handovers,
        store=rooms.store,
        alarms=rooms.alarms,
        outgoing=rooms.outgoing,
        gate=rooms.gate,
        sweeper=rooms.sweeper,
        presence=ground.cluster.presence,
        history=ground.history,
        clock=ground.clock,
        tasks=rooms.tasks,
        log=ground.log,
    )


class _DaprContainer:
    """Each room is built when it is first asked for, out of those that it names."""

    def __init__(self, ground: DaprParts) -> None:
        self._ground = ground
        self._cluster = ground.cluster
        self._holder = ground.cluster.presence.holder
        self.tasks = Tasks()
        self.actors = JobCache(most=ground.limits.hot)
        self.handovers = Handovers(others=lambda: ground.cluster.presence.others)

    @cached_property
    def store(self) -> ActorStore:
        return ActorStore(
            sidecar=self._ground.sidecar,
            shared=self._cluster.shared,
            clock=self._ground.clock,
            holder=self._holder,
            epoch=self._cluster.epoch,
            next_epoch=self._cluster.nodes.next_epoch,
            tenure=self._cluster.presence.tenure,
            others=lambda: self._cluster.presence.others,
            found=self._take_up,
            log=self._ground.log,
        )

    @cached_property
    def reach(self) -> ActorClient:
        return ActorClient(
            sidecar=self._ground.sidecar,
            shared=self._cluster.shared,
            programs=ProgramCache(store=self.store, compiler=self._ground.core.compile),
            holder=self._holder,
            tasks=self.tasks,
        )

    @cached_property
    def insistence(self) -> Redelivery:
        ground = self._ground
        return Redelivery(take=self.reach.deliver, clock=ground.clock, lease=ground.limits.lease)

    @cached_property
    def outgoing(self) -> EffectHandlers:
        return EffectHandlers(
            sender=self._ground.sender,
            gate=self.gate,
            router=self._ground.router,
            stir=wake_no_claimers,
            store=self.store,
            history=self._ground.history,
            insistence=self.insistence,
            clock=self._ground.clock,
            redact=self._ground.redact,
            count=self._ground.count,
            log=self._ground.log,
            limits=self._ground.limits,
        )

    @cached_property
    def alarms(self) -> ReminderAlarms:
        ground = self._ground
        return ReminderAlarms(
            sidecar=ground.sidecar, clock=ground.clock, ring=self.reach.ring, log=ground.log
        )

    @cached_property
    def turns(self) -> ClusterTurns:
        return ClusterTurns(
            core=self._ground.core,
            store=self.store,
            turn=self._turn,
            actors=self.actors,
            handovers=self.handovers,
            alarms=self.alarms,
            alive=self._alive,
            clock=self._ground.clock,
            holder=self._holder,
            owner_of=self._ground.owner_of,
            log=self._ground.log,
        )

    @cached_property
    def leaving(self) -> Deactivation:
        return Deactivation(
            actors=self.actors,
            alarms=self.alarms,
            handovers=self.handovers,
            alive=lambda uid: self.outgoing.alive(uid),
            insistence=self.insistence,
            holder=self._holder,
            tasks=self.tasks,
            log=self._ground.log,
        )

    @cached_property
    def gate(self) -> NodeSendGuard:
        return NodeSendGuard(
            store=self.store,
            tenure=self._cluster.presence.tenure,
            leaving=self.leaving,
            insistence=self.insistence,
            holder=self._holder,
            clock=self._ground.clock,
            log=self._ground.log,
        )

    @cached_property
    def sweeper(self) -> Sweep:
        return Sweep(
            shared=self._cluster.shared,
            nodes=self._cluster.nodes,
            presence=self._cluster.presence,
            clock=self._ground.clock,
            ring=self.alarms.ring,
            found=self._take_up,
            log=self._ground.log,
        )

    @cached_property
    def _turn(self) -> Turn:
        return Turn(
            core=self._ground.core,
            store=self.store,
            history=self._ground.history,
            clock=self._ground.clock,
            alarms=self.alarms,
            act=self.outgoing.act,
            alive=self._alive,
            redact=self._ground.redact,
            lives=self._ground.lives,
            holder=self._holder,
            boot=self._cluster.epoch,
            away=self.handovers.away,
            wait_until=TimedRelease(clock=self._ground.clock).wait_until,
        )

    def _alive(self, uid: str) -> tuple[Token, ...]:
        return (*self.outgoing.alive(uid), *self.handovers.flying(uid))

    def _take_up(self, batches: Sequence[Batch], deliveries: Iterable[Delivery]) -> None:
        """What an earlier holder may not have brought to an end."""
        for batch in batches:
            self._ground.history.append(batch, durable=True)
        self.outgoing.courier.adopt(deliveries)
