"""Builds the dapr host of one node."""

from collections.abc import Callable, Iterable, Sequence

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.clock import TimedRelease
from scheduler_service.hosts.dapr.actor_client import ActorClient
from scheduler_service.hosts.dapr.actor_turns import ClusterTurns
from scheduler_service.hosts.dapr.cluster_jobs import LONGEST_TURN_MS, ClusterJobs, TakeOver
from scheduler_service.hosts.dapr.dapr_host import DaprHost
from scheduler_service.hosts.dapr.direct_creation import DirectCreation
from scheduler_service.hosts.dapr.first_turns import FirstLoads, FirstRings
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.leaving import Deactivation, LastTurns, Leaving
from scheduler_service.hosts.dapr.liveness import ActiveActors
from scheduler_service.hosts.dapr.node import DaprParts, LocalJobs
from scheduler_service.hosts.dapr.reminders import ReminderAlarms, Ring
from scheduler_service.hosts.dapr.send_guard import NodeSendGuard
from scheduler_service.hosts.dapr.sweep import Sweep
from scheduler_service.hosts.effect_tasks import EffectHandlers
from scheduler_service.hosts.host_parts import Act
from scheduler_service.hosts.job_cache import JobCache, OpenBytes
from scheduler_service.hosts.job_loading import ProgramCache
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.history import Batch

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
    effects = EffectHandlers(parts, store=store, send_guard=send_guard, redelivery=redelivery)
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
        handovers=Handovers(others=parts.others, stopping=parts.stopping),
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
        wait_until=TimedRelease(clock=parts.clock).wait_until,
        open_bytes=local.cache.open_bytes,
        longest_line=LONGEST_LINE_MS,
    )
