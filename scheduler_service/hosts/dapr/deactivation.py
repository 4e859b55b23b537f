"""Jobs that leave this process: what only its memory knows of them follows them to their next node."""

import asyncio
from collections.abc import Callable

from scheduler_service.domain.events import Adopted
from scheduler_service.domain.wire import Holder, Token
from scheduler_service.hosts.dapr.handover import Handovers
from scheduler_service.hosts.dapr.reminders import ReminderAlarms
from scheduler_service.hosts.job_cache import JobCache, LockedJob
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log

HANDOVER_LIMIT = 1.0


class Deactivation:
    """Hands the executions of a job over; `holder` is this node, `alive` names its calls of a life."""

    def __init__(
        self,
        *,
        jobs: JobCache,
        alarms: ReminderAlarms,
        handovers: Handovers,
        alive: Callable[[str], tuple[Token, ...]],
        redelivery: Redelivery,
        holder: Holder,
        tasks: Tasks,
        log: Log,
    ) -> None:
        self._jobs = jobs
        self._alarms = alarms
        self._handovers = handovers
        self._alive = alive
        self._redelivery = redelivery
        self._holder = holder
        self._tasks = tasks
        self._log = log
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def wait_for(self, job_id: str) -> None:
        """Returns when no handover of this job is under way."""
        handing = self._under_way.get(job_id)
        if handing is not None:
            await asyncio.wait({handing})

    async def let_go(self, job_id: str) -> None:
        """The job leaves this process. Never raises.

        Returns within a second: daprd gives no job of the cluster to anybody until it has the answer, and a
        turn that hangs would hold up all of them.
        """
        await asyncio.wait({self._tasks.start(self._let_go(job_id))}, timeout=HANDOVER_LIMIT)

    async def _let_go(self, job_id: str) -> None:
        """Behind the turn that runs, if there is one."""
        locked = self._jobs.find(job_id)
        self._alarms.forget(job_id)
        if locked is None:
            return
        await locked.acquire()
        try:
            self._part_from(locked)
        finally:
            self._jobs.leave(locked)

    def _part_from(self, locked: LockedJob) -> None:
        cached = locked.cached
        if cached.document is not None and cached.doubt is None:
            uid = cached.document.head.uid
            if cached.is_live:
                beyond = self._handovers.flights(uid)
                event = Adopted(self._holder, self._alive(uid), cached.document, beyond)
                self._handovers.begin(cached.job_id, self._holder)
                self._under_way[cached.job_id] = self._tasks.start(self._hand_over(cached.job_id, event))
            self._handovers.forget(cached.job_id, uid)
        cached.forget()

    async def _hand_over(self, job_id: str, event: Adopted) -> None:
        try:
            await self._redelivery.deliver(job_id, event)
        except StoreError as error:
            self._log("handover_failed", jobId=job_id, error=str(error))
        finally:
            if self._under_way.get(job_id) is asyncio.current_task():  # else the job left again meanwhile
                self._handovers.end(job_id)
                del self._under_way[job_id]
