"""The alarms of the embedded host: due times on disk, the near future in memory, one wake-up timer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import Any

from scheduler_service.domain.job_key import SEPARATOR
from scheduler_service.domain.moments import SECOND, Due, Now
from scheduler_service.hosts.background_tasks import LightTasks, keep_at
from scheduler_service.hosts.clock import SHARED_BATCH_SIZE, TimedRelease
from scheduler_service.hosts.embedded.alarm_queue import AlarmQueue, DueJobs, DueWindow, Neighbours
from scheduler_service.hosts.embedded.early_commit import EarlyCommit
from scheduler_service.pacing.interpreter import short_collections, short_turns
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import OwnedStore


class Wakeup:
    """One sleeping task and its timer. `ahead`: a wall moment may need it up to so many ms before."""

    def __init__(self, *, clock: Timekeeper, ahead: int) -> None:
        self._clock = clock
        self._ahead = ahead
        self._awake = asyncio.Event()
        self._timer: Alarm | None = None
        self._steady = 0
        self._wall = 0

    @property
    def is_awake(self) -> bool:
        """Whether the task was woken, and will look at what is due."""
        return self._awake.is_set()

    def sleeps_past(self, due: Due) -> bool:
        """Whether `due` may come before the timer ends. Quick for most moments, which come long after.

        The wall clock may step only while the task is awake: it is this task that follows the steps.
        """
        wall, steady = due.wall, due.steady
        return (steady is not None and steady < self._steady) or (wall is not None and wall <= self._wall)

    async def sleep(self, now: Now, pause: int) -> None:
        """Returns in `pause` ms, or earlier where it is woken."""
        self._awake.clear()
        self._set(now, pause)
        await self._awake.wait()

    def wake(self, now: Now, pause: int) -> None:
        """Ends the sleep in `pause` ms where it would last longer."""
        if pause == 0:
            self._awake.set()
        elif now.steady + pause < self._steady:
            self._set(now, pause)

    def close(self) -> None:
        """Cancels the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, now: Now, pause: int) -> None:
        self.close()
        self._steady = now.steady + pause
        self._wall = now.wall + pause + self._ahead
        self._timer = self._clock.call_after(pause, self._awake.set)


RING_AGAIN_MS = SECOND
OVERDUE_AFTER_MS = SECOND
LONGEST_SLEEP_MS = SECOND
REFILL_PAUSE_MS = 50
SLICE_SECONDS = 0.002
SMALLEST_SLICE, LARGEST_SLICE = 8, 512
COLLECTED_AT_ONCE = 2_048
"""Many, as tenants take turns among those that are collected; they take about 3 ms."""
MOST_RINGS = 1_024
MOST_COMMITS, COMMITS_PAUSE_MS = 256, 4
"""While so many turns wait for the store no ring begins: it would wait as well, with all of an execution in
memory. They are there beside the group that is written, so the store never runs dry meanwhile."""
LONGEST_GATE_MS = SECOND
"""After that rings begin all the same, until fewer wait: many callers of the API alone may fill that line."""
MOST_SHARED_RINGS = 96
"""So many are under way until they are durable, where one tenant's burst is beside others: who comes next
waits for those."""
LONGEST_RARE_MS = 10 * SECOND
"""So long rounds of the collector may be short beside a burst: they leave what is not young."""
MOST_EARLY_RINGS = 8_192
PREFETCH_MS = 2 * SECOND
MOST_PREFETCHED = 10_000

# Rings a job; the second argument is the wall moment where the ring comes ahead of it.
Ring = Callable[[str, int | None], Coroutine[Any, Any, None]]
Prefetcher = Callable[[Sequence[str]], Awaitable[None]]
NO_EARLY_COMMIT = EarlyCommit(usual=0, longest=0)


