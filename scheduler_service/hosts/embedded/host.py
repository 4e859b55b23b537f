"""The embedded host: turns run in this process, one at a time per job."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from scheduler_service.domain.events import (
    Activated,
    AlarmRang,
    CancelRequested,
    Created,
    Destroyed,
    Paused,
    Updated,
)
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.embedded.alarms import OVERDUE_AFTER_MS, EmbeddedAlarms
from scheduler_service.hosts.embedded.bulk_creation import BulkCreation
from scheduler_service.hosts.embedded.recovery import Recovery
from scheduler_service.hosts.host_parts import HostParts
from scheduler_service.hosts.job_cache import CachedJob, JobCache, LoadedJob
from scheduler_service.hosts.tasks import STARTING, STOPPING, Tasks, close_history, wait_for_rest
from scheduler_service.hosts.timed_release import TimedRelease, ahead_of
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Definition
from scheduler_service.ports.errors import StateUnreadable, StoreError, StoreUnavailable
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import StateStore
from scheduler_service.telemetry.tally import Tally

RANG = Command(AlarmRang())
COMMANDS = (Paused, Activated, Updated, Destroyed, CancelRequested)
MANY_OPENS, OPENS_A_MS = 500, 100
"""A turn of a job with so many open executions takes the loop 0.05 ms for each hundred; after it others have
twenty times as long."""
BEHIND_PAUSE_MS = 100

Result = TypeVar("Result")


class EmbeddedTurns:
    """Brings events, rings and questions to the jobs of this process, one at a time for each job."""

    _is_draining = False

    def __init__(
        self,
        *,
        jobs: JobCache,
        turn: Turn,
        alarms: EmbeddedAlarms,
        history: History,
        clock: Clock,
        log: Log,
    ) -> None:
        self._history = history
        self._clock = clock
        self._jobs = jobs
        self._turn = turn
        self._alarms = alarms
        self._log = log
        # On a full disk each due job fails each second: one line names the last job, and counts the others.
        self._not_taken = Tally("alarm_not_taken", log=log)
        self._not_woken = Tally("job_not_woken", log=log)

    async def take(self, job_id: str, command: Command, moment: int | None = None) -> Reply:
        """Takes one turn (`Turn.run`) once all that was asked before it is done. Raises StoreError.

        A command that ends, holds or changes what a job does waits for other commands alone.
        """
        locked = self._jobs.enter(job_id)
        if not locked.is_busy:
            locked.seize()
        else:
            await locked.acquire(is_command=isinstance(command.event, COMMANDS))
        try:
            return await self._turn.run(locked.cached, command, moment)
        finally:
            self._jobs.leave(locked)

    async def read(self, job_id: str, loaded: LoadedJob | None = None) -> Job | None:
        """The job after its latest turn that was answered, contexts of qos 0 as well. Raises StoreError.

        A job in memory is read beside its turns: of those under way or in line nobody has been told yet.
        `loaded`: what the store has of it, where that is known.
        """
        locked = self._jobs.enter(job_id)
        cached, turn = locked.cached, self._turn
        job = turn.glance(cached)
        while job is None and locked.is_busy and cached.is_empty:  # it is being loaded, or waits in line
            used = cached.sequence
            found = await turn.look_up(job_id)
            loaded = None  # it is older than what was answered meanwhile
            if self._jobs.find(job_id) is not locked:
                break  # the job has left memory, and may have come back
            job = turn.glance(cached)  # again: what memory has by now is no older
            if job is None and cached.is_empty and cached.sequence == used:
                if found.cut_off:
                    break
                return turn.glance(found)
        if job is not None:
            return job
        locked = self._jobs.enter(job_id)
        await locked.acquire()
        try:
            return await self._turn.read(locked.cached, loaded)
        finally:
            self._jobs.leave(locked)

    async def ring(self, job_id: str, moment: int | None) -> None:
        """Rings a job; after an error it rings again later. Never raises.

        A job with live executions is not rung ahead of `moment`, because they may still affect the firing:
        its alarm is set to the moment itself.
        """
        is_live = self._jobs.is_live(job_id)
        if self._is_draining and not is_live:
            return
        ahead = ahead_of(moment, self._clock.now()) if is_live else 0
        if ahead:
            self._alarms.again(job_id, ahead)
            return
        locked = self._jobs.enter(job_id)
        try:  # as `take`, without a coroutine of its own
            if not locked.is_busy:
                locked.seize()
            else:
                await locked.acquire()
            try:
                await self._turn.run(locked.cached, RANG, moment)
            finally:
                self._jobs.leave(locked)
        except Exception as error:  # noqa: BLE001 - one broken job must not stop the others or the start
            self._look_later(job_id, error, self._not_taken)
            return
        document = locked.cached.document
        if document is not None and (len(document.head.opens) >= MANY_OPENS or self._history.is_behind()):
            self._let_others_go_first(locked.cached, len(document.head.opens))

    def _let_others_go_first(self, cached: CachedJob, opens: int) -> None:
        """Puts off what a job still owes, where its turns take long, or the history cannot follow.

        Else a job that is behind by thousands of firings rings again at once, and others only in between.
        """
        due, now = cached.due.wall, self._clock.now().wall
        if due is None or due > now:
            return
        pause = opens // OPENS_A_MS if opens >= MANY_OPENS else 0
        if due < now - OVERDUE_AFTER_MS and self._history.is_behind():
            pause = max(pause, BEHIND_PAUSE_MS)
        if pause:
            self._alarms.again(cached.job_id, pause)

    async def wake(self, job_id: str, loaded: LoadedJob | None = None) -> None:
        """Loads a job that an earlier process left open, unless it is `loaded`. Never raises."""
        try:
            await self.read(job_id, loaded)
        except Exception as error:  # noqa: BLE001 - as above
            self._look_later(job_id, error, self._not_woken)

    def drain(self) -> None:
        """Rings only jobs with executions that run, from now on."""
        self._is_draining = True

    def flush_log(self) -> None:
        """Writes the lines of the log that wait for more of their kind."""
        self._not_taken.flush()
        self._not_woken.flush()

    def _look_later(self, job_id: str, error: Exception, failed: Tally) -> None:
        if isinstance(error, StateUnreadable):
            self._log("turn_failed", jobId=job_id, error=str(error))
            self._alarms.again(job_id, MINUTE)
        elif isinstance(error, StoreError):
            failed.count("times", jobId=job_id, error=str(error))
            self._alarms.again(job_id)
        else:
            self._log("turn_failed", jobId=job_id, error=repr(error))
            self._alarms.again(job_id, MINUTE)


class EmbeddedHost:
    """Delivers events to the jobs of one store; implements `ports.Deliver`."""

    _is_ready = False
    _is_draining = False
    _waking: asyncio.Task[None] | None = None

    def __init__(
        self,
        parts: HostParts,
        *,
        store: StateStore,
        turns: EmbeddedTurns,
        creation: BulkCreation,
        jobs: JobCache,
        alarms: EmbeddedAlarms,
        effects: EffectHandlers,
        recovery: Recovery,
        release: TimedRelease,
    ) -> None:
        self._history = parts.history
        self._clock = parts.clock
        self._log = parts.log
        self._store = store
        self._turns = turns
        self._creation = creation
        self._jobs = jobs
        self._alarms = alarms
        self._recovery = recovery
        self._release = release
        self._tasks = Tasks()
        self.effects = effects
        self.notifications = effects.notifications

    async def __call__(self, job_id: str, command: Command) -> Reply:
        """Takes one turn and returns its reply after its commit. Raises StoreError: nothing was done.

        A turn that has begun is completed, also when the caller is cancelled.
        """
        if self._is_draining and isinstance(command.event, STARTING):
            raise StoreUnavailable(STOPPING, is_public=True)
        event, definition = command.event, command.definition
        if isinstance(event, Created) and not event.uid and definition and command.remembered is None:
            return await self._to_its_end(self._creation.take(definition, event))
        return await self._to_its_end(self._turns.take(job_id, command))

    async def create_all(self, definitions: Sequence[Definition], owner: str) -> Sequence[Reply | StoreError]:
        """Takes the turn Created for each, their writes as one group; an error stands in place of its reply.

        The jobs belong to the service `owner`; empty: to none. The turns of one job are taken in their order.
        Never raises StoreError.
        """
        if self._is_draining:
            return [StoreUnavailable(STOPPING, is_public=True)] * len(definitions)
        return await self._to_its_end(self._creation.run(definitions, Created(uid="", key=b"", owner=owner)))

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
        return len(self._jobs)

    def peek(self, job_id: str) -> CatalogueEntry | None:
        """The job's line as its latest commit left it, where memory has it; else ask the catalogue."""
        locked = self._jobs.find(job_id)
        return None if locked is None else locked.cached.entry

    @property
    def running(self) -> int:
        """How many jobs have executions that run or wait for a retry."""
        return self._jobs.live

    @property
    def open_bytes(self) -> int:
        """How much open executions keep in memory (`hosts.open_bytes`)."""
        return self._jobs.open_bytes.total

    async def read(self, job_id: str) -> Job | None:
        """The job after its latest turn that was answered, contexts of qos 0 as well. Raises StoreError."""
        return await self._turns.read(job_id)

    async def start(self) -> None:
        """Sends again what was in flight, rings, and does the rest behind it. Raises StoreUnavailable."""
        await self._recovery.run()
        await self._alarms.start()
        self._is_ready = True
        self._waking = asyncio.create_task(self._recovery.run_rest())

    async def stop(self, grace: int) -> None:
        """Drains, for at most `grace` ms, then closes history and store (SPEC section 14).

        No firing is taken any more; what runs may end. What is open after that is left in the store: with
        qos 1 it goes on after the next start, with qos 0 it is lost then.
        """
        end = self._clock.now().steady + grace
        self._is_ready = False
        self._is_draining = True
        await self._stop_waking()
        self.notifications.end_hold()
        self._turns.drain()
        self._alarms.drain()
        await wait_for_rest(self._is_at_work, clock=self._clock, end=end)
        await self._alarms.stop()
        await self.effects.stop()
        await self._tasks.wait_for_all()
        self._turns.flush_log()
        await close_history(self._history, self._log, clock=self._clock, until=end)
        await self._store.close()

    def is_settled(self, *, open_calls: int = 0) -> bool:
        """Whether nothing goes on before the clock moves or one of `open_calls` requests is answered.

        For tests, which move the clock only then.
        """
        effects = self.effects
        calls = len(effects.calls) + len(effects.parts) + effects.calls.informing
        is_sending = calls + (not effects.notifications.is_idle) > open_calls
        is_waking = self._waking is not None and not self._waking.done()
        is_busy = len(self._tasks) > 0 or is_sending or is_waking
        return not is_busy and self._alarms.is_settled(len(self._release))

    def abort(self) -> None:
        """Cancels rings and calls where they are, as the death of the process does: for tests."""
        self._alarms.abort()
        self.effects.calls.abort()

    async def _stop_waking(self) -> None:
        """Jobs that were not woken are left to the next start."""
        if self._waking is not None:
            self._waking.cancel()
            await asyncio.gather(self._waking, return_exceptions=True)

    def _is_at_work(self) -> bool:
        turns = self._alarms.is_ringing or len(self._tasks) > 0
        return turns or self._jobs.live > 0 or not self.effects.is_idle

    async def _to_its_end(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What `work` gives; it goes on when nobody waits for it any more."""
        result: Result = await asyncio.shield(self._tasks.start(work))
        return result
