"""Wires the rooms of the dapr host; where two need each other, the later one is asked by name."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.wire import Token
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
from scheduler_service.hosts.host_parts import HostParts
from scheduler_service.hosts.job_cache import JobCache, ProgramCache
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.hosts.timed_release import TimedRelease
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.cluster import ClusterNodes, ClusterStore
from scheduler_service.ports.history import Batch


class Cluster(msgspec.Struct, frozen=True):
    """What a node shares with the others: the SQL tables, and its own place among the nodes."""

    shared: ClusterStore
    nodes: ClusterNodes
    presence: NodeHeartbeat
    epoch: int


class DaprParts(HostParts, frozen=True, kw_only=True):
    """What the host of a node is made of. `owner_of` names the service that declared a restored job."""

    cluster: Cluster
    sidecar: Sidecar
    owner_of: OwnerOf = no_owner


def build_dapr_host(parts: DaprParts) -> DaprHost:
    """One node's host; it neither beats nor takes turns before `start`."""
    container = _DaprContainer(parts)
    return DaprHost(
        reach=container.reach,
        turns=container.turns,
        leaving=container.leaving,
        jobs=container.jobs,
        handovers=container.handovers,
        store=container.store,
        alarms=container.alarms,
        effects=container.effects,
        send_guard=container.send_guard,
        sweeper=container.sweeper,
        presence=parts.cluster.presence,
        history=parts.history,
        clock=parts.clock,
        tasks=container.tasks,
        log=parts.log,
    )


class _DaprContainer:
    """Each room is built when it is first asked for, out of those that it names."""

    def __init__(self, parts: DaprParts) -> None:
        self._parts = parts
        self._cluster = parts.cluster
        self._holder = parts.cluster.presence.holder
        self.tasks = Tasks()
        self.jobs = JobCache(most=parts.limits.hot)
        self.handovers = Handovers(others=lambda: parts.cluster.presence.others)

    @cached_property
    def store(self) -> ActorStore:
        return ActorStore(
            sidecar=self._parts.sidecar,
            shared=self._cluster.shared,
            clock=self._parts.clock,
            holder=self._holder,
            epoch=self._cluster.epoch,
            next_epoch=self._cluster.nodes.next_epoch,
            tenure=self._cluster.presence.tenure,
            others=lambda: self._cluster.presence.others,
            found=self._take_up,
            log=self._parts.log,
        )

    @cached_property
    def reach(self) -> ActorClient:
        return ActorClient(
            sidecar=self._parts.sidecar,
            shared=self._cluster.shared,
            programs=ProgramCache(store=self.store, compiler=self._parts.core.compile),
            holder=self._holder,
            tasks=self.tasks,
        )

    @cached_property
    def redelivery(self) -> Redelivery:
        parts = self._parts
        return Redelivery(take=self.reach.deliver, clock=parts.clock, lease=parts.limits.lease)

    @cached_property
    def effects(self) -> EffectHandlers:
        return EffectHandlers(
            self._parts, store=self.store, send_guard=self.send_guard, redelivery=self.redelivery
        )

    @cached_property
    def alarms(self) -> ReminderAlarms:
        parts = self._parts
        return ReminderAlarms(sidecar=parts.sidecar, clock=parts.clock, ring=self.reach.ring, log=parts.log)

    @cached_property
    def turns(self) -> ClusterTurns:
        return ClusterTurns(
            core=self._parts.core,
            store=self.store,
            turn=self._turn,
            jobs=self.jobs,
            handovers=self.handovers,
            alarms=self.alarms,
            alive=self._alive,
            clock=self._parts.clock,
            holder=self._holder,
            owner_of=self._parts.owner_of,
            log=self._parts.log,
        )

    @cached_property
    def leaving(self) -> Deactivation:
        return Deactivation(
            jobs=self.jobs,
            alarms=self.alarms,
            handovers=self.handovers,
            alive=lambda uid: self.effects.alive(uid),
            redelivery=self.redelivery,
            holder=self._holder,
            tasks=self.tasks,
            log=self._parts.log,
        )

    @cached_property
    def send_guard(self) -> NodeSendGuard:
        return NodeSendGuard(
            store=self.store,
            tenure=self._cluster.presence.tenure,
            leaving=self.leaving,
            redelivery=self.redelivery,
            holder=self._holder,
            clock=self._parts.clock,
            log=self._parts.log,
        )

    @cached_property
    def sweeper(self) -> Sweep:
        return Sweep(
            shared=self._cluster.shared,
            nodes=self._cluster.nodes,
            presence=self._cluster.presence,
            clock=self._parts.clock,
            ring=self.alarms.ring,
            found=self._take_up,
            log=self._parts.log,
        )

    @cached_property
    def _turn(self) -> Turn:
        return Turn(
            self._parts,
            store=self.store,
            holder=self._holder,
            boot=self._cluster.epoch,
            alarms=self.alarms,
            act=self.effects.act,
            alive=self._alive,
            wait_until=TimedRelease(clock=self._parts.clock).wait_until,
            away=self.handovers.away,
        )

    def _alive(self, uid: str) -> tuple[Token, ...]:
        return (*self.effects.alive(uid), *self.handovers.flying(uid))

    def _take_up(self, batches: Sequence[Batch], deliveries: Iterable[Delivery]) -> None:
        """What an earlier holder may not have brought to an end."""
        for batch in batches:
            self._parts.history.append(batch, durable=True)
        self.effects.notifications.adopt(deliveries)
