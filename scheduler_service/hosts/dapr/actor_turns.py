"""Turns on the jobs whose actors live in this process: as messages ask for them, and past daprd."""

import asyncio
import secrets
from collections.abc import Awaitable

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import MINUTE, Now
from scheduler_service.domain.replies import Recalled, Reply, Unchanged
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    Backfilled,
    CallEnded,
    CancelRequested,
    Created,
    Destroyed,
    Event,
    Paused,
    Released,
    Triggered,
    Unsent,
    Updated,
)
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.background_tasks import STARTING, STOPPING, Tasks
from scheduler_service.hosts.dapr.cluster_jobs import ClusterJobs
from scheduler_service.hosts.dapr.leaving import Leaving
from scheduler_service.hosts.dapr.node import DaprParts, HistoryWait, LocalJobs
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.hosts.node_messages import (
    answer_message,
    read_kept,
    read_reply,
    write_ask,
    write_error,
)
from scheduler_service.hosts.revisions import KEY_BYTES
from scheduler_service.hosts.turn import Turn
from scheduler_service.pacing.fair_line import FairSlots
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import (
    StoreConflict,
    StoreError,
    StoreStopping,
    StoreUnavailable,
    StoreUncertain,
)


def is_firing(cached: CachedJob, event: Event, now: Now) -> bool:
    """Whether the turn uses up a firing or a trigger that is due, on a job of which nothing runs.

    It moves the schedule's cursor, or begins what waited for its moment: both are durable at both qos.
    """
    wall = cached.due.wall
    is_due = wall is not None and wall <= now.wall
    return is_due and type(event) is AlarmRang and cached.is_ready and not cached.is_live


TRIES = 3
LOCAL_TURNS_AT_ONCE = 64
"""So many are caught at most where daprd stands still or moves their actors."""
COMMANDS = (Created, Updated, Activated, Paused, Destroyed, Triggered, Backfilled, Released, CancelRequested)
"""The events of callers: reads at any node show them after the reply. Feedback comes by the hundred to one
job, and the actor is held while a reply waits: reads at other nodes show it half a second later."""


