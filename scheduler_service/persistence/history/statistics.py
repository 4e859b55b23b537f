"""The figures of `/stats` from the history: outcomes and lateness over the last hour."""

from collections import Counter

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import HOUR, MINUTE, rfc3339
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.schema import NOT_SUCCEEDED, executions
from scheduler_service.persistence.history.shapes import lateness

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
    apart = _count_excluded(connection, tenant, _minutes(now), without)
    minutes = [_count_minute(connection, tenant, start, apart[start]) for start in _minutes(now)]
    table = executions.c
    others = (
        sa.select(table.created_at, table.state)
        .where(table.tenant == tenant, NOT_SUCCEEDED, table.created_at >= minutes[0].start)
        .where(table.created_at < minutes[-1].start + MINUTE, table.job_id.not_in(without))
    )
    for created_at, state in connection.execute(others):
        minutes[(created_at - minutes[0].start) // MINUTE].others[state] += 1
    return minutes


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


def _count_minute(connection: sa.Connection, tenant: str, start: int, apart: int) -> Minute:
    table = executions.c
    total = connection.execute(
        sa.select(sa.func.count()).where(
            table.tenant == tenant, table.created_at >= start, table.created_at < start + MINUTE
        )
    ).scalar_one()
    return Minute(start, total - apart, Counter())


def _latenesses(connection: sa.Connection, tenant: str, now: int, without: frozenset[str]) -> list[int]:
    table = executions.c
    selection = (
        sa.select(table.planned_at, table.started_at)
        .where(
            table.tenant == tenant,
            table.created_at > now - WINDOW,
            table.triggered_by == TriggeredBy.TIMER.value,
            table.started_at.is_not(None),
            table.job_id.not_in(without),
        )
        .order_by(table.created_at.desc())
        .limit(SAMPLE)
    )
    return sorted(lateness(row[0], row[1]) or 0 for row in connection.execute(selection))


def _summarize(found: list[int]) -> Wire:
    if not found:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": _percentile(found, 50), "p99": _percentile(found, 99), "max": found[-1]}


def _percentile(found: list[int], percent: int) -> int:
    """The nearest rank."""
    return found[-(-len(found) * percent // 100) - 1]


def _minute_wire(minute: Minute) -> Wire:
    return {
        "at": rfc3339(minute.start),
        "total": minute.total,
        "succeeded": minute.succeeded,
        "failed": minute.others[ExecutionState.TERMINATED],
    }
