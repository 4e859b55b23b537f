"""The dapr host: turns run in this process for the jobs whose actors live here (DESIGN section 4)."""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from scheduler_service.domain.effects import Delivery
from scheduler_service.domain.events import Adopted, AlarmRang, Created, Event
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.wire import Token
from scheduler_service.engine.decision import Job
from scheduler_service.engine.snapshot import decode
from scheduler_service.engine.status import revisions
from scheduler_service.hosts.actor_store import ActorStore
from scheduler_service.hosts.actors import Actors
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.core import Core, Log, Redact
from scheduler_service.hosts.counting import Count
from scheduler_service.hosts.draining import STARTING, STOPPING, close_history, wait_for_rest
from scheduler_service.hosts.handover import Handovers
from scheduler_service.hosts.held import Held
from scheduler_service.hosts.insist import Insistence
from scheduler_service.hosts.life import KEY_BYTES, Lives, NewLives
from scheduler_service.hosts.limits import DEFAULT_LIMITS, HostLimits
from scheduler_service.hosts.messages import (
    Ask,
    event_of,
    read_ask,
    read_told,
    write_ask,
    write_document,
    write_error,
    write_reply,
)
from scheduler_service.hosts.outgoing import Outgoing
from scheduler_service.hosts.part_crew import stir_nobody
from scheduler_service.hosts.presence import DRAINING, Presence
from scheduler_service.hosts.programs import Programs
from scheduler_service.hosts.reminders import ReminderAlarms
from scheduler_service.hosts.sidecar import Sidecar
from scheduler_service.hosts.sweep import Sweep
from scheduler_service.hosts.turn import Turn
from scheduler_service.persistence.shared.nodes import Nodes
from scheduler_service.persistence.shared.store import SharedStore
from scheduler_service.ports import (
    Batch,
    CatalogueEntry,
    Definition,
    History,
    Remembered,
    Sender,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from scheduler_service.ports.instances import Router

TRIES = 3
AT_ONCE = 64
# A ring says only "look again": one that hangs on a dead node is better repeated. In seconds.
RING_LIMIT = 5.0
GOODBYE_LIMIT = 1.0


class Cluster:
    """What a node shares with the others: the SQL tables, and its own place among the nodes."""

    def __init__(self, *, shared: SharedStore, nodes: Nodes, presence: Presence, epoch: int) -> None:
        self.shared = shared
        self.nodes = nodes
        self.presence = presence
        self.epoch = epoch


class DaprHost:
    """Delivers events to jobs wherever they live (`ports.Deliver`), and takes the turns of its own."""

    _is_ready = False
    _is_draining = False

    def __init__(
        self,
        *,
        core: Core,
        cluster: Cluster,
        sidecar: Sidecar,
        history: History,
        sender: Sender,
        router: Router,
        clock: Timekeeper,
        redact: Redact,
        count: Count,
        log: Log,
        lives: Lives | None = None,
        limits: HostLimits = DEFAULT_LIMITS,
    ) -> None:
        self._core = core
        self._shared = cluster.shared
        self._presence = cluster.presence
        self._sidecar = sidecar
        self._history = history
        self._clock = clock
        self._log = log
        self._actors = Actors(most=limits.hot)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._handovers = Handovers(others=lambda: cluster.presence.others)
        self.store = ActorStore(
            sidecar=sidecar,
            shared=cluster.shared,
            clock=clock,
            holder=cluster.presence.holder,
            epoch=cluster.epoch,
            next_epoch=cluster.nodes.next_epoch,
            is_current=lambda: cluster.presence.is_current,
            found=self._take_up,
            log=log,
        )
        self._insistence = Insistence(take=self._deliver, clock=clock, lease=limits.lease)
        self.outgoing = Outgoing(
            sender=sender,
            router=router,
            stir=stir_nobody,
            store=self.store,
            history=history,
            insistence=self._insistence,
            clock=clock,
            redact=redact,
            count=count,
            log=log,
            limits=limits,
        )
        self.courier = self.outgoing.courier
        self.alarms = ReminderAlarms(sidecar=sidecar, clock=clock, ring=self.ring, log=log)
        self._programs = Programs(store=self.store, compiler=core.compile)
        self._turn = Turn(
            core=core,
            store=self.store,
            history=history,
            clock=clock,
            alarms=self.alarms,
            act=self.outgoing.act,
            alive=self._alive,
            redact=redact,
            lives=lives or NewLives(),
            holder=cluster.presence.holder,
            boot=cluster.epoch,
            away=self._handovers.away,
        )
        self.sweeper = Sweep(
            shared=cluster.shared,
            nodes=cluster.nodes,
            presence=cluster.presence,
            clock=clock,
            ring=self.ring,
            adopt=self.courier.adopt,
            log=log,
        )

    async def __call__(
        self,
        job_id: str,
        event: Event,
        *,
        definition: Definition | None = None,
        remembered: Remembered | None = None,
        answer: Callable[[Reply], bytes] | None = None,
    ) -> Reply:
        """Takes `event` to the job. Raises StoreError; what is kept under a key is the reply as JSON."""
        text = None if definition is None else definition.text
        told = read_told(await self._sidecar.invoke(job_id, write_ask(event, text, remembered)))
        assert told.reply is not None, "an event has a reply"
        return told.reply

    async def create_all(self, definitions: Sequence[Definition]) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, an error for its reply; those of one job in order."""
        lines: dict[str, list[int]] = {}
        for place, definition in enumerate(definitions):
            lines.setdefault(definition.program.job_id, []).append(place)
        answers: dict[int, Reply | StoreError] = {}
        places = asyncio.Semaphore(AT_ONCE)

        async def create(line: list[int]) -> None:
            async with places:
                for place in line:
                    definition = definitions[place]
                    try:
                        event = Created(uid="", key=b"")
                        answers[place] = await self(definition.program.job_id, event, definition=definition)
                    except StoreError as error:
                        answers[place] = error

        await asyncio.gather(*map(create, lines.values()))
        return [answers[place] for place in range(len(definitions))]

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        row = await self._shared.find(job_id)
        if row is None or row.entry.state is JobState.DESTROYED:
            return None  # asked by id, actors of jobs that never were would fill the memory
        told = read_told(await self._sidecar.invoke(job_id, write_ask(None, None, None)))
        if not told.document:
            return None
        document = decode(told.document)
        programs = await self._programs.load(document.head.uid, revisions(document))
        return Job(document, programs, self._presence.holder)

    @property
    def is_ready(self) -> bool:
        """Whether the host takes turns."""
        return self._is_ready

    @property
    def is_draining(self) -> bool:
        """Whether the node is stopping."""
        return self._is_draining

    @property
    def jobs_held(self) -> int:
        """How many jobs are in memory."""
        return len(self._actors)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """Nothing: another node may know better, so the catalogue is asked."""
        return None

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return self._actors.live

    async def start(self) -> None:
        """Begins to beat, to sweep and to take turns."""
        self._presence.start(
            figures=lambda: (self.jobs_held, self.running),
            on_standstill=self.store.doubt,
            on_look=self._look_after_flights,
        )
        self.sweeper.start()
        self._is_ready = True

    async def take(self, job_id: str, message: bytes) -> bytes:
        """Takes the turn that a message asks for, to its end, whoever stops waiting. Never raises."""
        return await asyncio.shield(self._spawn(self._answer(job_id, message)))

    async def remind(self, job_id: str) -> None:
        """The job's reminder rang. Raises StoreUnavailable while the node stops: another one is asked."""
        self.alarms.rang(job_id)
        if self._is_draining and not self._actors.is_live(job_id):
            raise StoreUnavailable("this node is stopping; ask again in a moment")
        await asyncio.shield(self._spawn(self._look(job_id)))

    async def ring(self, job_id: str) -> None:
        """Takes AlarmRang to a job, wherever it lives. Never raises."""
        try:
            message = write_ask(AlarmRang(), None, None)
            read_told(await self._sidecar.invoke(job_id, message, limit=RING_LIMIT))
        except StoreError as error:
            self._log("look_failed", jobId=job_id, error=str(error))
            self.alarms.again(job_id)

    async def let_go(self, job_id: str) -> None:
        """The job leaves this process: what only memory knows of it follows it. Never raises.

        Returns within a second: daprd gives no job of the cluster to anybody until it has the answer, and a
        turn that hangs would hold up all of them.
        """
        await asyncio.wait({self._spawn(self._let_go(job_id))}, timeout=GOODBYE_LIMIT)

    async def _let_go(self, job_id: str) -> None:
        """Behind the turn that runs, if there is one."""
        actor = self._actors.find(job_id)
        self.alarms.forget(job_id)
        if actor is None:
            return
        await actor.acquire()
        try:
            held = actor.held
            if held.document is not None and held.doubt is None:
                uid = held.document.head.uid
                if held.is_live:
                    flight = self.outgoing.alive(uid)
                    event = Adopted(self._presence.holder, flight, held.document)
                    self._handovers.begin(job_id, self._presence.holder)
                    self._spawn(self._hand_over(job_id, event))
                self._handovers.forget(job_id, uid)
            held.forget()
        finally:
            self._actors.leave(actor)

    def doubt(self) -> None:
        """daprd began anew: what is cached is looked at before it is used."""
        self.store.doubt()

    async def stop(self, grace: int) -> None:
        """Drains for at most `grace` ms: hands what runs to the other nodes, or lets it end (SPEC 14)."""
        self._is_ready = False
        self._is_draining = True
        await self._presence.say(DRAINING)
        await wait_for_rest(self._is_at_work, clock=self._clock, grace=grace)
        await self.sweeper.stop()
        await self.alarms.stop()
        await self.outgoing.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._presence.stop()
        await close_history(self._history, self._log)

    def _is_at_work(self) -> bool:
        turns = self.alarms.is_ringing or bool(self._tasks)
        return turns or self._actors.live > 0 or not self.outgoing.is_idle

    async def _answer(self, job_id: str, message: bytes) -> bytes:
        try:
            ask = read_ask(message)
            event = event_of(ask)
            if event is None:
                job = await self._read_here(job_id)
                return write_document(None if job is None else job.document)
            return write_reply(await self._take(job_id, event, ask))
        except StoreError as error:
            return write_error(error)
        except Exception as error:  # noqa: BLE001 - one broken job must not look like a broken node
            self._log("turn_broke", jobId=job_id, error=repr(error))
            self.alarms.again(job_id, MINUTE)
            return write_error(StoreUnavailable(f"the turn broke: {type(error).__name__}"))

    async def _look(self, job_id: str) -> None:
        """A reminder's turn: who cannot be looked at now is looked at later."""
        told = await self._answer(job_id, write_ask(AlarmRang(), None, None))
        try:
            read_told(told)
        except StoreError as error:
            self._log("look_failed", jobId=job_id, error=str(error))
            self.alarms.again(job_id)

    async def _take(self, job_id: str, event: Event, ask: Ask) -> Reply:
        """Tries again where another node was first: then the job is read anew."""
        if self._is_draining and isinstance(event, (*STARTING, Adopted)):
            raise StoreUnavailable(STOPPING)
        definition = None
        if ask.definition is not None:
            definition = Definition(ask.definition, self._core.compile(ask.definition))
        for left in reversed(range(TRIES)):
            try:
                return await self._take_once(job_id, event, definition, ask.remembered)
            except StoreConflict:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _take_once(
        self, job_id: str, event: Event, definition: Definition | None, remembered: Remembered | None
    ) -> Reply:
        actor = self._actors.enter(job_id)
        await actor.acquire()
        try:
            held = actor.held
            await self._prepare(held)
            if isinstance(event, Adopted):
                uid = "" if event.document is None else event.document.head.uid
                self._handovers.take(job_id, uid, event.holder, event.flight)
            else:
                await self._await_handover(held)
            return await self._turn.run(
                held, event, definition=definition, remembered=remembered, answer=write_json
            )
        finally:
            self._actors.leave(actor)

    async def _read_here(self, job_id: str) -> Job | None:
        actor = self._actors.enter(job_id)
        await actor.acquire()
        try:
            await self._prepare(actor.held)
            return await self._turn.read(actor.held)
        finally:
            self._actors.leave(actor)

    async def _prepare(self, held: Held) -> None:
        """Brings `held` to what lies in the store, a lost state from the catalogue. Raises StoreError."""
        if held.loaded and held.doubt is None and not await self.store.begin(held.job_id):
            held.forget()
        if self._handovers.is_broken(self._presence.holder, held.document):
            held.cut_off = True
        await self._turn.read(held)
        if held.document is None and held.entry is not None and held.entry.state is not JobState.DESTROYED:
            await self._restore(held)

    async def _restore(self, held: Held) -> None:
        """The catalogue has the job as living, the actor store has lost it: its life goes on (DESIGN 3)."""
        entry = held.entry
        assert entry is not None
        text = await self._shared.definition(entry.uid, entry.revision)
        if text is None:
            return
        self._log("state_restored", jobId=held.job_id)
        event = Created(
            uid=entry.uid,
            key=secrets.token_bytes(KEY_BYTES),
            revision=entry.revision,
            execute_number=entry.execute_number,
            request_counts=entry.request_counts,
        )
        await self._turn.run(held, event, definition=Definition(text, self._core.compile(text)))

    async def _await_handover(self, held: Held) -> None:
        """Refuses turns while another node still has what it ran for the job. Raises StoreUnavailable."""
        if not self._handovers.is_awaited(held.job_id, held.document):
            return
        assert held.document is not None
        if not self._handovers.is_overdue(held.job_id, self._clock.now().steady):
            self.alarms.again(held.job_id)
            raise StoreUnavailable("the job is moving from one node to another; ask again in a moment")
        self._log("handover_missed", jobId=held.job_id)
        self._handovers.give_up(held.job_id, held.document)
        held.cut_off = True
        await self._turn.read(held)

    async def _deliver(self, job_id: str, event: Event) -> Reply:
        """The same from an errand, which is no task: limits of time need one."""
        reply: Reply = await self._spawn(self(job_id, event))
        return reply

    async def _hand_over(self, job_id: str, event: Adopted) -> None:
        try:
            await self._insistence.deliver(job_id, event)
        except StoreError as error:
            self._log("handover_failed", jobId=job_id, error=str(error))
        finally:
            self._handovers.end(job_id)

    def _look_after_flights(self) -> None:
        """Jobs whose calls flew on a node that has died look at once."""
        for job_id in self._handovers.broken_off():
            self._spawn(self.ring(job_id))

    def _alive(self, uid: str) -> tuple[Token, ...]:
        return (*self.outgoing.alive(uid), *self._handovers.flying(uid))

    def _take_up(self, batches: Sequence[Batch], deliveries: Iterable[Delivery]) -> None:
        """What an earlier holder may not have brought to an end."""
        for batch in batches:
            self._history.append(batch, durable=True)
        self.courier.adopt(deliveries)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def write_json(reply: Reply) -> bytes:
    """A reply as it is kept under an Idempotency-Key."""
    return msgspec.json.encode(reply)
