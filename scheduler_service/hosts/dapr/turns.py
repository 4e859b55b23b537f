"""Turns on the jobs whose actors live in this process: what comes to it as a message, taken to its end."""

import secrets
from collections.abc import Awaitable, Callable

from scheduler_service.domain.events import Adopted, AlarmRang, Created, Event, Unsent
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply, Unchanged
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.dapr.actor_store import ActorStore
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.reminders import ReminderAlarms
from scheduler_service.hosts.draining import STARTING, STOPPING
from scheduler_service.hosts.host_parts import Core
from scheduler_service.hosts.identity import KEY_BYTES
from scheduler_service.hosts.job_cache import CachedJob, JobCache
from scheduler_service.hosts.messages import (
    Ask,
    event_of,
    read_ask,
    read_reply,
    write_ask,
    write_document,
    write_error,
    write_kept,
    write_reply,
)
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable
from scheduler_service.ports.log import Log

TRIES = 3

OwnerOf = Callable[[str, str], Awaitable[str]]
"""The service that declares a job, by its id and uid; empty: none does. Raises StoreUnavailable."""


async def no_owner(job_id: str, uid: str) -> str:
    """Where no service declares jobs."""
    return ""


class ClusterTurns:
    """Takes turns for this node, `holder`; a job that another node still runs is waited for.

    `alive` names the calls of a life that are in flight, here or where they were handed over from, `owner_of`
    the service that a restored job belongs to.
    """

    def __init__(
        self,
        *,
        core: Core,
        store: ActorStore,
        turn: Turn,
        jobs: JobCache,
        handovers: Handovers,
        alarms: ReminderAlarms,
        alive: Callable[[str], tuple[Token, ...]],
        clock: Clock,
        holder: Holder,
        owner_of: OwnerOf,
        log: Log,
    ) -> None:
        self._core = core
        self._store = store
        self._turn = turn
        self._jobs = jobs
        self._handovers = handovers
        self._alarms = alarms
        self._alive = alive
        self._clock = clock
        self._holder = holder
        self._owner_of = owner_of
        self._log = log
        self._is_stopping = False

    def stop_starting(self) -> None:
        """From now on nothing is begun here and nothing is adopted: what runs may end."""
        self._is_stopping = True

    async def take(self, job_id: str, message: bytes) -> bytes:
        """Takes the turn that a message asks for. Never raises: errors are answers."""
        try:
            ask = read_ask(message)
            event = event_of(ask)
            if event is None:
                job = await self._read(job_id)
                return write_document(None if job is None else job.document)
            return write_reply(await self._take(job_id, event, ask))
        except StoreError as error:
            return write_error(error)
        except Exception as error:  # noqa: BLE001 - one broken job must not look like a broken node
            self._log("turn_broke", jobId=job_id, error=repr(error))
            self._alarms.again(job_id, MINUTE)
            return write_error(StoreUnavailable(f"the turn broke: {type(error).__name__}"))

    async def look(self, job_id: str) -> None:
        """A reminder's turn: who cannot be looked at now is looked at later. Never raises."""
        told = await self.take(job_id, write_ask(Command(AlarmRang())))
        try:
            read_reply(told)
        except StoreError as error:
            self._log("look_failed", jobId=job_id, error=str(error))
            self._alarms.again(job_id)

    async def _read(self, job_id: str) -> Job | None:
        locked = self._jobs.enter(job_id)
        await locked.acquire()
        try:
            await self._prepare(locked.cached)
            return await self._turn.read(locked.cached)
        finally:
            self._jobs.leave(locked)

    async def _take(self, job_id: str, event: Event, ask: Ask) -> Reply:
        """Tries again where another node was first: then the job is read anew."""
        if self._is_stopping and isinstance(event, (*STARTING, Adopted)):
            raise StoreUnavailable(STOPPING)
        definition = None
        if ask.definition is not None:
            definition = Definition(ask.definition, self._core.compile(ask.definition))
        command = Command(event, definition, ask.remembered, write_kept)
        for left in reversed(range(TRIES)):
            try:
                return await self._take_once(job_id, command)
            except StoreConflict:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _take_once(self, job_id: str, command: Command) -> Reply:
        event = command.event
        locked = self._jobs.enter(job_id)
        await locked.acquire()
        try:
            cached = locked.cached
            await self._prepare(cached)
            if isinstance(event, Adopted):
                self._handovers.take(job_id, event)
            else:
                await self._await_handover(cached)
            if isinstance(event, Unsent) and self._flies(event):
                return Unchanged()
            return await self._turn.run(cached, command)
        finally:
            self._jobs.leave(locked)

    def _flies(self, event: Unsent) -> bool:
        """Whether some other node, or this one, has made the call meanwhile and awaits its answer."""
        self._handovers.land(event.token.uid, event.holder, event.token)
        return event.token in self._alive(event.token.uid)

    async def _prepare(self, cached: CachedJob) -> None:
        """Brings `cached` to what lies in the store, a lost state from the catalogue. Raises StoreError."""
        if cached.loaded and cached.doubt is None and not await self._store.begin(cached.job_id):
            cached.forget()
        if self._handovers.is_broken(self._holder, cached.document):
            cached.cut_off = True
        await self._turn.read(cached)
        if (
            cached.document is None
            and cached.entry is not None
            and cached.entry.state is not JobState.DESTROYED
        ):
            await self._restore(cached)

    async def _restore(self, cached: CachedJob) -> None:
        """The catalogue has the job as living, the actor store has lost it: its life goes on."""
        entry = cached.entry
        assert entry is not None
        text = await self._store.definition(entry.uid, entry.revision)
        if text is None:
            return
        self._log("state_restored", jobId=cached.job_id)
        event = Created(
            uid=entry.uid,
            key=secrets.token_bytes(KEY_BYTES),
            revision=entry.revision,
            execute_number=entry.execute_number,
            request_counts=entry.request_counts,
            owner=await self._owner_of(cached.job_id, entry.uid),
        )
        await self._turn.run(cached, Command(event, Definition(text, self._core.compile(text))))

    async def _await_handover(self, cached: CachedJob) -> None:
        """Refuses turns while another node still has what it ran for the job. Raises StoreUnavailable."""
        if not self._handovers.is_awaited(cached.job_id, cached.document):
            return
        assert cached.document is not None
        if not self._handovers.is_overdue(cached.job_id, self._clock.now().steady):
            self._alarms.again(cached.job_id)
            raise StoreUnavailable("the job is moving from one node to another; ask again in a moment")
        self._log("handover_missed", jobId=cached.job_id)
        self._handovers.give_up(cached.job_id, cached.document)
        cached.cut_off = True
        await self._turn.read(cached)
