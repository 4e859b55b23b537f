"""Reads the statistics per day: of one job, of some, or of all of a tenant."""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState
from scheduler_service.domain.moments import DAY, as_datetime
from scheduler_service.persistence.history.buckets import NONE
from scheduler_service.persistence.history.day_counts import ALL_JOBS
from scheduler_service.persistence.history.day_figures import Figures, decode_figures
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.schema import statistic_cells, statistic_days
from scheduler_service.persistence.sql.expressions import IsIn

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
    return {"jobId": row.job_id, "executions": row.executions, "failed": row.terminated, "failedShare": share}


def _slow_wire(row: Any) -> Wire:
    mean = round(row.duration_ms / row.started)
    return {"jobId": row.job_id, "executions": row.executions, "meanMs": mean}
