"""What clears up: destroyed jobs, old history, trials that are over."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.job_key import TRIALS, is_trial
from scheduler_service.domain.moments import MINUTE
from scheduler_service.domain.turn_events import Destroyed
from scheduler_service.ports.catalogue import CatalogueEntry, JobQuery
from scheduler_service.ports.clock import Alarm, Clock, Timekeeper
from scheduler_service.ports.delivery import Command, Deliver
from scheduler_service.ports.errors import StateUnreadable, StoreUnavailable, StoreUncertain, explain
from scheduler_service.ports.log import Log
from scheduler_service.ports.state import JobStore
from scheduler_service.telemetry.log_summaries import Outage

TRIAL_KEPT_MS = 10 * MINUTE
"""A trial stays so long after its creation, and then until its execution has ended."""
TRIALS_READ = 200
ROUND = MINUTE


class Trials:
    """All trials of this service or cluster.

    `beginning` is held from the count of those that live to the creation of one more.
    """

    def __init__(self, *, store: JobStore, deliver: Deliver, clock: Clock) -> None:
        self._store = store
        self._deliver = deliver
        self._clock = clock
        self.beginning = asyncio.Lock()

    async def sweep(self, tenant: str | None = None) -> int:
        """Destroys those that are over and older than `TRIAL_KEPT_MS`; how many live on. Raises StoreError.

        With `tenant` those of this one count, whose limit is no other's.

        What a crash left of one is removed as well. StateUnreadable is raised when all have been looked at:
        one that is damaged keeps no other from its end.
        """
        living, after = 0, ""
        damage: StateUnreadable | None = None
        while True:
            page = await self._store.catalogue.children(TRIALS, None, after=after, limit=TRIALS_READ)
            for entry in page:
                try:
                    lives = is_trial(entry.job_id, entry.parent_job) and not await self._end(entry)
                    living += lives and tenant in (None, entry.tenant)
                except StateUnreadable as error:
                    damage = error
            if len(page) < TRIALS_READ:
                break
            after = page[-1].job_id
        if damage is not None:
            raise damage
        return living

    async def _end(self, entry: CatalogueEntry) -> bool:
        """Whether nothing of the trial is left."""
        if entry.state is not JobState.DESTROYED:
            if self._clock.now().wall - entry.created_at < TRIAL_KEPT_MS or entry.live or entry.waiting:
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


PAGE = 500


class RetentionRound(Protocol):
    """What one round of retention removed."""

    @property
    def executions(self) -> int:
        """Executions, with all that belongs to them."""

    @property
    def notifications(self) -> int:
        """Deliveries."""


class HistoryRetention(Protocol):
    """Removes history. All raise StoreUnavailable."""

    async def clean(
        self, *, retain: int, destroyed: Sequence[str], spared: Sequence[str], tenant: str
    ) -> Mapping[str, int]:
        """Removes these lives, and all but the newest `retain` executions of each job but the `spared`."""

    async def run(self, now: int) -> RetentionRound:
        """Removes what the settings do not keep as of `now` (wall ms)."""

    async def lives(self, tenant: str, job_ids: Mapping[str, int]) -> Sequence[str]:
        """The uids of all lives of these jobs, up to an `executeNumber` each."""


class Cleanup:
    """All ways of cleaning, over one store and one history."""

    def __init__(
        self,
        *,
        store: JobStore,
        retention: HistoryRetention,
        trials: Trials,
        clock: Clock,
    ) -> None:
        self.trials = trials
        self._store = store
        self._retention = retention
        self._clock = clock

    async def __call__(self, *, tenant: str, destroyed: bool, retain: int) -> Mapping[str, int]:
        """`{jobs, executions, notifications}` of a tenant that were removed (SPEC section 10).

        Without `destroyed` all that there is of destroyed jobs stays: `retain` is for living ones. Raises
        StoreError.
        """
        buried, spared = await self._buried(tenant), list[str]()
        if not destroyed:
            buried, spared = [], [entry.job_id for entry in buried]
        uids = await self._lives(tenant, buried)
        removed = await self._retention.clean(retain=retain, destroyed=uids, spared=spared, tenant=tenant)
        try:
            forgotten = [await self._store.forget(entry.job_id) for entry in buried]
        except StoreUnavailable as error:
            raise StoreUncertain(
                f"the history was cleaned; then {error}; ask again", is_public=error.is_public
            ) from error
        return {**removed, "jobs": sum(forgotten)}

    async def sweep(self) -> Mapping[str, int]:
        """`system://clean`: what retention says may go, and trials that are over. Raises StoreError."""
        removed = await self._retention.run(self._clock.now().wall)
        # Last, since a trial that cannot be read fails it, every time.
        await self.trials.sweep()
        return {"executions": removed.executions, "notifications": removed.notifications}

    async def _lives(self, tenant: str, buried: Sequence[CatalogueEntry]) -> list[str]:
        """The last lives of these jobs, and those before."""
        uids = {entry.uid for entry in buried}
        for start in range(0, len(buried), PAGE):
            some = {entry.job_id: entry.execute_number for entry in buried[start : start + PAGE]}
            uids.update(await self._retention.lives(tenant, some))
        return sorted(uids)

    async def _buried(self, tenant: str) -> list[CatalogueEntry]:
        found: list[CatalogueEntry] = []
        cursor: str | None = None
        while True:
            page = await self._store.catalogue.list(
                JobQuery(tenant=tenant, states=(JobState.DESTROYED,), system=None, limit=PAGE, cursor=cursor)
            )
            found.extend(page.items)
            if page.next_cursor is None:
                return found
            cursor = page.next_cursor
