"""All that acts for the turns of one node, the same under both hosts: calls, parts, counts, deliveries."""

from scheduler_service.domain.wire import Token
from scheduler_service.hosts.act import EmbeddedAct
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.core import Log, Redact
from scheduler_service.hosts.counting import Count, Counter
from scheduler_service.hosts.courier import Courier
from scheduler_service.hosts.crew import Crew
from scheduler_service.hosts.gate import Gate
from scheduler_service.hosts.insist import Insistence
from scheduler_service.hosts.limits import HostLimits
from scheduler_service.hosts.part_crew import PartCrew, Stir
from scheduler_service.ports import History, Sender, StateStore
from scheduler_service.ports.instances import Router


class Outgoing:
    """What effects start, and what of it is still under way; `act` gives each effect to whom it belongs."""

    def __init__(
        self,
        *,
        sender: Sender,
        gate: Gate,
        router: Router,
        stir: Stir,
        store: StateStore,
        history: History,
        insistence: Insistence,
        clock: Timekeeper,
        redact: Redact,
        count: Count,
        log: Log,
        limits: HostLimits,
    ) -> None:
        self.crew = Crew(sender=sender, gate=gate, insistence=insistence, log=log)
        self.parts = PartCrew(
            sender=sender, gate=gate, router=router, insistence=insistence, log=log, stir=stir
        )
        self.counter = Counter(count=count, insistence=insistence, log=log)
        self.courier = Courier(
            sender=sender,
            store=store,
            history=history,
            clock=clock,
            redact=redact,
            log=log,
            retries=limits.retries,
            interval=limits.interval,
        )
        self.act = EmbeddedAct(crew=self.crew, parts=self.parts, courier=self.courier, counter=self.counter)

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
