"""Adds up executions that have ended: what the writer counts in the transaction that writes them.

By day and by slots of five minutes. Durations in ms are counted in fixed buckets: their counts add up, over
processes and days, and give percentiles. Up to 8 ms each millisecond has a bucket; above, each power of two
is divided into four. So a bucket is at most a quarter as wide as where it begins, and a value that is told as
the middle of its bucket is wrong by an eighth at most.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

from scheduler_service.domain.execution import TriggeredBy
from scheduler_service.domain.moments import DAY, MINUTE
from scheduler_service.persistence.history.schema import executions
from scheduler_service.persistence.sql.expressions import Row

# The bucket of what has no duration: an execution that never started, or one that no timer planned.
NONE = -1


def bucket_of(milliseconds: int) -> int:
    """The bucket of a duration; the one of 0 also for less."""
    if milliseconds < 8:
        return max(milliseconds, 0)
    shift = milliseconds.bit_length() - 3
    return 4 * shift + (milliseconds >> shift)


# The buckets of the first milliseconds, which most durations are within: a call takes three times as long.
SHORT_MS = 8_192
SHORT = tuple(map(bucket_of, range(SHORT_MS)))


def least_in(bucket: int) -> int:
    """The shortest duration in a bucket, in ms."""
    if bucket < 8:
        return bucket
    shift = bucket // 4 - 1
    return (4 + bucket % 4) << shift


def middle_of(bucket: int) -> int:
    """What a duration in a bucket is told as, in ms: wrong by an eighth of it at most."""
    return (least_in(bucket) + least_in(bucket + 1) - 1) // 2


def percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """The nearest rank among values of which `counts` has the number; None: there are none."""
    rank = -(-sum(counts.values()) * percent // 100)
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return None


def spread(counts: Mapping[int, int], percentiles: Iterable[int]) -> dict[str, object]:
    """Percentiles and the largest of durations, in ms, by their buckets; None where there are none."""
    found = {f"p{percent}": percentile(counts, percent) for percent in percentiles}
    found["max"] = max(counts, default=None)
    return {name: None if bucket is None else middle_of(bucket) for name, bucket in found.items()}


# Shorter ones would make the read of a day slow: each has a row of each figure that occurs.
SLOT = 5 * MINUTE
# For so many days, beside today, the figures of slots are kept.
SLOT_DAYS = 8
LATENESS = "lateness"
DURATION = "duration"

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
# Slot (counted from 1970), tenant, state, failure type, lateness, duration of executions of all jobs; their
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
    return [*cells, *_sum(sums)], _sum_slots(sums)


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


def _sum_slots(sums: Sums) -> list[Row]:
    """The rows of slots, in the order of their key.

    Each figure is counted by itself: combinations would be many rows, and a read of a day of them slow.
    """
    found: Counter[tuple[int, str, str, int]] = Counter()
    for (slot, tenant, state, _, lateness, duration), (count, *_) in sums.items():
        found[slot, tenant, state, 0] += count
        if duration != NONE:
            found[slot, tenant, DURATION, duration] += count
        if lateness != NONE:
            found[slot, tenant, LATENESS, lateness] += count
    return [(*key, count) for key, count in sorted(found.items())]
