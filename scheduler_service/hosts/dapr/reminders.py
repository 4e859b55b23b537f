"""The alarms of the dapr host: reminders for what is far, timers of this process for what is near.

A job has one reminder, which rings once. It stays while it is early enough: a ring too early only makes the
job look again. What is due within 30 s waits here, guarded by a reminder 30 s ahead. That guard is set
beside the turns, 5 to 15 s after what waits was due: who is done by then needs none, and jobs that fire
together do not register together. Until then the sweep is its guard, as it is for deadlines of calls in
flight. So a firing costs one registration at most.
"""

import asyncio
from collections.abc import Callable, Coroutine
from zlib import crc32

from scheduler_service.domain.job_key import SEPARATOR
from scheduler_service.domain.moments import SECOND, Due, Now
from scheduler_service.hosts.dapr.sidecar import Sidecar
from scheduler_service.pacing.fair_line import FairSlots
from scheduler_service.ports.clock import Alarm, Timekeeper
from scheduler_service.ports.errors import StoreError
from scheduler_service.ports.log import Log

# What is due by the wall clock within this time waits in this process.
NEAR_MS = 30 * SECOND
# Deadlines within this time have no reminder.
NEAR_DEADLINE_MS = 90 * SECOND
RING_RETRY_PAUSE_MS = SECOND
REGISTRATION_RETRY_PAUSE_MS = SECOND
# A guard is set so long after its job was due, and those of jobs that fire together over so much more time,
# each job at its own place in it.
GUARDS_AFTER_MS, GUARDS_SPREAD_MS = 5 * SECOND, 10 * SECOND
# Rings that are late by less say nothing of those that are to come.
LEAST_LAG_MS = SECOND // 2
LAG_KEPT_MS = SECOND
# Fewer than daprd runs at once (100): a ring that waits in daprd times out and is repeated, one here is not.
RINGS_AT_ONCE = 64
Ring = Callable[[str], Coroutine[object, object, None]]


