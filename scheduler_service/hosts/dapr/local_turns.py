"""Turns that this node takes past daprd: rings and answers of jobs whose actors are active here.

Such a turn is one whose request daprd has given up: daprd neither waits for it nor knows of it, and the claim
refuses it once another node has the job. Decision 51 has each order of it and what daprd does.
"""

import asyncio
from collections.abc import Awaitable

from scheduler_service.domain.events import AlarmRang, CallEnded, Event
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.replies import Reply
from scheduler_service.hosts.dapr.firings import is_firing
from scheduler_service.hosts.dapr.job_store import ClusterJobs
from scheduler_service.hosts.dapr.leaving import Leaving
from scheduler_service.hosts.dapr.node import LocalJobs, NodeContext
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.hosts.tasks import Tasks
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUncertain

LOCAL_TURNS_AT_ONCE = 64
"""So many are caught at most where daprd stands still or moves their actors."""


class LocalTurns:
    """Takes turns under the job's own lock, which orders them with those of daprd.

    `taken` counts them.
    """

    def __init__(
        self,
        *,
        node: NodeContext,
        local: LocalJobs,
        store: ClusterJobs,
        turn: Turn,
        leaving: Leaving,
        tasks: Tasks,
    ) -> None:
        self._holder = node.holder
        self._log = node.log
        self._clock = node.clock
        self._local = local
        self._active = local.active
        self._store = store
        self._turn = turn
        self._leaving = leaving
        self._tasks = tasks
        self._slots = asyncio.Semaphore(LOCAL_TURNS_AT_ONCE)
        self.taken = 0

    async def take(self, job_id: str, command: Command) -> Reply | None:
        """Takes the turn to its end, even if the caller is cancelled. Raises StoreError.

        None: nothing was done here, and daprd is to deliver the event.
        """
        if not self._leaving.has_begun and not (
            job_id in self._active and isinstance(command.event, (AlarmRang, CallEnded))
        ):
            return None
        return await asyncio.shield(self._tasks.start(self._take(job_id, command)))

    async def _take(self, job_id: str, command: Command) -> Reply | None:
        async with self._slots:
            locked = self._local.cache.find(job_id)
            if locked is None:
                return None
            await locked.acquire()
            try:
                if not await self._is_current(locked.cached, command.event):
                    return None
                self.taken += 1
                reply = await self._judge(job_id, self._turn.run(locked.cached, command))
                if self._leaving.has_begun:
                    await self._leaving.hand_over(locked.cached)
                return reply
            finally:
                self._local.cache.leave(locked)

    async def _is_current(self, cached: CachedJob, event: Event) -> bool:
        """Whether the job in memory is the one in the store, here, and nobody else's in part.

        All else is left to the turn that daprd delivers: loads, handovers, lost calls.
        """
        job_id, handovers = cached.job_id, self._local.handovers
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
            self._log("turn_failed", jobId=job_id, error=repr(error))
            self._local.alarms.again(job_id, MINUTE)
            raise StoreUncertain(f"the turn broke: {type(error).__name__}", is_public=True) from error
