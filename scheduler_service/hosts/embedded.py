"""The embedded host: turns run in this process, one at a time per job (DESIGN section 4)."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from scheduler_service.domain.events import AlarmRang, Created, Event
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import Holder
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.actors import Actors
from scheduler_service.hosts.alarms import EmbeddedAlarms
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.core import Core, Log, Redact
from scheduler_service.hosts.counting import Count
from scheduler_service.hosts.creation import Creation
from scheduler_service.hosts.draining import STARTING, STOPPING, close_history, wait_for_rest
from scheduler_service.hosts.foresight import Foresight
from scheduler_service.hosts.gate import OpenGate
from scheduler_service.hosts.insist import Insistence
from scheduler_service.hosts.life import Lives, NewLives
from scheduler_service.hosts.limits import DEFAULT_LIMITS, HostLimits
from scheduler_service.hosts.moments import Moments
from scheduler_service.hosts.outgoing import Outgoing
from scheduler_service.hosts.part_crew import Stir, stir_nobody
from scheduler_service.hosts.recovery import Recovery
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports import (
    CatalogueEntry,
    Definition,
    History,
    Remembered,
    Sender,
    StateStore,
    StoreError,
    StoreUnavailable,
)
from scheduler_service.ports.instances import Router

RANG = AlarmRang()
Result = TypeVar("Result")


class EmbeddedHost:
    """Delivers events to the jobs of one store; implements `ports.Deliver`.

    `boot` numbers the starts of the store's process.
    """

    _is_ready = False
    _is_draining = False

    def __init__(
        self,
        *,
        core: Core,
        store: StateStore,
        history: History,
        sender: Sender,
        router: Router,
        clock: Timekeeper,
        redact: Redact,
        count: Count,
        log: Log,
        holder: Holder,
        boot: int,
        lives: Lives | None = None,
        stir: Stir = stir_nobody,
        limits: HostLimits = DEFAULT_LIMITS,
    ) -> None:
        self._store = store
        self._history = history
        self._clock = clock
        self._log = log
        self._actors = Actors(most=limits.hot)
        insistence = Insistence(take=self._take, clock=clock, lease=limits.lease)
        self.outgoing = Outgoing(
            sender=sender,
            gate=OpenGate(),
            router=router,
            stir=stir,
            store=store,
            history=history,
            insistence=insistence,
            clock=clock,
            redact=redact,
            count=count,
            log=log,
            limits=limits,
        )
        self.courier = self.outgoing.courier
        self._alarms = EmbeddedAlarms(
            store=store,
            clock=clock,
            ring=self._ring,
            log=log,
            foresee=self._foresee,
            ready=limits.ready,
            headway=limits.headway,
        )
        self._turn = Turn(
            core=core,
            store=store,
            history=history,
            clock=clock,
            alarms=self._alarms,
            act=self.outgoing.act,
            alive=self.outgoing.alive,
            redact=redact,
            lives=lives or NewLives(),
            holder=holder,
            boot=boot,
            wait_until=Moments(clock=clock).wait_until,
        )
        self._foresight = Foresight(actors=self._actors, turn=self._turn, most=limits.hot)
        self._recovery = Recovery(store=store, history=history, courier=self.courier, wake=self._wake)
        self._creation = Creation(actors=self._actors, store=store, turn=self._turn, take=self._take)
        self._turns: set[asyncio.Task[Any]] = set()

    async def __call__(
        self,
        job_id: str,
        event: Event,
        *,
        definition: Definition | None = None,
        remembered: Remembered | None = None,
        answer: Callable[[Reply], bytes] | None = None,
    ) -> Reply:
        """Takes one turn and returns its reply after its commit. Raises StoreError: nothing was done.

        Who stops waiting stops nothing: a turn that has begun is taken to its end.
        """
        if self._is_draining and isinstance(event, STARTING):
            raise StoreUnavailable(STOPPING)
        if isinstance(event, Created) and not event.uid and definition is not None and remembered is None:
            return await self._end(self._creation.take(definition, event))
        return await self._end(self._take(job_id, event, definition, remembered, answer))

    async def create_all(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, their writes as one group; an error stands in place of its reply.

        The turns of one job are taken in their order. Never raises StoreError.
        """
        if self._is_draining:
            return [StoreUnavailable(STOPPING)] * len(definitions)
        return await self._end(self._creation.run(definitions))

    @property
    def is_ready(self) -> bool:
        """Whether the host has recovered and takes firings."""
        return self._is_ready

    @property
    def is_draining(self) -> bool:
        """Whether the host is stopping."""
        return self._is_draining

    @property
    def jobs_held(self) -> int:
        """How many jobs are in memory."""
        return len(self._actors)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's line as its latest commit left it, where memory has it; else ask the catalogue."""
        actor = self._actors.find(job_id)
        return None if actor is None else actor.held.entry

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return self._actors.live

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        actor = self._actors.enter(job_id)
        await actor.acquire()
        try:
            return await self._turn.read(actor.held)
        finally:
            self._actors.leave(actor)

    async def start(self) -> None:
        """Recovers, then rings. Raises StoreUnavailable when the store cannot be read."""
        await self._recovery.run()
        await self._alarms.start()
        self._is_ready = True

    async def stop(self, grace: int) -> None:
        """Drains, for at most `grace` ms, then closes history and store (SPEC section 14).

        No firing is taken any more; what runs may end. What is open after that is left in the store: with
        qos 1 it goes on after the next start, with qos 0 it is lost then.
        """
        self._is_ready = False
        self._is_draining = True
        self._alarms.drain()
        await wait_for_rest(self._is_at_work, clock=self._clock, grace=grace)
        await self._alarms.stop()
        await self.outgoing.stop()
        await asyncio.gather(*self._turns, return_exceptions=True)
        await close_history(self._history, self._log)
        await self._store.close()

    def _is_at_work(self) -> bool:
        turns = self._alarms.is_ringing or bool(self._turns)
        return turns or self._actors.live > 0 or not self.outgoing.is_idle

    async def _end(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` gives; it goes on when nobody waits for it any more."""
        turn = asyncio.create_task(work)
        self._turns.add(turn)
        turn.add_done_callback(self._turns.discard)
        return await asyncio.shield(turn)

    async def _take(
        self,
        job_id: str,
        event: Event,
        definition: Definition | None = None,
        remembered: Remembered | None = None,
        answer: Callable[[Reply], bytes] | None = None,
        moment: int | None = None,
    ) -> Reply:
        actor = self._actors.enter(job_id)
        if not actor.is_busy:
            actor.seize()
        else:
            await actor.acquire()
        try:
            return await self._turn.run(
                actor.held,
                event,
                definition=definition,
                remembered=remembered,
                answer=answer,
                moment=moment,
            )
        finally:
            self._actors.leave(actor)

    async def _ring(self, job_id: str, moment: int | None) -> None:
        """A ring never raises: who cannot be looked at now is looked at later."""
        if self._is_draining and not self._actors.is_live(job_id):
            return
        try:
            await self._take(job_id, RANG, moment=moment)
        except Exception as error:  # noqa: BLE001 - one broken job must stop neither the others nor the start
            self._look_later(job_id, error, "look_failed")

    async def _foresee(self, find: Callable[[int], Sequence[str]]) -> None:
        await self._foresight.load(find)

    async def _wake(self, job_id: str) -> None:
        """The same for a job that an earlier process left open."""
        try:
            await self.read(job_id)
        except Exception as error:  # noqa: BLE001 - as above
            self._look_later(job_id, error, "wake_failed")

    def _look_later(self, job_id: str, error: Exception, failed: str) -> None:
        if isinstance(error, StoreError):
            self._log(failed, jobId=job_id, error=str(error))
            self._alarms.again(job_id)
        else:
            self._log("turn_broke", jobId=job_id, error=repr(error))
            self._alarms.again(job_id, MINUTE)
