"""Wires the rooms of the embedded host; where two need each other, the later one is asked by name."""

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
    lives: NewIdentity = msgspec.field(default_factory=IdentitySource)
    stir: WakeClaimers = wake_no_claimers
    limits: HostLimits = DEFAULT_LIMITS


def build_embedded_host(ground: EmbeddedParts) -> EmbeddedHost:
    """The host of one store; it neither rings nor recovers before `start`."""
    rooms = _EmbeddedContainer(ground)
    return EmbeddedHost(
        turns=rooms.turns,
        creation=BulkCreation(
            actors=rooms.actors, store=ground.store, turn=rooms.turn, take=rooms.turns.take
        ),
        actors=rooms.actors,
        alarms=rooms.alarms,
        outgoing=rooms.outgoing,
        recovery=Recovery(
            store=ground.store,
            history=ground.history,
            courier=rooms.outgoing.courier,
            wake=rooms.turns.wake,
        ),
        store=ground.store,
        history=ground.history,
        clock=ground.clock,
        log=ground.log,
    )


class _EmbeddedContainer:
    """Each room is built when it is first asked for, out of those that it names."""

    def __init__(self, ground: EmbeddedParts) -> None:
        self._ground = ground
        self.actors = JobCache(most=ground.limits.hot)

    @cached_property
    def turns(self) -> EmbeddedTurns:
        return EmbeddedTurns(
            actors=self.actors,
            turn=self.turn,
            alarms=self.alarms,
            clock=self._ground.clock,
            log=self._ground.log,
        )

    @cached_property
    def outgoing(self) -> EffectHandlers:
        ground = self._ground
        return EffectHandlers(
            sender=ground.sender,
            gate=OpenSendGuard(),
            router=ground.router,
            stir=ground.stir,
            store=ground.store,
            history=ground.history,
            insistence=Redelivery(
                take=lambda job_id, command: self.turns.take(job_id, command),
                clock=ground.clock,
                lease=ground.limits.lease,
            ),
            clock=ground.clock,
            redact=ground.redact,
            count=ground.count,
            log=ground.log,
            limits=ground.limits,
        )

    @cached_property
    def alarms(self) -> EmbeddedAlarms:
        ground = self._ground
        return EmbeddedAlarms(
            store=ground.store,
            clock=ground.clock,
            ring=self._ring,
            log=ground.log,
            foresee=self._foresee,
            ready=ground.limits.ready,
            headway=EarlyCommit(
                usual=ground.limits.headway, longest=ground.limits.rush, stride=ground.limits.stride
            ),
        )

    @cached_property
    def turn(self) -> Turn:
        ground = self._ground
        return Turn(
            core=ground.core,
            store=ground.store,
            history=ground.history,
            clock=ground.clock,
            alarms=self.alarms,
            act=self.outgoing.act,
            alive=self.outgoing.alive,
            redact=ground.redact,
            lives=ground.lives,
            holder=ground.holder,
            boot=ground.boot,
            wait_until=self.moments.wait_until,
        )

    @cached_property
    def moments(self) -> TimedRelease:
        return TimedRelease(clock=self._ground.clock)

    @cached_property
    def _foresight(self) -> Prefetch:
        return Prefetch(actors=self.actors, turn=self.turn, most=self._ground.limits.hot)

    def _ring(self, job_id: str, moment: int | None) -> Awaitable[None]:
        return self.turns.ring(job_id, moment)

    def _foresee(self, job_ids: Sequence[str]) -> Awaitable[None]:
        return self._foresight.load(job_ids)
