"""The alarms of the embedded host: due times on disk, the near future in memory, one wake-up timer."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from scheduler_service.domain.moments import SECOND, Due, Now
from scheduler_service.hosts.clock import Timekeeper
from scheduler_service.hosts.embedded.alarm_queue import AlarmQueue
from scheduler_service.hosts.embedded.due_window import DueWindow
from scheduler_service.hosts.embedded.early_commit import EarlyCommit
from scheduler_service.hosts.embedded.wakeup import Wakeup
from scheduler_service.hosts.light_tasks import LightTasks
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import StateStore

AGAIN = SECOND
OVERDUE = SECOND
LONGEST_NAP = SECOND
YIELD_PAUSE = 50
SLICE = 0.002
SMALLEST, LARGEST = 8, 512
IN_FLIGHT = 1_024
EARLY = 8_192

AHEAD = 2 * SECOND
NEAR = 10_000

# Rings a job; with the moment that is still to come, where the ring is ahead of it.
Ring = Callable[[str, int | None], Awaitable[None]]
Prefetcher = Callable[[Sequence[str]], Awaitable[None]]

NO_EARLY_COMMIT = EarlyCommit(usual=0, longest=0)


class EmbeddedAlarms:
    """Rings jobs when they are due. A ring says only "look again".

    `ready` caps how many alarms lie in memory; jobs whose alarm is not on disk come on top. `ring` takes the
    turn, never raises, and ends with the job's alarm set anew; `foresee` is told each second what is due in
    the next two. Overdue and punctual work goes in turn, in slices of 2 ms. What is due at a wall moment is
    rung ahead of it by `headway`, and told the moment.
    """

    def __init__(
        self,
        *,
        store: StateStore,
        clock: Timekeeper,
        ring: Ring,
        log: Log,
        foresee: Prefetcher | None = None,
        ready: int = 100_000,
        headway: EarlyCommit = NO_EARLY_COMMIT,
        elapsed: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._ring = ring
        self._log = log
        self._foresee = foresee
        self._elapsed = elapsed
        self._headway = headway
        self._wall = AlarmQueue()
        self._steady = AlarmQueue()
        self._ringing: set[str] = set()
        page = max(ready // 8, 1)
        seen = self._ringing.__contains__
        self._windows = (
            DueWindow(line=self._wall, read=store.due_wall, is_ringing=seen, page=page, room=ready // 2),
            DueWindow(line=self._steady, read=store.due_steady, is_ringing=seen, page=page, room=ready // 2),
        )
        self._overdue: deque[str] = deque()
        self._punctual: deque[tuple[str, int | None]] = deque()
        self._flying = LightTasks()
        self._early = LightTasks()
        self._chunk = SMALLEST
        self._waker = Wakeup(clock=clock, ahead=headway.longest)
        self._tasks: list[asyncio.Task[None]] = []
        self._follow_at = 0
        self._late_turn = False
        self._draining = False

    def __len__(self) -> int:
        """How many alarms lie in memory."""
        return len(self._wall) + len(self._steady)

    @property
    def is_ringing(self) -> bool:
        """Whether a ring is under way: its turn may be about to start a call that nobody counts yet."""
        return len(self._flying) + len(self._early) > 0

    async def expect(self, job_id: str, due: Due) -> None:
        """Rings no later than `due`, as far as that lies within the window."""
        if due.wall is not None and due.wall <= self._wall.horizon:
            self._advance(self._wall, job_id, due.wall)
        if due.steady is not None and due.steady <= self._steady.horizon:
            self._advance(self._steady, job_id, due.steady)

    async def arm(self, job_id: str, due: Due) -> None:
        """Rings at `due`. What lies beyond the window is on disk, and is read in time."""
        self._set(self._wall, job_id, due.wall, self._wall.horizon)
        self._set(self._steady, job_id, due.steady, self._steady.horizon)
        self._hurry_for(due)

    async def hold(self, job_id: str, due: Due) -> None:
        """Rings at `due`, which is not on disk: memory keeps it however far it is."""
        self._set(self._wall, job_id, due.wall, due.wall)
        self._set(self._steady, job_id, due.steady, due.steady)
        self._hurry_for(due)

    def again(self, job_id: str, pause: int = AGAIN) -> None:
        """Rings in `pause` ms, and not before; what is set for later stays."""
        now = self._clock.now()
        moment = self._wall.target(job_id)
        if moment is not None and moment <= now.wall + pause:
            self._wall.drop(job_id)
        moment = self._steady.target(job_id)
        if moment is None or moment <= now.steady or moment > now.steady + pause:
            self._steady.put(job_id, now.steady + pause)
        self._hurry()

    async def start(self) -> None:
        """Begins to ring; what is due now counts as the backlog of an earlier process."""
        now = self._clock.now()
        self._windows[0].begin(now.wall)
        self._windows[1].begin(now.steady)
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._run())]

    def drain(self) -> None:
        """Takes no firing any more; limits, checks and retries of what runs still ring."""
        self._draining = True

    async def stop(self) -> None:
        """Rings no more, and waits for the rings that are under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._flying.wait_for_all()
        await self._early.wait_for_all()
        self._tasks = []
        self._waker.close()

    def _advance(self, line: AlarmQueue, job_id: str, moment: int) -> None:
        present = line.target(job_id)
        if present is None or moment < present:
            line.put(job_id, moment)
            self._hurry()

    def _set(self, line: AlarmQueue, job_id: str, moment: int | None, horizon: int | None) -> None:
        if moment is None or horizon is None or moment > horizon:
            line.drop(job_id)
        else:
            line.put(job_id, moment)

    async def _read(self) -> None:
        """Keeps both windows filled."""
        while True:
            pause = SECOND
            for window, moment in zip(self._windows, self._moments(), strict=True):
                if window.is_short(moment):
                    pause = min(pause, await self._refill(window, moment))
            if self._foresee is not None:
                await self._foresee([job_id for _, job_id in self._near()])
            await self._clock.sleep(pause)

    def _near(self) -> list[tuple[int, str]]:
        """What is due before the next look, and some time after it."""
        now = self._clock.now().wall
        return [] if self._draining else self._wall.between(now, now + AHEAD, NEAR)

    async def _refill(self, window: DueWindow, moment: int) -> int:
        try:
            await window.refill(moment)
        except StoreError as error:
            self._log("alarms_unread", error=str(error))
            return SECOND
        self._hurry()
        return YIELD_PAUSE

    def _moments(self) -> tuple[int, int]:
        now = self._clock.now()
        return now.wall, now.steady

    async def _run(self) -> None:
        while True:
            await self._follow_clock()
            self._collect(self._clock.now())
            if self._overdue or self._punctual:
                await self._ring_slice()
            else:
                await self._nap()

    async def _follow_clock(self) -> None:
        """Once a second: where crowds lie, and whether the clock stepped.

        A step means only that the wake-up is computed anew, which every round does.
        """
        steady = self._clock.now().steady
        if steady < self._follow_at:
            return
        self._follow_at = steady + LONGEST_NAP
        self._headway.survey([moment for moment, _ in self._near()])
        try:
            if await self._clock.follow():
                self._log("clock_stepped")
        except StoreError as error:
            self._log("clock_step_not_kept", error=str(error))

    def _collect(self, now: Now) -> None:
        """Moves some of what is due into the two queues; the rest follows in the next rounds."""
        if not self._draining:
            self._collect_from(self._wall, now.wall, self._ahead().reach(now.wall))
        self._collect_from(self._steady, now.steady, now.steady)

    def _collect_from(self, line: AlarmQueue, now: int, reach: int) -> None:
        for _ in range(LARGEST):
            due = line.pop(reach)
            if due is None:
                return
            moment, job_id = due
            if moment < now - OVERDUE:
                self._overdue.append(job_id)
            else:
                self._punctual.append((job_id, moment if moment > now else None))

    def _ahead(self) -> EarlyCommit:
        is_room = len(self._early) + len(self._punctual) < EARLY
        return self._headway if is_room else NO_EARLY_COMMIT

    async def _ring_slice(self) -> None:
        """Starts as many rings as fill about 2 ms, then lets everything else have its turn."""
        began = self._elapsed()
        for _ in range(min(self._chunk, IN_FLIGHT - len(self._flying))):
            picked = self._pick()
            if picked is None:
                break
            if picked[0] not in self._ringing:  # else that ring is still to end, and sets the alarm anew
                self._ring_soon(*picked)
        if len(self._flying) >= IN_FLIGHT:
            await self._flying.wait()
            return
        await asyncio.sleep(0)
        spent = self._elapsed() - began
        self._chunk = max(self._chunk // 2, SMALLEST) if spent > SLICE else min(self._chunk * 2, LARGEST)

    def _pick(self) -> tuple[str, int | None] | None:
        """From both queues in turn: a backlog does not hold up what is on time, nor the other way round."""
        self._late_turn = not self._late_turn
        if self._overdue and (self._late_turn or not self._punctual):
            return self._overdue.popleft(), None
        return self._punctual.popleft() if self._punctual else None

    def _ring_soon(self, job_id: str, moment: int | None) -> None:
        self._ringing.add(job_id)
        (self._flying if moment is None else self._early).start(self._ring_once(job_id, moment))

    async def _ring_once(self, job_id: str, moment: int | None) -> None:
        try:
            await self._ring(job_id, moment)
        finally:
            self._ringing.discard(job_id)

    async def _nap(self) -> None:
        now = self._clock.now()
        await self._waker.sleep(now, self._pause(now))

    def _hurry_for(self, due: Due) -> None:
        if self._waker.sleeps_past(due):
            self._hurry()

    def _hurry(self) -> None:
        """Wakes the loop up if something is due before it would wake by itself."""
        if not self._waker.is_awake:
            now = self._clock.now()
            self._waker.wake(now, self._pause(now))

    def _pause(self, now: Now) -> int:
        wall, steady = self._wall.next(), self._steady.next()
        pause = max(self._follow_at - now.steady, 0)
        if wall is not None and not self._draining:
            pause = min(pause, self._ahead().pause(now.wall, wall))
        if steady is not None:
            pause = min(pause, steady - now.steady)
        return max(pause, 0)
