"""After a change of a calendar all jobs that use it are planned anew, whatever fails in between.

Which version all jobs have followed lies beside the calendar, and is noted when each has said that it has.
Who has stored a change begins at once; where it ends before that, another process takes over.

A job that is created meanwhile may have been compiled with the days of before, and is not there yet when all
are told: they are told once more a while after the change. A removed calendar that a job uses is restored.
"""

import asyncio
import contextlib

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.replies import Refusal, RefusalCode, Reply
from scheduler_service.domain.turn_events import Replanned
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StoreError, explain
from scheduler_service.ports.log import Log
from scheduler_service.ports.shared_tables import StoredCalendar
from scheduler_service.services.shared_calendars import Calendars, CalendarUsers

REST_SECONDS, LONGEST_REST_SECONDS = 1.0, 30.0
"""Between two rounds; longer and longer while a job cannot be reached, as each round walks over all jobs."""
IDLE_SECONDS = 5.0
"""The same while all jobs have followed: what is told here wakes it, and what others left is old."""
SETTLED_MS = 10_000
"""Creations that began before a change have ended after so long; what is found then are all."""
TAKEN_OVER_MS = 30_000
"""A change that is so old, and not followed by all jobs, is told by any process."""


class CalendarRounds:
    """Tells jobs of changed calendars, in the background."""

    def __init__(
        self, *, calendars: Calendars, users: CalendarUsers, deliver: Deliver, clock: Clock, log: Log
    ) -> None:
        self._calendars, self._users, self._deliver = calendars, users, deliver
        self._clock, self._log = clock, log
        self._own: dict[tuple[str, str], int] = {}
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Begins; what an earlier process has left is taken over."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends it; what is not told yet is told by the next process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to be told here."""
        return not any(self._is_due(one) for one in self._calendars.untold())

    def tell(self, calendar: StoredCalendar) -> None:
        """Begins to tell the jobs of a change that was made here; who has removed one has looked for them."""
        self._own[calendar.tenant, calendar.name] = calendar.version if calendar.is_removed else 0
        self._wake.set()

    async def round(self) -> bool:
        """Tells once of all that is due here; whether all has been told. Raises StoreError."""
        is_done = True
        for calendar in filter(self._is_due, list(self._calendars.untold())):
            name, age = (calendar.tenant, calendar.name), self._age(calendar)
            if not await (self._restore(calendar) if calendar.is_removed else self._tell_jobs(calendar)):
                is_done = False
            elif age > SETTLED_MS:
                await self._calendars.note_told(calendar)
                self._own.pop(name, None)
            else:
                self._own[name] = calendar.version
        if is_done:
            await self._calendars.look()
        return is_done

    async def _run(self) -> None:
        rest = REST_SECONDS
        while True:
            is_done = False
            try:
                is_done = await self.round()
            except Exception as error:  # noqa: BLE001 - nobody awaits this task: a defect would end it unseen
                self._log("calendar_not_followed", error=explain(error))
            rest = REST_SECONDS if is_done or self._wake.is_set() else rest
            self._wake.clear()
            is_idle = is_done and not self._calendars.untold()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(IDLE_SECONDS if is_idle else rest):
                    await self._wake.wait()
            rest = min(2 * rest, LONGEST_REST_SECONDS)

    def _age(self, calendar: StoredCalendar) -> int:
        return self._clock.now().wall - calendar.changed_at

    def _is_due(self, calendar: StoredCalendar) -> bool:
        """Whether this process is to tell of it: of its own changes twice, of others that are old."""
        told = self._own.get((calendar.tenant, calendar.name))
        if told is None:
            return self._age(calendar) > TAKEN_OVER_MS
        return told < calendar.version or self._age(calendar) > SETTLED_MS

    async def _restore(self, calendar: StoredCalendar) -> bool:
        """Whether no job uses a removed calendar; one that does has it again, and goes on."""
        users = await self._users.find(calendar.tenant, calendar.name, 1)
        if not users:
            return True
        if await self._calendars.restore(calendar):
            self._own[calendar.tenant, calendar.name] = 0
            self._log(
                "calendar_restored", calendar=calendar.name, tenant=calendar.tenant, jobId=users[0].job_id
            )
        return False

    async def _tell_jobs(self, calendar: StoredCalendar) -> bool:
        """Whether all of them follow this version now."""
        have_followed = True
        async for page in self._users.pages(calendar.tenant, calendar.name):
            living = [entry.job_id for entry in page if entry.state is not JobState.DESTROYED]
            asked = (self._deliver(job_id, Command(Replanned(calendar.version))) for job_id in living)
            for answer in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(answer, BaseException) and not isinstance(answer, StoreError):
                    raise answer
                have_followed &= not _is_behind(answer)
        return have_followed


def _is_behind(answer: Reply | BaseException) -> bool:
    """Whether its job is to be told again: it was not reached, or does not know the change yet."""
    if isinstance(answer, Refusal):
        return answer.code is RefusalCode.CONFLICT
    return isinstance(answer, StoreError)
