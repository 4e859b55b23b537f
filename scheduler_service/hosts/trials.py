"""Ends trials: those that are over are destroyed, and nothing of them stays but their executions."""

from collections.abc import Awaitable
from typing import Protocol

from scheduler_service.domain.events import Destroyed
from scheduler_service.domain.execution import JobState
from scheduler_service.domain.trials import KEPT_MS, TRIALS, is_trial
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.delivery import Command, Deliver

PAGE = 200


class TrialStore(Protocol):
    """Where the jobs lie."""

    @property
    def catalogue(self) -> Catalogue:
        """Lists them."""

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes what is left of a destroyed one; False: there is none. Raises StoreError."""


class Trials:
    """All trials of this service or cluster."""

    def __init__(self, *, store: TrialStore, deliver: Deliver, clock: Clock) -> None:
        self._store = store
        self._deliver = deliver
        self._clock = clock

    async def sweep(self) -> int:
        """Destroys those that are over and older than `KEPT_MS`; how many live on. Raises StoreError.

        What a crash left of one is removed as well.
        """
        living, after = 0, ""
        while True:
            page = await self._store.catalogue.children(TRIALS, None, after=after, limit=PAGE)
            for entry in page:
                living += is_trial(entry.job_id, entry.parent_job) and not await self._end(entry)
            if len(page) < PAGE:
                return living
            after = page[-1].job_id

    async def _end(self, entry: CatalogueEntry) -> bool:
        """Whether nothing of the trial is left."""
        if entry.state is not JobState.DESTROYED:
            if self._clock.now().wall - entry.created_at < KEPT_MS or entry.live or entry.waiting:
                return False
            await self._deliver(entry.job_id, Command(Destroyed()))
        await self._store.forget(entry.job_id)
        return True
