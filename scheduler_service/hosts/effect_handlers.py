"""Starts the effects of a turn after its commit; nothing here waits."""

from collections.abc import Mapping

from scheduler_service.domain.effects import (
    Abandon,
    Call,
    CallPart,
    CountMissed,
    Effect,
    Inform,
    Notify,
    ReportPause,
    ResolveInstances,
    Retire,
    Unwatch,
    WatchInstance,
)
from scheduler_service.domain.wire import Holder, write_holder
from scheduler_service.engine.program import Program
from scheduler_service.hosts.calls_in_flight import (
    CallsInFlight,
    InstanceWatches,
    MisfireCounter,
    SendGuard,
    SureSender,
)
from scheduler_service.hosts.event_redelivery import Redelivery
from scheduler_service.hosts.host_dependencies import HostParts
from scheduler_service.hosts.notification_sender import NotificationSender
from scheduler_service.ports.state import StateStore

STARTING = (Call, CallPart, ResolveInstances, CountMissed, WatchInstance)
"""The effects that begin something of which the job is to hear."""


class EffectHandlers:
    """Hands each effect to the component that carries it out; shows what is still under way.

    `most_body_bytes`: what bodies of notifications may take in memory that `store` has as well; None: `store`
    does not have all of them.
    """

    def __init__(
        self,
        parts: HostParts,
        *,
        store: StateStore,
        send_guard: SendGuard,
        redelivery: Redelivery,
        holder: Holder,
        most_body_bytes: int | None = None,
    ) -> None:
        log, limits = parts.log, parts.limits
        self._starts_nothing = False
        sender = SureSender(sender=parts.sender, log=log, observe_call=parts.observe_call)
        self._log = log
        self.calls = CallsInFlight(
            sender=sender,
            send_guard=send_guard,
            router=parts.router,
            redelivery=redelivery,
            log=log,
            wake_claimers=parts.wake_claimers,
            answer_room=parts.answer_room,
        )
        self.watches = InstanceWatches(router=parts.router, redelivery=redelivery, log=log)
        self.counter = MisfireCounter(redelivery=redelivery, log=log)
        self.notifications = NotificationSender(
            sender=sender,
            store=store,
            history=parts.history,
            clock=parts.clock,
            redact=parts.redact,
            log=log,
            retries=limits.retries,
            interval=limits.interval,
            most_body_bytes=most_body_bytes,
            robots=parts.robots,
            holder=write_holder(holder),
        )

    def act(self, job_id: str, effects: tuple[Effect, ...], programs: Mapping[int, Program]) -> None:
        """Starts `effects` in order; `programs` are those of the job after the turn."""
        for effect in effects:
            if self._starts_nothing and isinstance(effect, STARTING):
                continue
            if type(effect) is Call:  # most of them; a pattern costs five times as much
                self.calls.call(job_id, effect.token, effect.request)
                continue
            match effect:
                case Abandon(token=token):
                    self.calls.abandon(token)
                case Notify(delivery=delivery):
                    self.notifications.take(delivery)
                case Inform(request=request):
                    self.calls.inform(request)
                case CountMissed(revision=revision):
                    self.counter.ask(job_id, programs[revision].timer, effect)
                case WatchInstance():
                    self.watches.start(job_id, effect)
                case Unwatch(token=token):
                    self.watches.end(token)
                case ReportPause(reason=reason, execute_number=number):
                    self._log("job_paused", jobId=job_id, reason=reason, execution=number)
                case Retire():
                    pass  # its cache entry goes when the turn has ended
                case _:
                    self.calls.start(job_id, effect)

    @property
    def is_idle(self) -> bool:
        """Whether no call is alive and no delivery is being sent; retries of deliveries may wait."""
        return len(self.calls) == 0 and self.notifications.is_idle

    def start_nothing(self) -> None:
        """From now on no call begins here: whoever goes on with a job finds in its state what is to begin."""
        self._starts_nothing = True

    async def stop(self) -> None:
        """Ends what is under way, without an event: a restart finds it in the state."""
        await self.counter.stop()
        await self.calls.stop()
        await self.watches.stop()
        await self.notifications.stop()
