"""Takes the turns of the embedded host, each under its job's lock."""

from scheduler_service.domain.events import AlarmRang
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply
from scheduler_service.engine.decision import Job
from scheduler_service.hosts.embedded.alarms import EmbeddedAlarms
from scheduler_service.hosts.job_cache import JobCache
from scheduler_service.hosts.timed_release import ahead_of
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log

RANG = Command(AlarmRang())


class EmbeddedTurns:
    """Brings events, rings and questions to the jobs of this process, one at a time for each job."""

    _is_draining = False

    def __init__(self, *, jobs: JobCache, turn: Turn, alarms: EmbeddedAlarms, clock: Clock, log: Log) -> None:
        self._clock = clock
        self._jobs = jobs
        self._turn = turn
        self._alarms = alarms
        self._log = log

    async def take(self, job_id: str, command: Command, moment: int | None = None) -> Reply:
        """Takes one turn (`Turn.run`) once all that was asked before it is done. Raises StoreError."""
        locked = self._jobs.enter(job_id)
        if not locked.is_busy:
            locked.seize()
        else:
            await locked.acquire()
        try:
            return await self._turn.run(locked.cached, command, moment)
        finally:
            self._jobs.leave(locked)

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        locked = self._jobs.enter(job_id)
        await locked.acquire()
        try:
            return await self._turn.read(locked.cached)
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
        try:
            await self.take(job_id, RANG, moment)
        except Exception as error:  # noqa: BLE001 - one broken job must not stop the others or the start
            self._look_later(job_id, error, "look_failed")

    async def wake(self, job_id: str) -> None:
        """Loads a job that an earlier process left open. Never raises."""
        try:
            await self.read(job_id)
        except Exception as error:  # noqa: BLE001 - as above
            self._look_later(job_id, error, "wake_failed")

    def drain(self) -> None:
        """Rings only jobs with executions that run, from now on."""
        self._is_draining = True

    def _look_later(self, job_id: str, error: Exception, failed: str) -> None:
        if isinstance(error, StoreError):
            self._log(failed, jobId=job_id, error=str(error))
            self._alarms.again(job_id)
        else:
            self._log("turn_broke", jobId=job_id, error=repr(error))
            self._alarms.again(job_id, MINUTE)
