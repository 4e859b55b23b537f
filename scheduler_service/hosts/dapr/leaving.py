"""Jobs that leave this process: daprd takes them away, or the node stops while others live."""

import asyncio
from collections.abc import Callable

from scheduler_service.domain.moments import MINUTE, SECOND
from scheduler_service.domain.turn_events import HandedOver
from scheduler_service.domain.wire import Holder
from scheduler_service.hosts.background_tasks import Tasks, keep_at
from scheduler_service.hosts.dapr.cluster_jobs import ClusterJobs
from scheduler_service.hosts.dapr.node import DaprParts, LocalJobs
from scheduler_service.hosts.effect_handlers import EffectHandlers
from scheduler_service.hosts.job_cache import CachedJob
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


class LastTurns:
    """The last turn of a job here is `HandedOver`: its row has what memory alone had, at qos 0 as well."""

    def __init__(self, *, node: DaprParts, local: LocalJobs, store: ClusterJobs, turn: Turn) -> None:
        self._holder = node.holder
        self._log = node.log
        self._local = local
        self._store = store
        self._turn = turn

    async def hand_over(self, cached: CachedJob, *, calls_go_on: bool) -> bool:
        """Whether something was handed over, a turn in doubt settled before. The caller has the job's lock.

        Calls of the job in flight from other nodes go on, and the row names them. So do those from here where
        `calls_go_on`; else their answers will not come. Raises StoreError: it may be repeated.
        """
        try:
            doubt = cached.doubt
            if doubt is not None:
                await self._turn.resolve(cached, doubt)
                is_taken_up = not cached.cut_off or cached.committed == doubt.commit.sequence
                if calls_go_on and not is_taken_up:
                    return False
            if not cached.is_live or not await self._store.begin(cached.job_id, will_commit=True):
                return False
            await self._claim(cached, calls_go_on=calls_go_on)
        except StoreConflict as error:
            self._log("handover_failed", jobId=cached.job_id, error=str(error))
            return False
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one broken job must not keep the others here
            self._log("turn_failed", jobId=cached.job_id, error=repr(error))
            return False
        return True

    async def _claim(self, cached: CachedJob, *, calls_go_on: bool) -> None:
        assert cached.document is not None, "something of it runs"
        uid = cached.document.head.uid
        flights, own = self._local.handovers.calls_by_node(uid), self._local.own_calls(uid)
        if calls_go_on and own:
            flights, own = (*flights, (self._holder, own)), ()
        self._store.give_away(cached.job_id, flights)
        event = HandedOver(tuple({token.execute_number for token in own}))
        await self._turn.run(cached, Command(event))

    def let_go(self, cached: CachedJob) -> None:
        """The job has left, or could not be handed over."""
        if cached.document is not None:
            uid = cached.document.head.uid
            self._local.end_watches(uid)
            self._local.handovers.forget_calls(uid)
        self._local.handovers.forget(cached.job_id)
        cached.forget()


DEACTIVATION_TIMEOUT_SECONDS = 1.0
LONGEST_DOUBT_MS = MINUTE


class Deactivation:
    """Hands over what only this process has of a job: contexts of qos 0, and its calls in flight.

    Its watches of instances end here: the next node begins its own. Where the store is away it is repeated,
    for a minute at most. Once the node stops, a job that was not handed over yet is left to `Leaving`.
    """

    def __init__(self, *, node: DaprParts, local: LocalJobs, last_turns: LastTurns, tasks: Tasks) -> None:
        self._clock = node.clock
        self._sidecar = node.sidecar
        self._store = node.cluster.store
        self._log = node.log
        self._local = local
        self._last_turns = last_turns
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
                if is_given or not self._sidecar.is_left:
                    self._last_turns.let_go(cached)
                self._local.cache.leave(locked)
        else:
            self._local.handovers.forget(job_id)
        self._local.alarms.forget(job_id)
        if is_given:
            self._tasks.start(self._local.alarms.ring(job_id))  # its alarm waits where it lives now

    async def _give_away(self, cached: CachedJob) -> bool:
        """Whether something was handed over; a turn in doubt is settled, also of a job not yet taken up here.

        Its deliveries are this node's, and nobody else would send them: after a minute the sweep asks.
        """
        end = self._clock.now().steady + LONGEST_DOUBT_MS
        while (cached.doubt is not None or not cached.cut_off) and not self._sidecar.is_left:
            try:
                return await self._last_turns.hand_over(cached, calls_go_on=True)
            except StoreError as error:
                if self._clock.now().steady >= end:
                    self._log("handover_failed", jobId=cached.job_id, error=str(error))
                    if cached.doubt is not None:
                        self._store.leave_in_doubt(cached.doubt.commit.deliveries)
                    return False
            await self._clock.sleep(SECOND)
        return False


ROUND_MS = SECOND
HANDOVERS_AT_ONCE = 64


class Leaving:
    """A node that stops while others live gives its jobs away, by their claims alone.

    daprd (1.18.3) that holds its node for ill moves its actors without a word, and reaches none for it: there
    is nobody whom the node could tell. So the last turn of a job here is committed by its claim, which has
    the whole state, that of qos 0 as well, and names nobody as the holder of what runs: whoever loads it goes
    on.

    From `begin` on nothing is started here, and each turn ends with the handover of its job.

    A job of which a call from here is in flight stays until its answer has been taken, or until then.
    """

    def __init__(
        self, *, node: DaprParts, local: LocalJobs, last_turns: LastTurns, effects: EffectHandlers
    ) -> None:
        self._sidecar = node.sidecar
        self._clock = node.clock
        self._log = node.log
        self._local = local
        self._last_turns = last_turns
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
        """Gives the job away, unless a call from here is in flight. The caller has its lock. Never raises.

        Where the store is away the job stays, and is given away in the next round.
        """
        calls = () if cached.document is None else self._local.own_calls(cached.document.head.uid)
        if not cached.is_live or (calls and self._clock.now().steady < self._until):
            return
        try:
            await self._last_turns.hand_over(cached, calls_go_on=False)
        except StoreError:
            return
        for token in calls:
            self._effects.calls.abandon(token)
        self._last_turns.let_go(cached)

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
