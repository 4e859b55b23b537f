"""Builds the embedded host out of its components."""

from collections.abc import Awaitable, Sequence
from functools import cached_property

import msgspec

from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.core import Core, Redact
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.embedded.alarms import EmbeddedAlarms
from scheduler_service.hosts.embedded.bulk_creation import BulkCreation
from scheduler_service.hosts.embedded.early_commit import EarlyCommit
from scheduler_service.hosts.embedded.host import EmbeddedHost
from scheduler_service.hosts.embedded.prefetch import Prefetch
from scheduler_service.hosts.embedded.recovery import Recovery
from scheduler_service.hosts.embedded.turns import EmbeddedTurns
from scheduler_service.hosts.identity import IdentitySource, NewIdentity
from scheduler_service.hosts.in_flight import WakeClaimers, wake_no_claimers
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.limits import DEFAULT_LIMITS, HostLimits
from scheduler_service.hosts.misfire_counter import Count
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.send_guard import OpenSendGuard
from scheduler_service.hosts.timed_release import TimedRelease
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Sender
from scheduler_service.ports.services import Router
from scheduler_service.ports.state import StateStore


class EmbeddedParts(msgspec.Struct, frozen=True, kw_only=True):
    """What an embedded host stands on. `boot` numbers the starts of the store's process."""

    core: Core
    store: StateStore
    history: History
    sender: Sender
    router: Router
    clock: Timekeeper
    redact: Redact
    count: Count
    log: Log
    holder: Holder
    boot: int
    new_identity: NewIdentity = msgspec.field(default_factory=IdentitySource)
    wake_claimers: WakeClaimers = wake_no_claimers
    limits: HostLimits = DEFAULT_LIMITS


def build_embedded_host(parts: EmbeddedParts) -> EmbeddedHost:
    """The host of one store; it neither rings nor recovers before `start`."""
    container = _EmbeddedContainer(parts)
    return EmbeddedHost(
        turns=container.turns,
        creation=BulkCreation(
            jobs=container.jobs, store=parts.store, turn=container.turn, take=container.turns.take
        ),
        jobs=container.jobs,
        alarms=container.alarms,
        effects=container.effects,
        recovery=Recovery(
            store=parts.store,
            history=parts.history,
            notifications=container.effects.notifications,
            wake=container.turns.wake,
        ),
        store=parts.store,
        history=parts.history,
        release=container.moments,
        clock=parts.clock,
        log=parts.log,
    )


class _EmbeddedContainer:
    """Each room is built when it is first asked for, out of those that it names."""

    def __init__(self, parts: EmbeddedParts) -> None:
        self._parts = parts
        self.jobs = JobCache(most=parts.limits.hot)

    @cached_property
    def turns(self) -> EmbeddedTurns:
        return EmbeddedTurns(
            jobs=self.jobs,
            turn=self.turn,
            alarms=self.alarms,
            clock=self._parts.clock,
            log=self._parts.log,
        )

    @cached_property
    def effects(self) -> EffectHandlers:
        parts = self._parts
        return EffectHandlers(
            sender=parts.sender,
            send_guard=OpenSendGuard(),
            router=parts.router,
            wake_claimers=parts.wake_claimers,
            store=parts.store,
            history=parts.history,
            redelivery=Redelivery(
                take=lambda job_id, command: self.turns.take(job_id, command),
                clock=parts.clock,
                lease=parts.limits.lease,
            ),
            clock=parts.clock,
            redact=parts.redact,
            count=parts.count,
            log=parts.log,
            limits=parts.limits,
        )

    @cached_property
    def alarms(self) -> EmbeddedAlarms:
        parts = self._parts
        return EmbeddedAlarms(
            store=parts.store,
            clock=parts.clock,
            ring=self._ring,
            log=parts.log,
            prefetch=self._prefetch_jobs,
            ready=parts.limits.ready,
            early_commit=EarlyCommit(
                usual=parts.limits.early_commit,
                longest=parts.limits.burst_lead,
                batch_window=parts.limits.batch_window,
            ),
        )

    @cached_property
    def turn(self) -> Turn:
        parts = self._parts
        return Turn(
            core=parts.core,
            store=parts.store,
            history=parts.history,
            clock=parts.clock,
            alarms=self.alarms,
            act=self.effects.act,
            alive=self.effects.alive,
            redact=parts.redact,
            new_identity=parts.new_identity,
            holder=parts.holder,
            boot=parts.boot,
            wait_until=self.moments.wait_until,
        )

    @cached_property
    def moments(self) -> TimedRelease:
        return TimedRelease(clock=self._parts.clock)

    @cached_property
    def _prefetch(self) -> Prefetch:
        return Prefetch(jobs=self.jobs, turn=self.turn, most=self._parts.limits.hot)

    def _ring(self, job_id: str, moment: int | None) -> Awaitable[None]:
        return self.turns.ring(job_id, moment)

    def _prefetch_jobs(self, job_ids: Sequence[str]) -> Awaitable[None]:
        return self._prefetch.load(job_ids)
