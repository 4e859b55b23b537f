"""Builds the embedded host out of its components."""

from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.begun_mark import BegunMark
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.embedded.alarms import EmbeddedAlarms
from scheduler_service.hosts.embedded.answer_line import AnswerLine
from scheduler_service.hosts.embedded.bulk_creation import BulkCreation
from scheduler_service.hosts.embedded.early_commit import EarlyCommit
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.embedded.prefetch import Prefetch
from scheduler_service.hosts.embedded.recovery import Recovery
from scheduler_service.hosts.embedded.turns import EmbeddedTurns
from scheduler_service.hosts.host_parts import HostLimits, HostParts
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.open_bytes import OpenBytes
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.send_guard import OpenSendGuard
from scheduler_service.hosts.timed_release import TimedRelease
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.state import StateStore


class EmbeddedParts(HostParts, frozen=True, kw_only=True):
    """What an embedded host is made of. `boot` numbers the starts of the store's process."""

    store: StateStore
    holder: Holder
    boot: int
    begun: BegunMark | None = None


def build_embedded_host(parts: EmbeddedParts) -> EmbeddedHost:
    """The host of one store; it neither rings nor recovers before `start`.

    Turns set alarms and start effects, which both bring new events to turns: the lambdas close the circle.
    """
    store, clock, limits = parts.store, parts.clock, parts.limits
    open_bytes = OpenBytes(most=limits.open_bytes)
    jobs = JobCache(most=limits.hot, most_bytes=limits.hot_bytes, open_bytes=open_bytes)
    release, line = TimedRelease(clock=clock), AnswerLine(clock=clock)
    redelivery = Redelivery(
        take=lambda job_id, command: turns.take(job_id, command), clock=clock, lease=limits.lease, line=line
    )
    effects = _effects_of(parts, redelivery)
    alarms = EmbeddedAlarms(
        store=store,
        clock=clock,
        ring=lambda job_id, moment: turns.ring(job_id, moment),
        log=parts.log,
        prefetch=lambda job_ids: prefetch.load(job_ids),
        ready=limits.ready,
        early_commit=_early_commit_of(limits),
    )
    turn = Turn(
        parts,
        store=store,
        holder=parts.holder,
        boot=parts.boot,
        begun=parts.begun,
        alarms=alarms,
        act=effects.act,
        alive=effects.alive,
        wait_until=release.wait_until,
        open_bytes=open_bytes,
        lacks_room=effects.notifications.lacks_room,
    )
    turns = EmbeddedTurns(
        jobs=jobs, turn=turn, alarms=alarms, history=parts.history, clock=clock, log=parts.log
    )
    prefetch = Prefetch(jobs=jobs, turn=turn, most=limits.hot)
    return EmbeddedHost(
        parts,
        store=store,
        turns=turns,
        creation=BulkCreation(jobs=jobs, store=store, turn=turn, take=turns.take),
        jobs=jobs,
        alarms=alarms,
        effects=effects,
        recovery=_recovery_of(parts, effects, turns, line),
        release=release,
    )


def _effects_of(parts: EmbeddedParts, redelivery: Redelivery) -> EffectHandlers:
    return EffectHandlers(
        parts,
        store=parts.store,
        send_guard=OpenSendGuard(),
        redelivery=redelivery,
        most_body_bytes=parts.limits.body_bytes,
    )


def _recovery_of(
    parts: EmbeddedParts, effects: EffectHandlers, turns: EmbeddedTurns, line: AnswerLine
) -> Recovery:
    return Recovery(
        store=parts.store,
        history=parts.history,
        notifications=effects.notifications,
        decode=parts.core.decode,
        wake=turns.wake,
        clock=parts.clock,
        log=parts.log,
        holding=line.held,
    )


def _early_commit_of(limits: HostLimits) -> EarlyCommit:
    return EarlyCommit(usual=limits.early_commit, longest=limits.burst_lead, batch_window=limits.batch_window)
