"""Builds the dapr host of one node."""

from collections.abc import Callable, Iterable, Sequence

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.clock import TimedRelease
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.direct_creation import DirectCreation
from scheduler_service.hosts.dapr.first_turns import FirstLoads, FirstRings
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.host import DaprHost
from scheduler_service.hosts.dapr.job_store import LONGEST_TURN_MS, ClusterJobs, TakeOver
from scheduler_service.hosts.dapr.leaving import Deactivation, Leaving
from scheduler_service.hosts.dapr.liveness import ActiveActors
from scheduler_service.hosts.dapr.node import Cluster, LocalJobs, NodeContext
from scheduler_service.hosts.dapr.reminders import ReminderAlarms, Ring
from scheduler_service.hosts.dapr.send_guard import NodeSendGuard
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.hosts.dapr.sweep import Sweep, Tend, tend_nothing
from scheduler_service.hosts.dapr.turns import ClusterTurns, OwnerOf, no_owner
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.host_parts import Act, HostParts
from scheduler_service.hosts.job_cache import JobCache, OpenBytes
from scheduler_service.hosts.job_loading import ProgramCache
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.contexts import Contexts
from scheduler_service.ports.history import Batch

LONGEST_LINE_MS = LONGEST_TURN_MS // 2
"""A turn that waited for longer could hardly commit any more: it is delivered again, and begins then."""
LONGEST_PAUSE_MS = 2 * SECOND
"""An answer that comes while its job moves keeps the job from its next firing until it is delivered again."""


class DaprParts(HostParts, frozen=True, kw_only=True):
    """What a dapr host is built from. `owner_of` is the service that a restored job belongs to.

    `contexts` has the contexts of qos 1; None: the rows of their jobs. `tend_queues` is called once a second,
    at one node at a time.
    """

    cluster: Cluster
    sidecar: Sidecar
    owner_of: OwnerOf = no_owner
    contexts: Contexts | None = None
    puts_contexts: bool = True
    tend_queues: Tend = tend_nothing


def build_dapr_host(parts: DaprParts) -> DaprHost:
    """One node's host; it writes no heartbeat and takes no turn before `start`."""
    node = NodeContext(cluster=parts.cluster, sidecar=parts.sidecar, clock=parts.clock, log=parts.log)

    # Calls go out through the send guard, which needs the handovers, which need the calls in flight, and the
    # turns need the alarms, whose rings are turns: what is built later is used by these functions.
    def take_over(batches: Sequence[Batch], deliveries: Iterable[Delivery]) -> None:
        for batch in batches:
            parts.history.append(batch, durable=True)
        effects.notifications.adopt(deliveries)

    tasks = Tasks()
    store = ClusterJobs(node=node, take_over=take_over, contexts=parts.contexts, puts=parts.puts_contexts)
    programs = ProgramCache(read=store.definition, compiler=parts.core.compile)
    client = ActorClient(
        node=node, programs=programs, tasks=tasks, take_here=lambda *of: turns.take_here(*of)
    )
    redelivery = _make_redelivery(parts, node, client)
    local = _make_local_jobs(parts, node, client.ring, lambda: effects)
    deactivation = Deactivation(
        node=node,
        local=local,
        redelivery=redelivery,
        tasks=tasks,
        resolve=lambda *of: turn.resolve(*of),
    )
    send_guard = NodeSendGuard(node=node, store=store, deactivation=deactivation, redelivery=redelivery)
    effects = EffectHandlers(parts, store=store, send_guard=send_guard, redelivery=redelivery)
    turn = _make_turn(parts, node, local, store, effects.act)
    leaving = Leaving(node=node, local=local, store=store, turn=turn, effects=effects)
    turns = _make_turns(parts, node, local, store, turn, leaving, tasks)
    first_loads = FirstLoads(node=node, client=client, alarms=local.alarms, tasks=tasks)
    return DaprHost(
        parts,
        node=node,
        client=client,
        first_loads=first_loads,
        creation=DirectCreation(
            node=node, parts=parts, local=local, turn=turn, client=client, expect=first_loads.expect
        ),
        local=local,
        store=store,
        turns=turns,
        leaving=leaving,
        deactivation=deactivation,
        send_guard=send_guard,
        effects=effects,
        sweep=_make_sweep(parts, node, local.alarms, first_loads, take_over),
        tasks=tasks,
    )


def _make_redelivery(parts: DaprParts, node: NodeContext, client: ActorClient) -> Redelivery:
    return Redelivery(
        take=client.deliver, clock=node.clock, lease=parts.limits.lease, longest_pause=LONGEST_PAUSE_MS
    )


def _make_local_jobs(
    parts: DaprParts, node: NodeContext, ring: Ring, effects: Callable[[], EffectHandlers]
) -> LocalJobs:
    return LocalJobs(
        cache=JobCache(
            most=parts.limits.hot,
            most_bytes=parts.limits.hot_bytes,
            open_bytes=OpenBytes(most=parts.limits.open_bytes),
        ),
        alarms=ReminderAlarms(sidecar=node.sidecar, clock=node.clock, ring=ring, log=node.log),
        handovers=Handovers(others=node.others, stopping=node.stopping),
        own_calls=lambda uid: effects().calls.alive(uid),
        end_watches=lambda uid: effects().watches.end_all(uid),
        active=ActiveActors(liveness=node.cluster.heartbeat.liveness),
    )


def _make_sweep(
    parts: DaprParts, node: NodeContext, alarms: ReminderAlarms, loads: FirstLoads, take_over: TakeOver
) -> Sweep:
    return Sweep(
        node=node,
        ring=alarms.ring,
        lag=lambda: alarms.lag,
        first_rings=FirstRings(node=node, ring_at=alarms.ring_at, expect=loads.expect),
        take_over=take_over,
        tend=parts.tend_queues,
    )


def _make_turn(parts: DaprParts, node: NodeContext, local: LocalJobs, store: ClusterJobs, act: Act) -> Turn:
    """The turn on a job; `act` starts its effects."""
    return Turn(
        parts,
        store=store,
        holder=node.holder,
        boot=node.cluster.epoch,
        alarms=local.alarms,
        act=act,
        alive=local.calls_in_flight,
        wait_until=TimedRelease(clock=node.clock).wait_until,
        away=local.handovers.possible_from,
        open_bytes=local.cache.open_bytes,
        longest_line=LONGEST_LINE_MS,
    )


def _make_turns(
    parts: DaprParts,
    node: NodeContext,
    local: LocalJobs,
    store: ClusterJobs,
    turn: Turn,
    leaving: Leaving,
    tasks: Tasks,
) -> ClusterTurns:
    """The turns on jobs that live here."""
    return ClusterTurns(
        node=node,
        local=local,
        core=parts.core,
        store=store,
        turn=turn,
        leaving=leaving,
        tasks=tasks,
        owner_of=parts.owner_of,
        flush=parts.history.flush,
    )
