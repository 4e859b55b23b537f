"""A node that stops while others live gives its jobs away, by their claims alone.

daprd (1.18.3) that holds its node for ill moves its actors without a word, and reaches none for it: there is
nobody whom the node could tell. So the last turn of a job here is committed by its claim, which has the whole
state, that of qos 0 as well, and names nobody as the holder of what runs: whoever loads the job goes on.
"""

import asyncio

from scheduler_service.domain.events import HandedOver
from scheduler_service.domain.moments import SECOND
from scheduler_service.hosts.dapr.job_store import ClusterJobs
from scheduler_service.hosts.dapr.node import LocalJobs, NodeContext
from scheduler_service.hosts.effects import EffectHandlers
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.hosts.lasting_work import keep_at
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreConflict, StoreError

ROUND_MS = SECOND
HANDOVERS_AT_ONCE = 64


class Leaving:
    """From `begin` on nothing is started here, and each turn ends with the handover of its job.

    A job of which a call is in flight stays until its answer has been taken, but not for longer than that.
    """

    def __init__(
        self, *, node: NodeContext, local: LocalJobs, store: ClusterJobs, turn: Turn, effects: EffectHandlers
    ) -> None:
        self._sidecar = node.sidecar
        self._clock = node.clock
        self._log = node.log
        self._local = local
        self._store = store
        self._turn = turn
        self._effects = effects
        self._slots = asyncio.Semaphore(HANDOVERS_AT_ONCE)
        self._until = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        """Whether this node gives its jobs away."""
        return self._task is not None

    def begin(self, until: int) -> None:
        """Gives away what waits, what runs when its calls have ended, all of it at `until` (steady ms)."""
        self._until = until
        self._sidecar.leave()
        self._effects.start_nothing()
        self._local.alarms.close()
        self._task = keep_at(self._run, name="leaving", clock=self._clock, log=self._log)

    async def stop(self) -> None:
        """Ends; what is still here stays with this node until it is gone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def hand_over(self, cached: CachedJob) -> None:
        """Gives the job away, unless a call of it is in flight. The caller has its lock. Never raises.

        Where the claim fails the job stays, and is given away in the next round.
        """
        calls = () if cached.document is None else self._local.calls_in_flight(cached.document.head.uid)
        if not cached.is_live or (calls and self._clock.now().steady < self._until):
            return
        event = HandedOver(tuple({token.execute_number for token in calls}))
        try:
            if await self._store.begin(cached.job_id, will_commit=True):
                await self._turn.run(cached, Command(event))
        except StoreConflict as error:
            self._log("handover_failed", jobId=cached.job_id, error=str(error))
        except StoreError:
            return
        except Exception as error:  # noqa: BLE001 - one broken job must not keep the others here
            self._log("turn_failed", jobId=cached.job_id, error=repr(error))
            return
        for token in calls:
            self._effects.abandon(token)
        self._forget(cached)

    def _forget(self, cached: CachedJob) -> None:
        if cached.document is not None:
            uid = cached.document.head.uid
            self._local.end_watches(uid)
            self._local.handovers.forget(cached.job_id, uid)
        cached.forget()

    async def _run(self) -> None:
        while True:
            await asyncio.gather(*map(self._give_away, self._local.cache.live_jobs()))
            left = self._until - self._clock.now().steady
            await self._clock.sleep(min(left, ROUND_MS) if left > 0 else ROUND_MS)

    async def _give_away(self, job_id: str) -> None:
        async with self._slots:
            locked = self._local.cache.find(job_id)
            if locked is None:
                return
            await locked.acquire()
            try:
                await self.hand_over(locked.cached)
            finally:
                self._local.cache.leave(locked)
