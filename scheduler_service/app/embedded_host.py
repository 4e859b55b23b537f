"""Wires the rooms of the embedded host; where two need each other, the later one is asked by name."""

from collections.abc import Awaitable, Sequence
from functools import cached_property

import msgspec

from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.actors import Actors
from scheduler_service.hosts.alarms import EmbeddedAlarms
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.core import Core, Log, Redact
from scheduler_service.hosts.counting import Count
from scheduler_service.hosts.creation import Creation
from scheduler_service.hosts.embedded import EmbeddedHost
from scheduler_service.hosts.embedded_turns import EmbeddedTurns
from scheduler_service.hosts.foresight import Foresight
from scheduler_service.hosts.gate import OpenGate
from scheduler_service.hosts.headway import Headway
from scheduler_service.hosts.insist import Insistence
from scheduler_service.hosts.life import Lives, NewLives
from scheduler_service.hosts.limits import DEFAULT_LIMITS, HostLimits
from scheduler_service.hosts.moments import Moments
from scheduler_service.hosts.outgoing import Outgoing
from scheduler_service.hosts.part_crew import Stir, stir_nobody
from scheduler_service.hosts.recovery import Recovery
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports import History, Sender, StateStore
from scheduler_service.ports.instances import Router


class Ground(msgspec.Struct, frozen=True, kw_only=True):
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
    lives: Lives = msgspec.field(default_factory=NewLives)
    stir: Stir = stir_nobody
    limits: HostLimits = DEFAULT_LIMITS


def make_embedded_host(ground: Ground) -> EmbeddedHost:
    """The host of one store; it neither rings nor recovers before `start`."""
    rooms = _Rooms(ground)
    return EmbeddedHost(
        turns=rooms.turns,
        creation=Creation(actors=rooms.actors, store=ground.store, turn=rooms.turn, take=rooms.turns.take),
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


class _Rooms:
    """Each room is built when it is first asked for, out of those that it names."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.actors = Actors(most=ground.limits.hot)

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
    def outgoing(self) -> Outgoing:
        ground = self._ground
        return Outgoing(
            sender=ground.sender,
            gate=OpenGate(),
            router=ground.router,
            stir=ground.stir,
            store=ground.store,
            history=ground.history,
            insistence=Insistence(
                take=lambda job_id, event: self.turns.take(job_id, event),
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
            headway=Headway(
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
    def moments(self) -> Moments:
        return Moments(clock=self._ground.clock)

    @cached_property
    def _foresight(self) -> Foresight:
        return Foresight(actors=self.actors, turn=self.turn, most=self._ground.limits.hot)

    def _ring(self, job_id: str, moment: int | None) -> Awaitable[None]:
        return self.turns.ring(job_id, moment)

    def _foresee(self, job_ids: Sequence[str]) -> Awaitable[None]:
        return self._foresight.load(job_ids)
