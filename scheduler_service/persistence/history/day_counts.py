"""Adds up executions that have ended: what the writer counts in the transaction that writes them."""

from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import Any

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.buckets import NONE, SHORT, SHORT_MS, bucket_of
from scheduler_service.persistence.history.schema import executions
from scheduler_service.persistence.history.slot_counts import SLOT, count_slots
from scheduler_service.persistence.sql.expressions import Row

# In place of a job's id: the sum over all jobs of a tenant, but the scheduler's own.
ALL_JOBS = ""

_PLACES = {column.name: place for place, column in enumerate(executions.c)}
_ENDED = _PLACES["ended_at"]
_read: Callable[[Row], Any] = itemgetter(
    *map(
        _PLACES.__getitem__,
        (
            "ended_at", "started_at", "planned_at", "triggered_by",
            "tenant", "job_id", "state", "failure_type", "attempt_count",
        ),
    )
)  # fmt: skip
_TIMER = TriggeredBy.TIMER.value

# Day, tenant, job, state, failure type, lateness, duration: the key of `statistic_cells`. A row goes on with
# its executions, their attempts, the sums of lateness and duration in ms.
Cell = tuple[int, str, str, str, str, int, int]
# Slot (`slot_counts.SLOT`), tenant, state, failure type, lateness, duration of executions of all jobs; their
# figures, as in a row.
Sums = dict[tuple[int, str, str, str, int, int], list[int]]
SLOTS_A_DAY = DAY // SLOT


def has_ended(row: Row) -> bool:
    """Whether a row of `executions` is that of an execution that has ended."""
    return row[_ENDED] is not None


def count_ended(rows: Iterable[Row], system_jobs: Collection[str]) -> tuple[list[Row], list[Row]]:
    """The rows of `statistic_cells` and of `statistic_slots` that `rows` of `executions` add.

    Those that have not ended are left out.

    An execution belongs to the UTC day of its planned moment. Lateness is that of the timer's executions.
    Jobs of `system_jobs` are not in the sum over all jobs, nor in slots.
    """
    cells, sums = _count(rows, system_jobs)
    return [*cells, *_sum(sums)], count_slots((key, figures[0]) for key, figures in sums.items())


def _count(rows: Iterable[Row], system_jobs: Collection[str]) -> tuple[list[Row], Sums]:
    """The rows of cells of jobs, and the sums over jobs.

    Written out, with few calls: it runs for each execution, on the writer's thread. Most executions of a load
    have a cell of their own, which is made as a row at once, and share few sums.
    """
    cells: dict[Cell, Any] = {}
    sums: Sums = {}
    for ended, started, planned, trigger, tenant, job_id, state, failure, attempts in map(_read, rows):
        if ended is None:
            continue
        late = took = 0
        lateness = duration = NONE
        failure = failure or ""
        if started is not None:
            took = ended - started
            duration = SHORT[took] if 0 <= took < SHORT_MS else bucket_of(took)
            if trigger == _TIMER:
                late = started - planned if started > planned else 0
                lateness = SHORT[late] if late < SHORT_MS else bucket_of(late)
        cell = (planned // DAY, tenant, job_id, state, failure, lateness, duration)
        known = cells.get(cell)
        if known is None:
            cells[cell] = (*cell, 1, attempts, late, took)
        else:
            of, tried, behind, passed = known[7:]
            cells[cell] = (*cell, of + 1, tried + attempts, behind + late, passed + took)
        if job_id in system_jobs:
            continue
        seen = (planned // SLOT, tenant, state, failure, lateness, duration)
        figures = sums.get(seen)
        if figures is None:
            sums[seen] = [1, attempts, late, took]
        else:
            figures[0] += 1
            figures[1] += attempts
            figures[2] += late
            figures[3] += took
    return list(cells.values()), sums


def _sum(sums: Sums) -> list[Row]:
    """The rows of cells that are the sum over the jobs, by day."""
    days: dict[Cell, list[int]] = {}
    for (slot, tenant, state, failure, lateness, duration), figures in sums.items():
        cell = (slot // SLOTS_A_DAY, tenant, ALL_JOBS, state, failure, lateness, duration)
        known = days.get(cell)
        days[cell] = figures if known is None else [sum(pair) for pair in zip(known, figures, strict=True)]
    return [(*cell, *figures) for cell, figures in days.items()]
