"""The statistics per day: what the writer counts, how that is folded by job and day, and what readers get.

The writer adds up executions that have ended in the transaction that writes them, by day and by slots of five
minutes. Durations in ms are counted in fixed buckets: their counts add up, over processes and days, and give
percentiles. Up to 8 ms each millisecond has a bucket; above, each power of two is divided into four. So a
bucket is at most a quarter as wide as where it begins, and a value that is told as the middle of its bucket
is wrong by an eighth at most.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, FailureType, TriggeredBy
from scheduler_service.domain.job_key import read_job_key
from scheduler_service.domain.moments import DAY, MINUTE, as_datetime
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.schema import executions, statistic_cells, statistic_days
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import IsIn, Row, replacing

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
    return [*cells, *_sum_days(sums)], _sum_slots(sums)


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


def _sum_days(sums: Sums) -> list[Row]:
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


OUTCOMES = (
    ExecutionState.SUCCEEDED,
    ExecutionState.TERMINATED,
    ExecutionState.CANCELLED,
    ExecutionState.SKIPPED,
)
PERCENTILES = (50, 90, 95, 99)


class Figures(msgspec.Struct, omit_defaults=True):
    """Counts by state, failure type and bucket, and sums in ms; figures of other jobs and days add up."""

    states: dict[str, int] = {}
    failures: dict[str, int] = {}
    lateness: dict[int, int] = {}
    duration: dict[int, int] = {}
    attempts: int = 0
    lateness_ms: int = 0
    duration_ms: int = 0

    @property
    def count(self) -> int:
        """How many executions."""
        return sum(self.states.values())

    @property
    def started(self) -> int:
        """How many of them have a duration."""
        return sum(self.duration.values())

    def add_cell(self, cell: Any) -> None:
        """Adds a row of `statistic_cells`."""
        add(self.states, cell.state, cell.executions)
        if cell.failure_type:
            add(self.failures, cell.failure_type, cell.executions)
        if cell.lateness != NONE:
            add(self.lateness, cell.lateness, cell.executions)
        if cell.duration != NONE:
            add(self.duration, cell.duration, cell.executions)
        self.attempts += cell.attempts
        self.lateness_ms += cell.lateness_ms
        self.duration_ms += cell.duration_ms

    def add(self, other: "Figures") -> None:
        """Adds the figures of other executions."""
        for own, others in (
            (self.states, other.states),
            (self.failures, other.failures),
            (self.lateness, other.lateness),
            (self.duration, other.duration),
        ):
            for name, number in others.items():
                add(own, name, number)
        self.attempts += other.attempts
        self.lateness_ms += other.lateness_ms
        self.duration_ms += other.duration_ms

    def wire(self) -> Wire:
        """The members that a day and a sum have."""
        return {
            "executions": self.count,
            "byOutcome": {str(state): self.states.get(str(state), 0) for state in OUTCOMES},
            "byFailureType": {
                str(kind): self.failures[str(kind)] for kind in FailureType if str(kind) in self.failures
            },
            "attempts": self.attempts,
            "lateness": spread(self.lateness, PERCENTILES) | _mean(self.lateness, self.lateness_ms),
            "duration": spread(self.duration, PERCENTILES) | _mean(self.duration, self.duration_ms),
        }


encode_figures = msgspec.msgpack.Encoder().encode
decode_figures = msgspec.msgpack.Decoder(Figures).decode


def add(counts: dict[Any, int], name: Any, number: int = 1) -> None:
    """So many more of `name`."""
    counts[name] = counts.get(name, 0) + number


def _mean(counts: dict[int, int], total_ms: int) -> Wire:
    return {"mean": round(total_ms / sum(counts.values())) if counts else None}


# How many rows one step takes: more would keep the writer from its load.
WINDOW_ROWS = 500
DAYS = replacing(statistic_days)

# Day, tenant and job.
Key = tuple[int, str, str]


def fold_days(dialect: Dialect, before: int, connection: sa.Connection) -> int:
    """Folds some cells of days before the day `before`; how many there were, 0: none is left.

    What is deleted is what is added up, also where others write cells of such a day meanwhile.
    """
    key = tuple(statistic_cells.primary_key)
    oldest = sa.select(*key).where(statistic_cells.c.day < before).order_by(*key).limit(WINDOW_ROWS)
    cells = dialect.take(connection, statistic_cells, oldest.correlate(None))
    added: dict[Key, Figures] = {}
    for cell in cells:
        added.setdefault((cell.day, cell.tenant, cell.job_id), Figures()).add_cell(cell)
    for place, known in _known(connection, added):
        added[place].add(known)
    rows = [_row(place, figures) for place, figures in sorted(added.items(), key=lambda item: item[0])]
    dialect.insert_many(connection, DAYS, rows)
    return len(cells)


def _known(connection: sa.Connection, added: Iterable[Key]) -> list[tuple[Key, Figures]]:
    """What earlier steps have made of the same jobs and days."""
    table = statistic_days.c
    found: list[tuple[Key, Figures]] = []
    jobs: dict[tuple[int, str], list[str]] = {}
    for day, tenant, job_id in added:
        jobs.setdefault((day, tenant), []).append(job_id)
    for (day, tenant), job_ids in jobs.items():
        rows: Any = connection.execute(
            sa.select(table.job_id, table.figures).where(
                table.day == day, table.tenant == tenant, table.job_id.in_(job_ids)
            )
        )
        found += [((day, tenant, row.job_id), decode_figures(row.figures)) for row in rows]
    return found


def _row(key: Key, figures: Figures) -> Row:
    terminated = figures.states.get("terminated", 0)
    packed = bytearray(encode_figures(figures))
    return (*key, figures.count, terminated, figures.started, figures.duration_ms, packed)


# How many failing and how many slow jobs are named.
TOP = 10
_CELLS, _DAYS = statistic_cells.c, statistic_days.c
_ADDED = ("executions", "attempts", "lateness_ms", "duration_ms")


class DayQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which days (counted from 1970, both included), and of which jobs; None: the sum over all of them."""

    tenant: str
    first: int
    last: int
    job_ids: frozenset[str] | None = None


