"""Removes history that is kept no longer, in small steps between the writer's own (SPEC section 12)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import sqlalchemy as sa

from scheduler_service.domain.execution import TERMINAL
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.day_counts import SLOT, SLOT_DAYS
from scheduler_service.persistence.history.day_statistics import fold_days
from scheduler_service.persistence.history.removal import Removal, RemovedRows, Trim
from scheduler_service.persistence.history.schema import statistic_cells, statistic_days, statistic_slots
from scheduler_service.persistence.history.writer import HistoryWriter

# Removal under pressure goes on to this part of `max_bytes`, so that the next flush does not reach it again.
TARGET_FILL = 0.9


class Retention:
    """What is kept: of each job the newest `count` executions, and all that ended less than `age` ms ago.

    `ages` has other ages for outcomes (terminal states). `max_bytes` None: no bound on the size.
    `statistics_days` are kept of the statistics per day, whatever becomes of the executions.
    """

    def __init__(
        self,
        *,
        writer: HistoryWriter,
        count: int = 10,
        age: int = 5 * DAY,
        ages: Mapping[str, int] | None = None,
        max_bytes: int | None = None,
        statistics_days: int = 400,
    ) -> None:
        self._writer = writer
        self._removal = Removal(writer.dialect)
        self._count = count
        self._ages = dict.fromkeys(TERMINAL, age) | dict(ages or {})
        self._max_bytes = max_bytes
        self._statistics_days = statistics_days

    async def run(self, now: int) -> RemovedRows:
        """One pass at `now` (wall ms): by age, then by size; then unused space goes back to the disk.

        Days of the statistics that are over are folded, old ones removed.

        Executions that have not ended stay. Raises StoreUnavailable; what was removed by then is gone.
        """
        before = {state: now - age for state, age in self._ages.items()}
        removed = await self._walk(retain=self._count, before=before, tenant=None)
        firings = await self._repeat(partial(self._removal.remove_firings, min(before.values())))
        removed = removed.plus(RemovedRows(firings=firings))
        await self._tend_statistics(now // DAY)
        removed = removed.plus(await self._relieve())
        await self._repeat(self._removal.give_back)
        return removed

    async def clean(
        self, *, retain: int, destroyed: Sequence[str] = (), tenant: str | None = None
    ) -> dict[str, int]:
        """Removes all of the `destroyed` lives (uids), and of every job all but its newest `retain`.

        Returns `{jobs, executions, notifications}`; `jobs` counts the lives of which there was history
        (`DELETE /main/schedule/clean`, SPEC section 10). `tenant` None: of all. Raises StoreUnavailable.
        """
        removed = RemovedRows()
        uids = list(destroyed)
        jobs = await self._writer.perform(partial(self._removal.count_lives, uids))
        while (
            batch := await self._writer.perform(partial(self._removal.remove_lives, uids))
        ) != RemovedRows():
            removed = removed.plus(batch)
        removed = removed.plus(await self._walk(retain=retain, before=None, tenant=tenant))
        await self._repeat(self._removal.give_back)
        return {"jobs": jobs, "executions": removed.executions, "notifications": removed.notifications}

    async def lives(self, tenant: str, jobs: Mapping[str, int]) -> list[str]:
        """All lives (uids) with executions, up to the last `executeNumber` of each job. Numbers go on from
        life to life, so a life that began since then is not among them. Raises StoreUnavailable.
        """
        return await self._writer.perform(partial(self._removal.find_lives, jobs, tenant))

    async def _repeat(self, step: Callable[[sa.Connection], int]) -> int:
        """Takes small steps until there is nothing to do; the history is written between them. Their sum."""
        total = 0
        while number := await self._writer.perform(step):
            total += number
        return total

    async def _walk(
        self, *, retain: int, before: Mapping[str, int] | None, tenant: str | None
    ) -> RemovedRows:
        trim = Trim(retain=retain, before=before, tenant=tenant)
        removed, mark = await self._writer.perform(partial(self._removal.trim, trim, None))
        while mark is not None:
            batch, mark = await self._writer.perform(partial(self._removal.trim, trim, mark))
            removed = removed.plus(batch)
        return removed

    async def _tend_statistics(self, today: int) -> None:
        """The day before today may still get executions that run over midnight: it is left as it is."""
        oldest = today - self._statistics_days
        for age, before in (
            (statistic_cells.c.day, oldest),
            (statistic_days.c.day, oldest),
            (statistic_slots.c.slot, (today - SLOT_DAYS) * DAY // SLOT),
        ):
            await self._repeat(partial(self._removal.remove_old, age, before))
        await self._repeat(partial(fold_days, self._writer.dialect, today - 1))

    async def _relieve(self) -> RemovedRows:
        """Removes detail, oldest first, but never the executions' own rows."""
        removed = RemovedRows()
        if self._max_bytes is None:
            return removed
        used = await self._writer.perform(self._removal.measure)
        if used <= self._max_bytes:
            return removed
        while used > self._max_bytes * TARGET_FILL:
            entries, used = await self._writer.perform(partial(self._removal.drop_detail, used))
            if not entries:
                break
            removed = removed.plus(RemovedRows(entries=entries))
        return removed