class ClusterTurns:
    """Takes turns for this node; a job of which another node still runs something waits for its handover.

    daprd delivers messages (`take`) and reminders (`look`). Rings and answers of jobs whose actors are active
    here do without it (`take_here`): such a turn is one whose request daprd has given up, which neither waits
    for it nor knows of it; the claim refuses it once another node has the job. Decision 51 has each order of
    it and what daprd does. The job's own lock orders all of them.

    Replies to commands wait for the history (`HistoryWait`).
    """

    def __init__(
        self,
        *,
        node: DaprParts,
        local: LocalJobs,
        store: ClusterJobs,
        turn: Turn,
        leaving: Leaving,
        tasks: Tasks,
    ) -> None:
        self._holder = node.holder
        self._clock = node.clock
        self._log = node.log
        self._local = local
        self._active = local.active
        self._handovers = local.handovers
        self._alarms = local.alarms
        self._core = node.core
        self._store = store
        self._turn = turn
        self._leaving = leaving
        self._tasks = tasks
        self._owner_of = node.owner_of
        self._wait_for_history = HistoryWait(flush=node.history.flush, clock=node.clock, log=node.log)
        self._slots = FairSlots(LOCAL_TURNS_AT_ONCE)
        self._is_stopping = False

    def stop_starting(self) -> None:
        """From now on no execution is started here: what runs may end."""
        self._is_stopping = True
        self._turn.begin_nothing()

    async def take(self, job_id: str, message: bytes) -> bytes:
        """Takes the turn of a message. Never raises: errors are answers."""
        try:
            return await answer_message(
                message,
                job_id,
                compile_text=self._core.compile_received or self._core.compile,
                read=lambda: self._read(job_id),
                take=lambda command: self._take(job_id, command),
            )
        except Exception as error:  # noqa: BLE001 - one broken job must not look like a broken node
            return write_error(self._note_broken(job_id, error))

    async def take_here(self, job_id: str, command: Command) -> Reply | None:
        """Takes a turn past daprd, to its end, even if the caller is cancelled. Raises StoreError.

        None: nothing was done here, and daprd is to deliver the event.
        """
        is_local = job_id in self._active and isinstance(command.event, (AlarmRang, CallEnded))
        if not is_local and not self._leaving.has_begun:
            return None
        return await asyncio.shield(self._tasks.start(self._take_here(job_id, command)))

    async def look(self, job_id: str) -> None:
        """The turn of a reminder; after an error the job rings again in a second. Never raises."""
        answer = await self.take(job_id, write_ask(Command(AlarmRang())))
        try:
            read_reply(answer)
        except StoreError as error:
            self._log("alarm_not_taken", jobId=job_id, error=str(error))
            self._alarms.again(job_id)

    async def _read(self, job_id: str) -> Job | None:
        locked = self._local.cache.enter(job_id)
        await locked.acquire()
        try:
            cached = locked.cached
            await self._prepare(cached)
            if not cached.cut_off or not self._is_moving(cached):
                return await self._turn.read(cached)
            job = await self._turn.load(cached)
            cached.forget()  # whoever takes the next turn loads what the other node has made of it
            return job
        finally:
            self._local.cache.leave(locked)

    async def _take(self, job_id: str, command: Command) -> Reply:
        if self._is_refused(command.event):
            raise StoreStopping(STOPPING)
        reply = await self._try(job_id, command)
        if isinstance(command.event, COMMANDS):
            await self._wait_for_history(job_id)
        return reply

    async def _try(self, job_id: str, command: Command) -> Reply:
        """Tries again where another node was first: then the job is loaded anew."""
        for left in reversed(range(TRIES)):
            try:
                return await self._take_once(job_id, command)
            except StoreConflict:
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _is_refused(self, event: Event) -> bool:
        """Whether the node stops, and another one is to take the event."""
        if self._leaving.has_begun and isinstance(event, AlarmRang):
            return True
        return self._is_stopping and isinstance(event, STARTING)

    async def _take_once(self, job_id: str, command: Command) -> Reply:
        event = command.event
        locked = self._local.cache.enter(job_id)
        await locked.acquire()
        try:
            cached = locked.cached
            await self._prepare(cached, will_commit=is_firing(cached, event, self._clock.now()))
            asked = command.remembered
            known = None if asked is None else self._store.answer_to(job_id, asked)
            if asked is not None and known is not None:
                if asked.is_of_message:
                    return read_kept(known.answer)
                return Recalled(known.answer, known.digest == asked.digest)
            await self._await_handover(cached)
            if isinstance(event, Unsent) and self._is_in_flight(event):
                return Unchanged()
            return await self._run(cached, command)
        finally:
            self._local.cache.leave(locked)

    async def _run(self, cached: CachedJob, command: Command) -> Reply:
        """The turn; of a node that leaves it ends with the handover of the job."""
        try:
            return await self._turn.run(cached, command)
        finally:
            if self._leaving.has_begun:
                await self._leaving.hand_over(cached)

    def _is_in_flight(self, event: Unsent) -> bool:
        """Whether this node or another one has sent the call meanwhile and awaits its answer."""
        self._handovers.drop_call(event.token.uid, event.holder, event.token)
        return event.token in self._local.calls_in_flight(event.token.uid)

    async def _prepare(self, cached: CachedJob, *, will_commit: bool = False) -> None:
        """Loads what is in the store; restores a lost state from the catalogue. Raises StoreError."""
        is_known = cached.loaded and cached.doubt is None
        if is_known and not await self._store.begin(cached.job_id, will_commit=will_commit):
            cached.forget()
        if self._handovers.has_dead_holder(self._holder, cached.document):
            cached.cut_off = True
        await self._turn.load(cached)
        if cached.cut_off and cached.document is not None:
            self._handovers.note(cached.job_id, cached.document, self._store.flights(cached.job_id))
        entry = cached.entry
        if cached.document is None and entry is not None and entry.state is not JobState.DESTROYED:
            await self._restore(cached)

    async def _restore(self, cached: CachedJob) -> None:
        """The job lives in the catalogue, and the actor store has lost its state: it goes on."""
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
            restored=True,
        )
        definition = Definition(text, await self._core.compile(text, read_job_key(cached.job_id)[0]))
        await self._turn.run(cached, Command(event, definition))

    def _is_moving(self, cached: CachedJob) -> bool:
        """Whether the job is another node's, or will be: its executions are not to be taken up here."""
        return self._leaving.has_begun or self._handovers.is_expected(cached.job_id, cached.document)

    async def _await_handover(self, cached: CachedJob) -> None:
        """Raises StoreUnavailable while another node has not handed over what it ran for the job."""
        if not self._handovers.is_expected(cached.job_id, cached.document):
            return
        assert cached.document is not None
        if not self._handovers.is_overdue(cached.job_id, cached.document, self._clock.now().steady):
            self._alarms.again(cached.job_id)
            if cached.cut_off:  # loaded just now: the other node may write its handover with a claim
                cached.forget()
            raise StoreUnavailable(
                "the job is moving from one node to another; ask again in a moment", is_public=True
            )
        self._log("handover_missed", jobId=cached.job_id)
        self._handovers.give_up(cached.job_id, cached.document)
        cached.cut_off = True

    async def _take_here(self, job_id: str, command: Command) -> Reply | None:
        """Tenants take turns at the slots."""
        await self._slots.acquire(read_job_key(job_id)[0])
        try:
            return await self._take_in_slot(job_id, command)
        finally:
            self._slots.release()

    async def _take_in_slot(self, job_id: str, command: Command) -> Reply | None:
        locked = self._local.cache.find(job_id)
        if locked is None:
            return None
        await locked.acquire()
        try:
            if not await self._is_current(locked.cached, command.event):
                return None
            return await self._judge(job_id, self._run(locked.cached, command))
        finally:
            self._local.cache.leave(locked)

    async def _is_current(self, cached: CachedJob, event: Event) -> bool:
        """Whether the job in memory is the one in the store, here, and nobody else's in part.

        All else is left to the turn that daprd delivers: loads, handovers, lost calls.
        """
        job_id, handovers = cached.job_id, self._handovers
        if self._leaving.has_begun:
            return cached.is_live and await self._store.begin(job_id, will_commit=True)
        if job_id not in self._active or not cached.is_ready or cached.document is None:
            return False
        if handovers.has_dead_holder(self._holder, cached.document):
            return False
        if handovers.is_expected(job_id, cached.document):
            return False
        try:
            is_current = await self._store.begin(
                job_id, will_commit=is_firing(cached, event, self._clock.now())
            )
        except StoreError:
            self._active.clear()
            return False
        return is_current and job_id in self._active

    async def _judge(self, job_id: str, turn: Awaitable[Reply]) -> Reply | None:
        """The reply; None where nothing was written because the job lives elsewhere. Raises StoreError."""
        try:
            return await turn
        except StoreConflict:
            self._active.clear()
            return None
        except StoreUncertain:
            self._active.clear()
            raise
        except StoreError:
            raise
        except Exception as error:  # one broken job must not look like a broken node
            raise self._note_broken(job_id, error) from error

    def _note_broken(self, job_id: str, error: Exception) -> StoreUncertain:
        """A defect: the job rings again in a minute."""
        self._log("turn_failed", jobId=job_id, error=repr(error))
        self._alarms.again(job_id, MINUTE)
        return StoreUncertain(f"the turn broke: {type(error).__name__}", is_public=True)
