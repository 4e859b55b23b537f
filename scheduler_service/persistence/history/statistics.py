"""The figures of `/stats` from the history: outcomes and lateness over the last hour."""

import itertools
from collections import Counter
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import HOUR, MINUTE, rfc3339
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.schema import NOT_SUCCEEDED, executions
from scheduler_service.persistence.sql.expressions import JsonLists

WINDOW = HOUR
# Lateness is that of the newest executions: a sample that does not grow with the load.
SAMPLE = 10_000


class Minute(msgspec.Struct, frozen=True):
    """How many executions were created in the minute from `start` on; `others` did not succeed, by state."""

    start: int
    total: int
    others: Counter[str]

    @property
    def succeeded(self) -> int:
        """All but the others."""
        return self.total - self.others.total()


def collect_statistics(connection: sa.Connection, tenant: str, now: int, without: frozenset[str]) -> Wire:
    """`byState` and `perMinute` (oldest first, empty minutes too) count executions by their creation.

    `lateness` (ms; None where there is nothing to judge) is that of the timer's newest 10,000. Jobs of
    `without` do not count; their executions are read one by one, which is cheap while they run seldom.
    """
    minutes = _count(connection, tenant, now, without)
    by_state = {state.value: sum(minute.others[state] for minute in minutes) for state in ExecutionState}
    by_state[ExecutionState.SUCCEEDED.value] = sum(minute.succeeded for minute in minutes)
    return {
        "byState": by_state,
        "lateness": _summarize(_latenesses(connection, tenant, now, without)),
        "perMinute": [_minute_wire(minute) for minute in minutes],
    }


def _count(connection: sa.Connection, tenant: str, now: int, without: frozenset[str]) -> list[Minute]:
    """Whole minutes, oldest first. Most executions succeed: only the others are counted by state."""
    starts = _minutes(now)
    apart = _count_excluded(connection, tenant, starts, without)
    values = {f"minute{place}": start for place, start in enumerate(starts)}
    totals = connection.execute(_TOTALS, {"tenant": tenant, **values}).one()
    minutes = [
        Minute(start, total - apart[start], Counter()) for start, total in zip(starts, totals, strict=True)
    ]
    for place, state, number in _read(connection, _select_others(tenant, starts, without)):
        minutes[place].others[state] += number
    return minutes


def _select_totals() -> sa.Select[Any]:
    """How many executions were created in each minute: ranges of one index, all in one row."""
    table = executions.c
    starts = (sa.bindparam(f"minute{place}", type_=sa.BigInteger) for place in range(WINDOW // MINUTE))
    counts = (
        sa.select(sa.func.count()).where(
            table.tenant == sa.bindparam("tenant"),
            table.created_at >= start,
            table.created_at < start + MINUTE,
        )
        for start in starts
    )
    return sa.select(*(count.scalar_subquery() for count in counts))


_TOTALS = _select_totals()


def _select_others(tenant: str, minutes: range, without: frozenset[str]) -> sa.Select[Any]:
    """By minute (0 is the first) and state, how many did not succeed."""
    table = executions.c
    place = ((table.created_at - minutes[0]) // MINUTE).label("place")
    key = (place, table.state)
    found = (
        sa.select(*key, sa.func.count().label("number"))
        .where(table.tenant == tenant, NOT_SUCCEEDED, table.job_id.not_in(without))
        .where(table.created_at.between(minutes[0], minutes[-1] + MINUTE - 1))
        .group_by(*key)
        .subquery("found")
    )
    return sa.select(JsonLists(*found.c))


def _read(connection: sa.Connection, selection: sa.Select[Any]) -> Any:
    """Rows that come as one JSON text: for each row of its own the thread would wait for the interpreter."""
    return msgspec.json.decode(connection.execute(selection).scalar_one() or "[]")


def _minutes(now: int) -> range:
    newest = now - now % MINUTE
    return range(newest - WINDOW + MINUTE, newest + MINUTE, MINUTE)


def _count_excluded(
    connection: sa.Connection, tenant: str, minutes: range, without: frozenset[str]
) -> Counter[int]:
    """How many executions of the jobs `without` each minute has, by its start."""
    table = executions.c
    found = connection.execute(
        sa.select(table.created_at).where(
            table.tenant == tenant, table.job_id.in_(without), table.created_at >= minutes[0]
        )
    ).scalars()
    return Counter(moment - moment % MINUTE for moment in found)


def _latenesses(
    connection: sa.Connection, tenant: str, now: int, without: frozenset[str]
) -> list[tuple[int, int]]:
    """The latenesses (ms) of the newest, the least first, and how many executions have each.

    The database sorts and counts them: for ten thousand rows this thread would keep the loop waiting.
    """
    table = executions.c
    newest = (
        sa.select(
            sa.case(
                (table.started_at > table.planned_at, table.started_at - table.planned_at), else_=0
            ).label("late")
        )
        .where(
            table.tenant == tenant,
            table.created_at > now - WINDOW,
            table.triggered_by == TriggeredBy.TIMER.value,
            table.started_at.is_not(None),
            table.job_id.not_in(without),
        )
        .order_by(table.created_at.desc())
        .limit(SAMPLE)
        .subquery("newest")
    )
    counted = (
        sa.select(newest.c.late, sa.func.count().label("number")).group_by(newest.c.late).subquery("counted")
    )
    return sorted(_read(connection, sa.select(JsonLists(*counted.c))))


def _summarize(found: list[tuple[int, int]]) -> Wire:
    if not found:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": _percentile(found, 50), "p99": _percentile(found, 99), "max": found[-1][0]}


def _percentile(found: list[tuple[int, int]], percent: int) -> int:
    """The nearest rank."""
    rank = -(-sum(number for _, number in found) * percent // 100)
    below = itertools.accumulate(number for _, number in found)
    return next(late for (late, _), reached in zip(found, below, strict=True) if reached >= rank)


def _minute_wire(minute: Minute) -> Wire:
    return {
        "at": rfc3339(minute.start),
        "total": minute.total,
        "succeeded": minute.succeeded,
        "failed": minute.others[ExecutionState.TERMINATED],
    }