class EmbeddedAlarms:
    """Rings jobs when they are due. A ring says only "look again".

    `ready` caps how many alarms lie in memory; jobs whose alarm is not on disk come on top. `ring` takes the
    turn, never raises, and ends with the job's alarm set anew; `prefetch` gets, once a second, the jobs that
    are due in the next two. Overdue and punctual rings alternate, in slices of 2 ms; tenants take turns. A
    job that is due at a wall moment rings ahead of it by `early_commit`, with the moment; those that are
    durable wait for it in `release`.
    """

    def __init__(
        self,
        *,
        store: OwnedStore,
        clock: Timekeeper,
        ring: Ring,
        log: Log,
        prefetch: Prefetcher | None = None,
        ready: int = 100_000,
        early_commit: EarlyCommit = NO_EARLY_COMMIT,
        release: TimedRelease | None = None,
        elapsed: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._store = store
        self._ring = ring
        self._log = log
        self._prefetch = prefetch
        self._elapsed = elapsed
        self._early_commit = early_commit
        self._wall = AlarmQueue()
        self._steady = AlarmQueue()
        self._ringing: set[str] = set()
        page = max(ready // 8, 1)
        seen = self._ringing.__contains__
        self._windows = (
            DueWindow(queue=self._wall, read=store.due_wall, is_ringing=seen, page=page, room=ready // 2),
            DueWindow(queue=self._steady, read=store.due_steady, is_ringing=seen, page=page, room=ready // 2),
        )
        self._due = DueJobs()
        self._ringing_now = LightTasks(on_end=self._ringing.discard)
        self._early = LightTasks(on_end=self._ringing.discard)
        self._chunk = SMALLEST_SLICE
        self._wakeup = Wakeup(clock=clock, ahead=early_commit.longest)
        self._tasks: list[asyncio.Task[None]] = []
        self._follow_at = 0
        self._gated_at: int | None = None
        self._neighbours = Neighbours()
        self._is_shared = False
        self._short, self._rare, self._rare_until = ExitStack(), ExitStack(), 0
        self._release = TimedRelease(clock=clock) if release is None else release
        self._draining = False

    def __len__(self) -> int:
        """How many alarms lie in memory."""
        return len(self._wall) + len(self._steady)

    @property
    def is_ringing(self) -> bool:
        """Whether a ring is under way: its turn may be about to start a call that is not counted yet."""
        return len(self._ringing_now) + len(self._early) > 0

    async def expect(self, job_id: str, due: Due) -> None:
        """Rings no later than `due`, as far as that lies within the window."""
        if due.wall is not None and due.wall <= self._wall.horizon:
            self._advance(self._wall, job_id, due.wall)
        if due.steady is not None and due.steady <= self._steady.horizon:
            self._advance(self._steady, job_id, due.steady)

    async def arm(self, job_id: str, due: Due) -> None:
        """Rings at `due`. What lies beyond the window is on disk, and is read in time."""
        self._set(job_id, due, self._wall.horizon, self._steady.horizon)

    async def hold(self, job_id: str, due: Due) -> None:
        """Rings at `due`, which is not on disk: memory keeps it however far it is."""
        self._set(job_id, due, due.wall, due.steady)

    def again(self, job_id: str, pause: int = RING_AGAIN_MS) -> None:
        """Rings in `pause` ms, and not before; what is set for later stays."""
        now = self._clock.now()
        moment = self._wall.target(job_id)
        if moment is not None and moment <= now.wall + pause:
            self._wall.drop(job_id)
        moment = self._steady.target(job_id)
        if moment is None or moment <= now.steady or moment > now.steady + pause:
            self._steady.put(job_id, now.steady + pause)
        self._wake()

    async def start(self) -> None:
        """Begins to ring; what is due now counts as the backlog of an earlier process."""
        now = self._clock.now()
        self._windows[0].begin(now.wall)
        self._windows[1].begin(now.steady)
        work = {"alarms_read": self._read, "alarms_ring": self._run}
        self._tasks = [
            keep_at(run, name=name, clock=self._clock, log=self._log) for name, run in work.items()
        ]

    def is_settled(self, early: int) -> bool:
        """Whether no alarm is due and no job rings, except `early` rings that wait for their moment."""
        now = self._clock.now()
        due = ((self._wall, self._early_commit.reach(now.wall)), (self._steady, now.steady))
        if any((moment := queue.next()) is not None and moment <= reach for queue, reach in due):
            return False
        is_ringing = len(self._ringing_now) + len(self._early) > early
        return not (is_ringing or self._due)

    def abort(self) -> None:
        """Cancels all rings where they are, as the death of the process does."""
        self._ringing_now.cancel()
        self._early.cancel()
        self._shorten_turns(is_shared=False)

    def drain(self) -> None:
        """Stops firings; limits, checks and retries of what runs still ring."""
        self._draining = True

    async def stop(self) -> None:
        """Rings no more, and waits for the rings that are under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ringing_now.wait_for_all()
        await self._early.wait_for_all()
        self._tasks = []
        self._shorten_turns(is_shared=False)
        self._wakeup.close()

    def _advance(self, line: AlarmQueue, job_id: str, moment: int) -> None:
        present = line.target(job_id)
        if present is None or moment < present:
            line.put(job_id, moment)
            self._wake()

    def _set(self, job_id: str, due: Due, wall_horizon: int | None, steady_horizon: int | None) -> None:
        """Both time lines in one call, as each turn sets its alarm."""
        wall, steady = due.wall, due.steady
        if wall is None or wall_horizon is None or wall > wall_horizon:
            self._wall.drop(job_id)
        else:
            self._wall.put(job_id, wall)
        if steady is None or steady_horizon is None or steady > steady_horizon:
            self._steady.drop(job_id)
        else:
            self._steady.put(job_id, steady)
        if self._wakeup.sleeps_past(due):
            self._wake()

    async def _read(self) -> None:
        """Keeps both windows filled."""
        while True:
            pause = SECOND
            for window, moment in zip(self._windows, self._moments(), strict=True):
                if window.is_short(moment):
                    pause = min(pause, await self._refill(window, moment))
            if self._prefetch is not None:
                await self._prefetch([job_id for _, job_id in self._near()])
            await self._clock.sleep(pause)

    def _near(self) -> list[tuple[int, str]]:
        """What is due before the next refill, and some time after it."""
        now = self._clock.now().wall
        return [] if self._draining else self._wall.between(now, now + PREFETCH_MS, MOST_PREFETCHED)

    async def _refill(self, window: DueWindow, moment: int) -> int:
        try:
            await window.refill(moment)
        except StoreError as error:
            self._log("alarms_not_read", error=str(error))
            return SECOND
        self._wake()
        return REFILL_PAUSE_MS

    def _moments(self) -> tuple[int, int]:
        now = self._clock.now()
        return now.wall, now.steady

    async def _run(self) -> None:
        while True:
            await self._follow_clock()
            now = self._clock.now()
            if self._collect(now):
                waiting = len(self._due) + len(self._release)
                self._shorten_turns(is_shared=self._neighbours.is_burst(now.steady, waiting))
            else:  # the firings of one moment are those of one tenant up to here
                self._chunk = SMALLEST_SLICE
            if self._due:
                await self._ring_slice()
            else:
                await self._sleep()

    async def _follow_clock(self) -> None:
        """Once a second: finds bursts, and whether the clock stepped.

        After a step the wake-up has to be computed anew, which every round does.
        """
        steady = self._clock.now().steady
        if steady < self._follow_at:
            return
        self._follow_at = steady + LONGEST_SLEEP_MS
        self._early_commit.survey([moment for moment, _ in self._near()])
        try:
            if await self._clock.follow():
                self._log("clock_stepped")
        except StoreError as error:
            self._log("clock_step_not_kept", error=str(error))

    def _collect(self, now: Now) -> bool:
        """Moves due jobs into the two queues; whether these are all."""
        are_all = self._draining or self._collect_from(self._wall, now.wall, self._lead().reach(now.wall))
        return self._collect_from(self._steady, now.steady, now.steady) and are_all

    def _collect_from(self, line: AlarmQueue, now: int, reach: int) -> bool:
        counts = self._neighbours.counts
        for _ in range(COLLECTED_AT_ONCE):
            due = line.pop(reach)
            if due is None:
                return True
            moment, job_id = due
            tenant = job_id.rpartition(SEPARATOR)[0]
            counts[tenant] = counts.get(tenant, 0) + 1
            if moment < now - OVERDUE_AFTER_MS:
                self._due.overdue.add(job_id, None, tenant)
            else:
                self._due.punctual.add(job_id, moment if moment > now else None, tenant)
        return False

    def _lead(self) -> EarlyCommit:
        early = len(self._early) + (0 if self._is_shared else len(self._due.punctual))
        return self._early_commit if early < MOST_EARLY_RINGS else NO_EARLY_COMMIT

    async def _ring_slice(self) -> None:
        """Starts as many rings as fill about 2 ms, then yields to the event loop."""
        began = self._elapsed()
        room = MOST_RINGS - len(self._ringing_now)
        crowds: frozenset[str] = frozenset()
        if self._is_shared:
            under_way = len(self._ringing_now) + len(self._early) - len(self._release)
            room = min(room, SHARED_BATCH_SIZE)
            crowds = self._neighbours.crowds if under_way >= MOST_SHARED_RINGS else crowds
        elif self._store.commits_waiting < MOST_COMMITS:
            self._gated_at = None
        else:
            now = self._clock.now().steady
            self._gated_at = now if self._gated_at is None else self._gated_at
            if now < self._gated_at + LONGEST_GATE_MS:
                await self._clock.sleep(COMMITS_PAUSE_MS)
                return
        for _ in range(min(self._chunk, room)):
            picked = self._due.pick_beside(crowds) if crowds else self._due.pick()
            if picked is None:
                if crowds:
                    await self._clock.sleep(1)
                break
            if picked[0] not in self._ringing:  # else that ring has not ended, and will set the alarm anew
                self._ring_soon(*picked)
        if len(self._ringing_now) >= MOST_RINGS:
            await self._ringing_now.wait()
            return
        await asyncio.sleep(0)
        spent = self._elapsed() - began
        self._chunk = (
            max(self._chunk // 2, SMALLEST_SLICE)
            if spent > SLICE_SECONDS
            else min(self._chunk * 2, LARGEST_SLICE)
        )

    def _shorten_turns(self, *, is_shared: bool) -> None:
        """Beside a burst others wait for rounds of the loop and of the collector, and for threads.

        The writer asks for the interpreter ten times a group: 5 ms each while a burst keeps the loop busy. A
        burst alone is let go faster with long turns.
        """
        if is_shared is not self._is_shared:
            self._is_shared = self._release.is_shared = is_shared
            self._early_commit.share(is_shared=is_shared)
            self._short.close()
            self._rare.close()
            if is_shared:
                self._short.enter_context(short_turns())
                self._rare.enter_context(short_collections())
                self._rare_until = self._clock.now().steady + LONGEST_RARE_MS
        elif is_shared and self._clock.now().steady >= self._rare_until:
            self._rare.close()  # a load that stays uneven must not keep what only full rounds find

    def _ring_soon(self, job_id: str, moment: int | None) -> None:
        self._ringing.add(job_id)
        (self._ringing_now if moment is None else self._early).start(self._ring(job_id, moment), job_id)

    async def _sleep(self) -> None:
        now = self._clock.now()
        await self._wakeup.sleep(now, self._pause(now))

    def _wake(self) -> None:
        """Wakes the ringing loop where something is due before its next wake-up."""
        if not self._wakeup.is_awake:
            now = self._clock.now()
            self._wakeup.wake(now, self._pause(now))

    def _pause(self, now: Now) -> int:
        wall, steady = self._wall.next(), self._steady.next()
        pause = max(self._follow_at - now.steady, 0)
        if wall is not None and not self._draining:
            pause = min(pause, self._lead().pause(now.wall, wall))
        if steady is not None:
            pause = min(pause, steady - now.steady)
        return max(pause, 0)