class ReminderAlarms:
    """`ring` takes the turn, wherever the job lives, or raises StoreError."""

    def __init__(self, *, sidecar: Sidecar, clock: Timekeeper, ring: Ring, log: Log) -> None:
        self._sidecar = sidecar
        self._clock = clock
        self._ring = ring
        self._log = log
        self._timers: dict[str, tuple[int, Alarm]] = {}
        self._reminders: dict[str, int] = {}
        self._guards: dict[str, Alarm] = {}
        self._registrations: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[str] = set()
        self._slots = FairSlots(RINGS_AT_ONCE)
        self._no_registration_until = 0
        self._lag = self._lag_until = self._excused_until = 0
        self._is_closed = False

    async def expect(self, job_id: str, due: Due) -> None:
        """Before a commit: rings no later than `due`; what is far has its reminder."""
        now = self._clock.now()
        moment = _near(due, now)
        if moment is not None:
            self._advance(job_id, moment, now)
        far = _far(due, now)
        if far is not None and not _is_guard(far, now):
            await self._remind(job_id, far, now)

    async def arm(self, job_id: str, due: Due) -> None:
        """After a commit: `due` replaces what waits here; a reminder that is too early is left to ring."""
        now = self._clock.now()
        self._set(job_id, _near(due, now), now)
        if due.wall is None and due.steady is None:
            await self._forget_reminder(job_id)
            return
        far = _far(due, now)
        if far is None:
            return
        if _is_guard(far, now):
            self._guard(job_id, far, now)
        else:
            await self._remind(job_id, far, now)

    async def hold(self, job_id: str, due: Due) -> None:
        """Without a commit: the same in memory alone."""
        now = self._clock.now()
        self._set(job_id, _first(due, now), now)

    def ring_at(self, job_id: str, moment: int) -> None:
        """Rings at the wall `moment`, unless it rings earlier anyway; a job that may live elsewhere, too."""
        self.again(job_id, max(moment - self._clock.now().wall, 0))

    def drop_ring(self, job_id: str) -> None:
        """Undoes `ring_at`."""
        self._set(job_id, None, self._clock.now())

    def again(self, job_id: str, pause: int = RING_RETRY_PAUSE_MS) -> None:
        """Rings in `pause` ms, unless it rings earlier anyway."""
        now = self._clock.now()
        known = self._timers.get(job_id)
        if known is None or known[0] > now.steady + pause or known[0] <= now.steady:
            self._set(job_id, now.steady + pause, now)

    async def ring(self, job_id: str) -> None:
        """Rings when a slot is free, tenants in turn; after an error again in a second. Never raises."""
        if job_id in self._waiting:
            return  # the turn of the ring that waits sees whatever is due by then
        self._waiting.add(job_id)
        asked_at = self._clock.now().steady
        try:
            await self._slots.acquire(job_id.rpartition(SEPARATOR)[0])
        finally:
            self._waiting.discard(job_id)
        self._note_lag(asked_at)
        try:
            await self._ring(job_id)
        except StoreError as error:
            self._log("alarm_not_taken", jobId=job_id, error=str(error))
            self.again(job_id)
        finally:
            self._slots.release()

    def rang(self, job_id: str) -> None:
        """The reminder has rung, and is removed by that."""
        moment = self._reminders.pop(job_id, None)
        if moment is not None:
            self._note_lag(moment)

    @property
    def lag(self) -> int:
        """By how much (ms) the latest rings were late; 0 where none was in the last second."""
        return self._lag if self._clock.now().steady < self._lag_until else 0

    def excuse(self, moment: int) -> None:
        """What was due by `moment` (steady) is late for an outage, and says nothing of the rings to come."""
        if moment > self._excused_until:
            self._excused_until, self._lag_until = moment, 0

    def forget(self, job_id: str) -> None:
        """The job has moved to another node: drops its timer."""
        self._reminders.pop(job_id, None)
        self._drop_guard(job_id)
        known = self._timers.pop(job_id, None)
        if known is not None:
            known[1].cancel()

    def close(self) -> None:
        """Drops all timers; nothing rings here any more, and no reminder is set."""
        self._is_closed = True
        self._cancel_timers()

    async def stop(self) -> None:
        """Drops all timers and waits for the rings and registrations that are under way."""
        self._cancel_timers()
        await asyncio.gather(*self._tasks, *self._registrations.values(), return_exceptions=True)

    async def cancel(self) -> None:
        """Drops all timers and cancels the rings and registrations that are under way."""
        self._cancel_timers()
        tasks = (*self._tasks, *self._registrations.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_ringing(self) -> bool:
        """Whether a ring is under way: its turn may be about to start a call that is not counted yet."""
        return bool(self._tasks)

    def _note_lag(self, moment: int) -> None:
        """A ring that was due at `moment` (steady) is here."""
        now = self._clock.now().steady
        if now - moment >= LEAST_LAG_MS and moment > self._excused_until:
            self._lag, self._lag_until = now - moment, now + LAG_KEPT_MS

    def _cancel_timers(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for guard in self._guards.values():
            guard.cancel()
        self._guards.clear()

    def _advance(self, job_id: str, moment: int, now: Now) -> None:
        known = self._timers.get(job_id)
        if known is None or moment < known[0]:
            self._set(job_id, moment, now)

    def _set(self, job_id: str, moment: int | None, now: Now) -> None:
        known = self._timers.get(job_id)
        if known is not None:
            if known[0] == moment:
                return
            known[1].cancel()
            del self._timers[job_id]
        if moment is not None and not self._is_closed:
            timer = self._clock.call_after(moment - now.steady, lambda: self._go_off(job_id))
            self._timers[job_id] = (moment, timer)

    def _go_off(self, job_id: str) -> None:
        self._timers.pop(job_id, None)
        task = asyncio.create_task(self.ring(job_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _guard(self, job_id: str, moment: int, now: Now) -> None:
        """Has a reminder set for what waits here, unless one will ring by `moment` (steady)."""
        if not self._is_closed and job_id not in self._guards and not self._is_reminded(job_id, moment, now):
            due = self._timers[job_id][0] if job_id in self._timers else now.steady
            pause = max(due - now.steady, 0) + GUARDS_AFTER_MS + crc32(job_id.encode()) % GUARDS_SPREAD_MS
            self._guards[job_id] = self._clock.call_after(pause, lambda: self._begin_guard(job_id))

    def _begin_guard(self, job_id: str) -> None:
        del self._guards[job_id]
        now = self._clock.now()
        task = asyncio.create_task(self._register(job_id, now.steady + NEAR_MS, now))
        self._registrations[job_id] = task
        task.add_done_callback(lambda _: self._registrations.pop(job_id, None))

    def _drop_guard(self, job_id: str) -> None:
        guard = self._guards.pop(job_id, None)
        if guard is not None:
            guard.cancel()

    async def _remind(self, job_id: str, moment: int, now: Now) -> None:
        """Sets a reminder no later than `moment` (steady), if there is none. Never raises."""
        self._drop_guard(job_id)
        await self._await_registration(job_id)
        if not self._is_reminded(job_id, moment, now):
            await self._register(job_id, moment, now)

    def _is_reminded(self, job_id: str, moment: int, now: Now) -> bool:
        known = self._reminders.get(job_id)
        return known is not None and now.steady < known <= moment

    async def _await_registration(self, job_id: str) -> None:
        """Of two that are under way for one job nobody knows which one the scheduler service keeps."""
        task = self._registrations.get(job_id)
        if task is not None:
            await asyncio.wait((task,))

    async def _register(self, job_id: str, moment: int, now: Now) -> None:
        """After an error the sweep finds the job."""
        if self._is_closed or now.steady < self._no_registration_until:
            return
        try:
            await self._sidecar.remind(job_id, moment - now.steady)
        except StoreError as error:
            self._no_registration_until = self._clock.now().steady + REGISTRATION_RETRY_PAUSE_MS
            self._reminders.pop(job_id, None)
            self._log("reminder_not_set", jobId=job_id, error=str(error))
        else:
            self._reminders[job_id] = moment

    async def _forget_reminder(self, job_id: str) -> None:
        self._drop_guard(job_id)
        await self._await_registration(job_id)
        if self._reminders.pop(job_id, None) is None:
            return
        try:
            await self._sidecar.forget_reminder(job_id)
        except StoreError as error:
            self._log("reminder_not_removed", jobId=job_id, error=str(error))  # its ring does no harm


def _wall_in_steady(due: Due, now: Now) -> int | None:
    return None if due.wall is None else due.wall - now.wall + now.steady


def _first(due: Due, now: Now) -> int | None:
    moments = [one for one in (_wall_in_steady(due, now), due.steady) if one is not None]
    return min(moments, default=None)


def _near(due: Due, now: Now) -> int | None:
    """What waits in this process, as a steady moment: firings within 30 s, limits and waits within 90 s."""
    wall, steady = _wall_in_steady(due, now), due.steady
    near = []
    if wall is not None and wall - now.steady <= NEAR_MS:
        near.append(wall)
    if steady is not None and steady - now.steady <= NEAR_DEADLINE_MS:
        near.append(steady)
    return min(near, default=None)


def _is_guard(moment: int, now: Now) -> bool:
    """Whether the reminder for `moment` is for what waits in this process anyway."""
    return moment <= now.steady + NEAR_MS


def _far(due: Due, now: Now) -> int | None:
    """The latest moment for the reminder, None: no reminder is needed."""
    wall, steady = _wall_in_steady(due, now), due.steady
    wanted = []
    if wall is not None:
        wanted.append(max(wall, now.steady + NEAR_MS))
    if steady is not None and steady - now.steady > NEAR_DEADLINE_MS:
        wanted.append(steady)
    return min(wanted, default=None)