def collect_days(connection: sa.Connection, query: DayQuery) -> Wire:
    """`total`, and `days` that have any executions, oldest first."""
    days: dict[int, Figures] = {}
    jobs = (ALL_JOBS,) if query.job_ids is None else query.job_ids
    for row in connection.execute(_select_folded(query, jobs)):
        days.setdefault(row.day, Figures()).add(decode_figures(row.figures))
    for row in connection.execute(_select_cells(query, jobs)):
        days.setdefault(row.day, Figures()).add_cell(row)
    total = Figures()
    for figures in days.values():
        total.add(figures)
    return {
        "total": total.wire(),
        "days": [{"day": write_day(day), **figures.wire()} for day, figures in sorted(days.items())],
    }


def collect_top(connection: sa.Connection, query: DayQuery, without: Collection[str]) -> Wire:
    """`failing`: the jobs with the most executions that failed for good; `slowest`: by their mean duration.

    Jobs of `without` are not among them.
    """
    per_job = _sum_by_job(query, without)
    mean = sa.cast(per_job.c.duration_ms, sa.Float) / per_job.c.started
    failing = sa.select(per_job).where(per_job.c.terminated > 0)
    failing = failing.order_by(per_job.c.terminated.desc(), per_job.c.job_id).limit(TOP)
    slowest = sa.select(per_job).where(per_job.c.started > 0)
    slowest = slowest.order_by(mean.desc(), per_job.c.job_id).limit(TOP)
    return {
        "failing": [_failing_wire(row) for row in connection.execute(failing)],
        "slowest": [_slow_wire(row) for row in connection.execute(slowest)],
    }


def write_day(day: int) -> str:
    """The date of a day, `2026-11-23`."""
    return as_datetime(day * DAY).date().isoformat()


def _select_folded(query: DayQuery, jobs: Iterable[str]) -> sa.Select[Any]:
    return sa.select(_DAYS.day, _DAYS.figures).where(*_matching(_DAYS, query, jobs))


def _select_cells(query: DayQuery, jobs: Iterable[str]) -> sa.Select[Any]:
    """Cells, added up over the jobs by the database."""
    key = (_CELLS.day, _CELLS.state, _CELLS.failure_type, _CELLS.lateness, _CELLS.duration)
    sums = [_sum(_CELLS[name]).label(name) for name in _ADDED]
    return sa.select(*key, *sums).where(*_matching(_CELLS, query, jobs)).group_by(*key)


def _matching(table: Any, query: DayQuery, jobs: Iterable[str]) -> list[sa.ColumnElement[bool]]:
    """The days one by one: so the key, which begins with the day, leads to each row of a job."""
    days = table.day.in_(list(range(query.first, query.last + 1)))
    wanted = sa.literal(msgspec.json.encode(sorted(jobs)).decode())
    return [days, table.tenant == query.tenant, IsIn(table.job_id, wanted)]


def _sum_by_job(query: DayQuery, without: Collection[str]) -> sa.Subquery:
    """Per job its executions, those that failed for good, those that started and their duration in all."""
    failed = sa.case((_CELLS.state == str(ExecutionState.TERMINATED), _CELLS.executions), else_=0)
    started = sa.case((_CELLS.duration != NONE, _CELLS.executions), else_=0)
    cells = sa.select(
        _CELLS.job_id,
        _CELLS.executions,
        failed.label("terminated"),
        started.label("started"),
        _CELLS.duration_ms,
    ).where(*_among(_CELLS, query, without))
    days = sa.select(
        _DAYS.job_id, _DAYS.executions, _DAYS.terminated, _DAYS.started, _DAYS.duration_ms
    ).where(*_among(_DAYS, query, without))
    both = sa.union_all(cells, days).subquery()
    names = ("executions", "terminated", "started", "duration_ms")
    sums = [_sum(both.c[name]).label(name) for name in names]
    return sa.select(both.c.job_id, *sums).group_by(both.c.job_id).subquery()


def _among(table: Any, query: DayQuery, without: Collection[str]) -> list[sa.ColumnElement[bool]]:
    if query.job_ids is not None:
        return _matching(table, query, query.job_ids)
    days = table.day.between(query.first, query.last)
    return [days, table.tenant == query.tenant, table.job_id.not_in((ALL_JOBS, *without))]


def _sum(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """A sum of whole numbers is one in PostgreSQL, too."""
    return sa.cast(sa.func.sum(column), sa.BigInteger)


def _failing_wire(row: Any) -> Wire:
    share = round(row.terminated / row.executions, 4)
    job_id = read_job_key(row.job_id)[1]
    return {"jobId": job_id, "executions": row.executions, "failed": row.terminated, "failedShare": share}


def _slow_wire(row: Any) -> Wire:
    mean = round(row.duration_ms / row.started)
    return {"jobId": read_job_key(row.job_id)[1], "executions": row.executions, "meanMs": mean}
