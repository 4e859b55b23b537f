"""Turns of the embedded host: one at a time for each job, its commands before what else waits."""

import asyncio
from collections.abc import Sequence

from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply
from scheduler_service.domain.turn_events import (
    Activated,
    AlarmRang,
    CancelRequested,
    Destroyed,
    Paused,
    Updated,
)
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.clock import ahead_of
from scheduler_service.hosts.embedded.alarms import OVERDUE_AFTER_MS, EmbeddedAlarms
from scheduler_service.hosts.job_cache import CachedJob, JobCache, LoadedJob
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StateUnreadable, StoreError
from scheduler_service.ports.history import History
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.log_summaries import Tally

RANG = Command(AlarmRang())
COMMANDS = (Paused, Activated, Updated, Destroyed, CancelRequested)
MANY_OPENS, OPENS_A_MS = 500, 100
"""A turn of a job with so many open executions takes the loop 0.05 ms for each hundred; after it others have
twenty times as long."""
BEHIND_PAUSE_MS = 100
LOADED_AT_ONCE = 16
"""Jobs that are read together are decoded together, which occupies the loop for about 2 ms."""


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

    async def prefetch(self, job_ids: Sequence[str]) -> None:
        """Loads the first of `job_ids`, except jobs in memory, so that no firing waits for the disk.

        At most half as many as are kept there. It has no authority: who is not there is loaded at its moment.
        """
        absent = [job_id for job_id in job_ids[: self._jobs.most // 2] if self._jobs.find(job_id) is None]
        for start in range(0, len(absent), LOADED_AT_ONCE):
            await asyncio.gather(*map(self._prefetch, absent[start : start + LOADED_AT_ONCE]))

    def drain(self) -> None:
        """Rings only jobs with executions that run, from now on, and begins none that waits."""
        self._is_draining = True
        self._turn.begin_nothing()

    def flush_log(self) -> None:
        """Writes the lines of the log that wait for more of their kind."""
        self._not_taken.flush()
        self._not_woken.flush()

    async def _prefetch(self, job_id: str) -> None:
        locked = self._jobs.enter(job_id)
        await locked.acquire()
        try:
            await self._turn.read(locked.cached)
        except Exception:  # noqa: BLE001 - one job that cannot be loaded must not stop the others
            return  # its ring meets the same error, and logs it
        finally:
            self._jobs.leave(locked)

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
