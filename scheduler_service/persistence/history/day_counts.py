"""Adds up executions that have ended: what the writer counts in the transaction that writes them."""

from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import Any

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.history.buckets import NONE, bucket_of
from scheduler_service.persistence.history.schema import executions
from scheduler_service.persistence.history.slot_counts import SLOT, Seen, count_slots
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

# Day, tenant, job, state, failure type, lateness, duration: the key of `statistic_cells`. Its executions,
# their attempts, the sums of lateness and duration in ms.
Cell = tuple[int, str, str, str, str, int, int]
Cells = dict[Cell, list[int]]


def has_ended(row: Row) -> bool:
    """Whether a row of `executions` is that of an execution that has ended."""
    return row[_ENDED] is not None


def count_ended(rows: Iterable[Row], system_jobs: Collection[str]) -> tuple[list[Row], list[Row]]:
    """The rows of `statistic_cells` and of `statistic_slots` that `rows` of `executions` add.

    Those that have not ended are left out.

    An execution belongs to the UTC day of its planned moment. Lateness is that of the timer's executions.
    Jobs of `system_jobs` are not in the sum over all jobs, nor in slots.
    """
    seen: list[Seen] = []
    cells = _count(rows, system_jobs, seen)
    found = (cells, _sum(cells, system_jobs))
    written = [(*cell, *figures) for some in found for cell, figures in some.items()]
    return written, count_slots(seen)


def _count(rows: Iterable[Row], system_jobs: Collection[str], seen: list[Seen]) -> Cells:
    """Written out, with few calls: it runs for each execution, on the writer's thread.

    Adds what slots count to `seen`.
    """
    cells: Cells = {}
    for ended, started, planned, trigger, tenant, job_id, state, failure, attempts in map(_read, rows):
        if ended is None:
            continue
        late = took = 0
        lateness = duration = NONE
        if started is not None:
            took = ended - started
            duration = bucket_of(took)
            if trigger == _TIMER:
                late = max(0, started - planned)
                lateness = bucket_of(late)
        if job_id not in system_jobs:
            seen.append((planned // SLOT, tenant, state, lateness, duration))
        cell = (planned // DAY, tenant, job_id, state, failure or "", lateness, duration)
        known = cells.get(cell)
        if known is None:
            cells[cell] = [1, attempts, late, took]
        else:
            known[0] += 1
            known[1] += attempts
            known[2] += late
            known[3] += took
    return cells


def _sum(cells: Cells, system_jobs: Collection[str]) -> Cells:
    """The sum over the jobs, but `system_jobs`."""
    sums: Cells = {}
    for (day, tenant, job_id, state, failure, lateness, duration), figures in cells.items():
        if job_id in system_jobs:
            continue
        cell = (day, tenant, ALL_JOBS, state, failure, lateness, duration)
        known = sums.get(cell)
        if known is None:
            sums[cell] = figures.copy()
        else:
            known[0] += figures[0]
            known[1] += figures[1]
            known[2] += figures[2]
            known[3] += figures[3]
    return sums
