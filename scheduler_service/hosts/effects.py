"""Starts the effects of a turn after its commit; nothing here waits."""

from collections.abc import Mapping

from scheduler_service.domain.effects import Abandon, Call, CountMissed, Effect, Inform, Notify, Retire
from scheduler_service.domain.wire import Token
from scheduler_service.engine.program import Program
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.core import Redact
from scheduler_service.hosts.in_flight import CallsInFlight, PartsInFlight, WakeClaimers
from scheduler_service.hosts.limits import HostLimits
from scheduler_service.hosts.misfire_counter import Count, MisfireCounter
from scheduler_service.hosts.notification_sender import NotificationSender
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.send_guard import SendGuard
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.ports.sending import Sender
from scheduler_service.ports.services import Router
from scheduler_service.ports.state import StateStore


class EffectDispatcher:
    """Gives each effect to whom it belongs."""

    def __init__(
        self,
        *,
        crew: CallsInFlight,
        parts: PartsInFlight,
        courier: NotificationSender,
        counter: MisfireCounter,
    ) -> None:
        self._crew = crew
        self._parts = parts
        self._courier = courier
        self._counter = counter

    def __call__(self, job_id: str, effects: tuple[Effect, ...], programs: Mapping[int, Program]) -> None:
        """Starts `effects` in order; `programs` are those of the job after the turn."""
        for effect in effects:
            if type(effect) is Call:  # most of them; a pattern costs five times as much
                self._crew.call(job_id, effect.token, effect.request)
                continue
            match effect:
                case Abandon(token=token):
                    self._crew.abandon(token)
                case Notify(delivery=delivery):
                    self._courier.take(delivery)
                case Inform(request=request):
                    self._crew.inform(request)
                case CountMissed(revision=revision):
                    self._counter.ask(job_id, programs[revision].timer, effect)
                case Retire():
                    pass  # its cache entry goes when the turn has ended
                case _:
                    self._parts.start(job_id, effect)


class EffectHandlers:
    """What effects start, and what of it is still under way; `act` gives each effect to whom it belongs."""

    def __init__(
        self,
        *,
        sender: Sender,
        gate: SendGuard,
        router: Router,
        stir: WakeClaimers,
        store: StateStore,
        history: History,
        insistence: Redelivery,
        clock: Timekeeper,
        redact: Redact,
        count: Count,
        log: Log,
        limits: HostLimits,
    ) -> None:
        self.crew = CallsInFlight(sender=sender, gate=gate, insistence=insistence, log=log)
        self.parts = PartsInFlight(
            sender=sender, gate=gate, router=router, insistence=insistence, log=log, stir=stir
        )
        self.counter = MisfireCounter(count=count, insistence=insistence, log=log)
        self.courier = NotificationSender(
            sender=sender,
            store=store,
            history=history,
            clock=clock,
            redact=redact,
            log=log,
            retries=limits.retries,
            interval=limits.interval,
        )
        self.act = EffectDispatcher(
            crew=self.crew, parts=self.parts, courier=self.courier, counter=self.counter
        )

    @property
    def is_idle(self) -> bool:
        """Whether no call is alive and no delivery is being sent; retries of deliveries may wait."""
        return len(self.crew) + len(self.parts) == 0 and self.courier.is_idle

    def alive(self, uid: str) -> tuple[Token, ...]:
        """The calls of this life of a job that are alive."""
        return (*self.crew.alive(uid), *self.parts.alive(uid))

    async def stop(self) -> None:
        """Ends what is under way and tells nobody: the state names what a restart has to look after."""
        await self.counter.stop()
        await self.crew.stop()
        await self.parts.stop()
        await self.courier.stop()
