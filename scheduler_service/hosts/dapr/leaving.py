"""Jobs that leave this process: daprd takes them away, or the node stops while others live."""

import asyncio
from collections.abc import Callable

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.turn_events import HandedOver
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.dapr.job_store import ClusterJobs
from scheduler_service.hosts.dapr.node import DaprParts, LocalJobs
from scheduler_service.hosts.effect_tasks import EffectHandlers
from scheduler_service.hosts.job_cache import CachedJob
from scheduler_service.hosts.tasks import Tasks, keep_at
from scheduler_service.hosts.turn import Turn
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.delivery import Command
from scheduler_service.ports.errors import StoreConflict, StoreError
from scheduler_service.ports.log import Log

QUIET_MS = 4 * SECOND
"""Jobs that leave within so long of each other leave together; till then this node knows of a new one."""
JOINED, GONE, PLACEMENT = "node_joined", "node_gone", "placement"


class Departures:
    """Counts jobs that daprd takes from this node. `others` names the other nodes that are alive."""

    def __init__(self, *, others: Callable[[], frozenset[Holder]], clock: Timekeeper, log: Log) -> None:
        self._others = others
        self._clock = clock
        self._log = log
        self._known = others()
        self._jobs = self._running = self._open = 0
        self._began = self._ended = 0
        self._alarm: Alarm | None = None

    def begin(self, *, is_running: bool) -> None:
        """A job leaves; `is_running`: its executions are handed over."""
        if not self._jobs:
            self._began = self._clock.now().steady
        self._jobs += 1
        self._running += is_running
        self._open += 1

    def end(self) -> None:
        """It has left, and what ran of it is handed over, or could not be."""
        self._open -= 1
        self._ended = self._clock.now().steady
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._clock.call_after(QUIET_MS, self._tell)

    def close(self) -> None:
        """Says what was not said yet."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._tell()

    def _tell(self) -> None:
        self._alarm = None
        if self._open or not self._jobs:
            return
        others = self._others()
        reason = JOINED if others - self._known else GONE if self._known - others else PLACEMENT
        took = self._ended - self._began
        self._log("jobs_moved", jobs=self._jobs, running=self._running, reason=reason, ms=took)
        self._known, self._jobs, self._running = others, 0, 0


DEACTIVATION_TIMEOUT_SECONDS = 1.0
LONGEST_DOUBT_MS = MINUTE


class Deactivation:
    """Hands over what only this process has of a job: contexts of qos 0, and its calls in flight.

    Its watches of instances end here: the next node begins its own. A turn that is in doubt, as that of the
    handover may be, is settled before, for a minute at most.
    """

    def __init__(
        self, *, node: DaprParts, local: LocalJobs, store: ClusterJobs, turn: Turn, tasks: Tasks
    ) -> None:
        self._holder = node.holder
        self._clock = node.clock
        self._sidecar = node.sidecar
        self._log = node.log
        self._local = local
        self._store = store
        self._turn = turn
        self._tasks = tasks
        self._departures = Departures(others=node.others, clock=node.clock, log=node.log)

    async def deactivate(self, job_id: str) -> None:
        """The job leaves this process. Never raises.

        Returns within a second: until then daprd activates no job of the cluster anywhere, and a turn that
        hangs would hold up all of them.
        """
        task = self._tasks.start(self._deactivate(job_id))
        await asyncio.wait({task}, timeout=DEACTIVATION_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Says in the log what has left and was not said yet."""
        self._departures.close()

    async def _deactivate(self, job_id: str) -> None:
        """Waits for the turn that runs, if there is one, and holds the lock: the job may come back."""
        locked = self._local.cache.find(job_id)
        is_given = False
        if locked is not None:
            await locked.acquire()
            cached = locked.cached
            self._departures.begin(is_running=cached.is_live)
            try:
                is_given = await self._give_away(cached)
            finally:
                self._departures.end()
                _let_go(cached, self._local)
                self._local.cache.leave(locked)
        self._local.alarms.forget(job_id)
        if is_given:
            self._tasks.start(self._local.alarms.ring(job_id))  # its alarm waits where it lives now

    async def _give_away(self, cached: CachedJob) -> bool:
        """Whether something was handed over."""
        end = self._clock.now().steady + LONGEST_DOUBT_MS
        while cached.is_live and not cached.cut_off and not self._sidecar.is_left:
            try:
                if cached.doubt is None:
                    return await self._hand_over(cached)
                await self._turn.resolve(cached, cached.doubt)
            except StoreConflict as error:
                self._log("handover_failed", jobId=cached.job_id, error=str(error))
                return False
            except StoreError as error:
                if self._clock.now().steady >= end:
                    self._log("handover_failed", jobId=cached.job_id, error=str(error))
                    return False
                await self._clock.sleep(SECOND)
            except Exception as error:  # noqa: BLE001 - one broken job must not keep the others here
                self._log("turn_failed", jobId=cached.job_id, error=repr(error))
                return False
        return False

    async def _hand_over(self, cached: CachedJob) -> bool:
        """Claims it. Raises StoreError."""
        assert cached.document is not None, "something of it runs"
        uid = cached.document.head.uid
        flights = (*self._local.handovers.calls_by_node(uid), (self._holder, self._local.own_calls(uid)))
        if not await self._store.begin(cached.job_id, will_commit=True):
            return False
        self._store.give_away(cached.job_id, tuple(one for one in flights if one[1]))
        await self._turn.run(cached, Command(HandedOver()))
        return True


def _let_go(cached: CachedJob, local: LocalJobs) -> None:
    """The job has left, or could not be handed over."""
    if cached.document is not None:
        uid = cached.document.head.uid
        local.end_watches(uid)
        local.handovers.forget(cached.job_id, uid)
    cached.forget()


ROUND_MS = SECOND
HANDOVERS_AT_ONCE = 64


class Leaving:
    """A node that stops while others live gives its jobs away, by their claims alone.

    daprd (1.18.3) that holds its node for ill moves its actors without a word, and reaches none for it: there
    is nobody whom the node could tell. So the last turn of a job here is committed by its claim, which has
    the whole state, that of qos 0 as well, and names nobody as the holder of what runs: whoever loads it goes
    on.

    From `begin` on nothing is started here, and each turn ends with the handover of its job.

    A job of which a call is in flight stays until its answer has been taken, but not for longer than that.
    """

    def __init__(
        self, *, node: DaprParts, local: LocalJobs, store: ClusterJobs, turn: Turn, effects: EffectHandlers
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
            self._effects.calls.abandon(token)
        _let_go(cached, self._local)

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
