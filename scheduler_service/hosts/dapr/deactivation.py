"""Jobs that leave this process: their executions are handed over to their next node."""

import asyncio
from collections.abc import Awaitable, Callable

from scheduler_service.domain.events import Adopted
from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.hosts.dapr.departures import Departures
from scheduler_service.hosts.dapr.node import LocalJobs, NodeContext
from scheduler_service.hosts.job_cache import CachedJob, LockedJob, PendingCommit
from scheduler_service.hosts.redelivery import Redelivery
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.ports.errors import StoreError

DEACTIVATION_TIMEOUT_SECONDS = 1.0
LONGEST_DOUBT_MS = MINUTE

Resolve = Callable[[CachedJob, PendingCommit], Awaitable[None]]
"""Asks the store whether it has the turn of which it did not say so. Raises StoreError."""


class Deactivation:
    """Hands over what only this process has of a job: contexts of qos 0, and its calls in flight.

    Its watches of instances end here: the next node begins its own. Where the move itself has put a turn in
    doubt, what the store has of it is handed over, as soon as daprd reads it.
    """

    def __init__(
        self, *, node: NodeContext, local: LocalJobs, redelivery: Redelivery, tasks: Tasks, resolve: Resolve
    ) -> None:
        self._holder = node.holder
        self._clock = node.clock
        self._sidecar = node.sidecar
        self._log = node.log
        self._local = local
        self._redelivery = redelivery
        self._tasks = tasks
        self._resolve = resolve
        self._departures = Departures(others=node.others, clock=node.clock, log=node.log)
        self._handing_over: dict[str, asyncio.Task[None]] = {}

    async def wait_for(self, job_id: str) -> None:
        """Returns when no handover of this job is under way."""
        task = self._handing_over.get(job_id)
        if task is not None:
            await asyncio.wait({task})

    async def deactivate(self, job_id: str) -> None:
        """The job leaves this process. Never raises.

        Returns within a second: until then daprd activates no job of the cluster anywhere, and a turn that
        hangs would hold up all of them.
        """
        task = self._tasks.start(self._deactivate(job_id))
        await asyncio.wait({task}, timeout=DEACTIVATION_TIMEOUT_SECONDS)

    async def _deactivate(self, job_id: str) -> None:
        """Waits for the turn that runs, if there is one."""
        locked = self._local.cache.find(job_id)
        self._local.alarms.forget(job_id)
        if locked is None:
            return
        await locked.acquire()
        if locked.cached.doubt is None:
            self._leave(locked)
        else:  # daprd reads no state before the move is over
            self._tasks.start(self._leave_in_doubt(locked))

    async def _leave_in_doubt(self, locked: LockedJob) -> None:
        """Until the turn is settled, for a minute at most, the lock is held: the job may come back."""
        cached, end = locked.cached, self._clock.now().steady + LONGEST_DOUBT_MS
        try:
            while cached.doubt is not None and not self._sidecar.is_left and self._clock.now().steady < end:
                try:
                    await self._resolve(cached, cached.doubt)
                except StoreError:
                    await self._clock.sleep(SECOND)
        finally:
            self._local.alarms.forget(cached.job_id)
            self._leave(locked)

    def _leave(self, locked: LockedJob) -> None:
        """Passes the lock on."""
        try:
            self._departures.begin(is_running=locked.cached.is_live)
            if not self._begin_handover(locked):
                self._departures.end()
        finally:
            self._local.cache.leave(locked)

    def close(self) -> None:
        """Says in the log what has left and was not said yet."""
        self._departures.close()

    def _begin_handover(self, locked: LockedJob) -> bool:
        """Whether something is handed over; the job leaves in either case."""
        is_handed_over = False
        cached, handovers = locked.cached, self._local.handovers
        if cached.document is not None and cached.doubt is None:
            uid = cached.document.head.uid
            if cached.is_live:
                calls = self._local.own_calls(uid)
                beyond = handovers.calls_by_node(uid)
                event = Adopted(self._holder, calls, cached.document, beyond, cached.sequence)
                handovers.begin(cached.job_id, self._holder)
                task = self._tasks.start(self._hand_over(cached.job_id, event))
                self._handing_over[cached.job_id] = task
                is_handed_over = True
            self._local.end_watches(uid)
            handovers.forget(cached.job_id, uid)
        cached.forget()
        return is_handed_over

    async def _hand_over(self, job_id: str, event: Adopted) -> None:
        try:
            await self._redelivery.deliver(job_id, event)
        except StoreError as error:
            self._log("handover_failed", jobId=job_id, error=str(error))
        finally:
            self._departures.end()
            if self._handing_over.get(job_id) is asyncio.current_task():  # else the job left again meanwhile
                self._local.handovers.end(job_id)
                del self._handing_over[job_id]
