"""Removes what need not be kept: old history, destroyed jobs (`DELETE /main/schedule/clean`), and trials."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from scheduler_service.domain.execution import JobState
from scheduler_service.hosts.trials import Trials
from scheduler_service.ports.catalogue import Catalogue, CatalogueEntry, JobQuery
from scheduler_service.ports.clock import Clock
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain

PAGE = 500


class Removed(Protocol):
    """What one round of retention removed."""

    @property
    def executions(self) -> int:
        """Executions, with all that belongs to them."""

    @property
    def notifications(self) -> int:
        """Deliveries."""


class HistoryRetention(Protocol):
    """Removes history. All raise StoreUnavailable."""

    async def clean(self, *, retain: int, destroyed: Sequence[str], tenant: str) -> Mapping[str, int]:
        """Removes these lives, and all but the newest `retain` executions of each living job."""

    async def run(self, now: int) -> Removed:
        """Removes what the settings do not keep as of `now` (wall ms)."""

    async def lives(self, tenant: str, job_ids: Mapping[str, int]) -> Sequence[str]:
        """The uids of all lives of these jobs, up to an `executeNumber` each."""


class DestroyedJobs(Protocol):
    """Where destroyed jobs lie."""

    @property
    def catalogue(self) -> Catalogue:
        """Lists them."""

    def forget(self, job_id: str) -> Awaitable[bool]:
        """Removes one; False: there is none. Raises StoreError."""


class Cleanup:
    """All ways of cleaning, over one store and one history."""

    def __init__(
        self,
        *,
        store: DestroyedJobs,
        retention: HistoryRetention,
        trials: Trials,
        clock: Clock,
        tenant: str,
    ) -> None:
        self.trials = trials
        self._store = store
        self._retention = retention
        self._clock = clock
        self._tenant = tenant

    async def __call__(self, *, destroyed: bool, retain: int) -> Mapping[str, int]:
        """`{jobs, executions, notifications}` that were removed (SPEC section 10). Raises StoreError."""
        buried = await self._buried() if destroyed else []
        uids = await self._lives(buried)
        removed = await self._retention.clean(retain=retain, destroyed=uids, tenant=self._tenant)
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

    async def _lives(self, buried: Sequence[CatalogueEntry]) -> list[str]:
        """The last lives of these jobs, and those before."""
        uids = {entry.uid for entry in buried}
        for start in range(0, len(buried), PAGE):
            some = {entry.job_id: entry.execute_number for entry in buried[start : start + PAGE]}
            uids.update(await self._retention.lives(self._tenant, some))
        return sorted(uids)

    async def _buried(self) -> list[CatalogueEntry]:
        found: list[CatalogueEntry] = []
        cursor: str | None = None
        while True:
            page = await self._store.catalogue.list(
                JobQuery(
                    tenant=self._tenant, states=(JobState.DESTROYED,), system=None, limit=PAGE, cursor=cursor
                )
            )
            found.extend(page.items)
            if page.next_cursor is None:
                return found
            cursor = page.next_cursor
