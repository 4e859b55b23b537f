"""Takes the turns of the embedded host: each under its job's lock, whoever asked for it."""

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

    def __init__(
        self, *, actors: JobCache, turn: Turn, alarms: EmbeddedAlarms, clock: Clock, log: Log
    ) -> None:
        self._clock = clock
        self._actors = actors
        self._turn = turn
        self._alarms = alarms
        self._log = log

    async def take(self, job_id: str, command: Command, moment: int | None = None) -> Reply:
        """Takes one turn (`Turn.run`) once all that was asked before it is done. Raises StoreError."""
        actor = self._actors.enter(job_id)
        if not actor.is_busy:
            actor.seize()
        else:
            await actor.acquire()
        try:
            return await self._turn.run(actor.held, command, moment)
        finally:
            self._actors.leave(actor)

    async def read(self, job_id: str) -> Job | None:
        """The job as it stands after its latest turn, contexts of qos 0 as well. Raises StoreError."""
        actor = self._actors.enter(job_id)
        await actor.acquire()
        try:
            return await self._turn.read(actor.held)
        finally:
            self._actors.leave(actor)

    async def ring(self, job_id: str, moment: int | None) -> None:
        """A ring never raises: who cannot be looked at now is looked at later.

        A job with executions is not taken ahead of `moment`: what they do until then may decide the firing.
        It is rung again then, and meanwhile for all else.
        """
        is_live = self._actors.is_live(job_id)
        if self._is_draining and not is_live:
            return
        ahead = ahead_of(moment, self._clock.now()) if is_live else 0
        if ahead:
            self._alarms.again(job_id, ahead)
            return
        try:
            await self.take(job_id, RANG, moment)
        except Exception as error:  # noqa: BLE001 - one broken job must stop neither the others nor the start
            self._look_later(job_id, error, "look_failed")

    async def wake(self, job_id: str) -> None:
        """The same for a job that an earlier process left open."""
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
