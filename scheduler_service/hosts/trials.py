"""Ends trials: those that are over are destroyed, and nothing of them stays but their executions."""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from scheduler_service.domain.events import Destroyed
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.trials import KEPT_MS, TRIALS, is_trial
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Alarm, Clock, Timekeeper
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StateUnreadable, explain
from scheduler_service.ports.log import Log
from scheduler_service.telemetry.tally import Outage

PAGE = 200
ROUND = MINUTE


class TrialStore(Protocol):
    """Where the jobs lie."""

    @property
    def catalogue(self) -> Catalogue:
        """Lists them."""

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes what is left of a destroyed one; False: there is none. Raises StoreError."""


class Trials:
    """All trials of this service or cluster.

    `beginning` is held from the count of those that live to the creation of one more.
    """

    def __init__(self, *, store: TrialStore, deliver: Deliver, clock: Clock) -> None:
        self._store = store
        self._deliver = deliver
        self._clock = clock
        self.beginning = asyncio.Lock()

    async def sweep(self) -> int:
        """Destroys those that are over and older than `KEPT_MS`; how many live on. Raises StoreError.

        What a crash left of one is removed as well. StateUnreadable is raised when all have been looked at:
        one that is damaged keeps no other from its end.
        """
        living, after = 0, ""
        damage: StateUnreadable | None = None
        while True:
            page = await self._store.catalogue.children(TRIALS, None, after=after, limit=PAGE)
            for entry in page:
                try:
                    living += is_trial(entry.job_id, entry.parent_job) and not await self._end(entry)
                except StateUnreadable as error:
                    damage = error
            if len(page) < PAGE:
                break
            after = page[-1].job_id
        if damage is not None:
            raise damage
        return living

    async def _end(self, entry: CatalogueEntry) -> bool:
        """Whether nothing of the trial is left."""
        if entry.state is not JobState.DESTROYED:
            if self._clock.now().wall - entry.created_at < KEPT_MS or entry.live or entry.waiting:
                return False
            await self._deliver(entry.job_id, Command(Destroyed()))
        await self._store.forget(entry.job_id)
        return True


class TrialRounds:
    """Looks for trials that are over: at once, and every minute from then on.

    A look reads the children of one parent, by index. On a cluster each node looks.
    """

    def __init__(self, *, trials: Trials, clock: Timekeeper, log: Log) -> None:
        self._trials = trials
        self._clock = clock
        self._outage = Outage("trials_not_ended", "trials_ended_again", log=log)
        self._alarm: Alarm | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def is_idle(self) -> bool:
        """Whether no round is under way."""
        return self._task is None or self._task.done()

    def start(self) -> None:
        """Begins the first round."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends them; what is left is done after the next start."""
        self._is_stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._trials.sweep()
            self._outage.succeed()
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: a defect would end it unseen
            self._outage.fail(explain(error))
        finally:
            if not self._is_stopped:
                self._alarm = self._clock.call_after(ROUND, self.start)
