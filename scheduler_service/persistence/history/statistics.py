"""The figures of `/stats` that the history knows: outcomes and lateness over the last hour."""

import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import HOUR, MINUTE, rfc3339
from scheduler_service.persistence.history.queries import Wire
from scheduler_service.persistence.history.schema import executions
from scheduler_service.persistence.history.shapes import lateness

WINDOW = HOUR
# Lateness is that of the newest executions: a sample that does not grow with the load.
SAMPLE = 10_000


def collect_statistics(connection: sa.Connection, tenant: str, now: int) -> Wire:
    """`byState` and `perMinute` (oldest first, empty minutes too) count executions by their creation.

    `lateness` (ms; None where there is nothing to judge) is that of the timer's newest 10,000.
    """
    counts = _count(connection, tenant, now)
    by_state = dict.fromkeys((state.value for state in ExecutionState), 0)
    for _, state, number in counts:
        by_state[state] += number
    return {
        "byState": by_state,
        "lateness": _judge(_latenesses(connection, tenant, now)),
        "perMinute": _per_minute(counts, now),
    }


def _count(connection: sa.Connection, tenant: str, now: int) -> list[tuple[int, str, int]]:
    table = executions.c
    minute = (table.created_at - table.created_at % MINUTE).label("minute")
    selection = (
        sa.select(minute, table.state, sa.func.count())
        .where(table.tenant == tenant, table.created_at > now - WINDOW)
        .group_by(minute, table.state)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(selection)]


def _latenesses(connection: sa.Connection, tenant: str, now: int) -> list[int]:
    table = executions.c
    selection = (
        sa.select(table.planned_at, table.started_at)
        .where(
            table.tenant == tenant,
            table.created_at > now - WINDOW,
            table.triggered_by == TriggeredBy.TIMER.value,
            table.started_at.is_not(None),
        )
        .order_by(table.created_at.desc())
        .limit(SAMPLE)
    )
    return sorted(lateness(row[0], row[1]) or 0 for row in connection.execute(selection))


def _judge(found: list[int]) -> Wire:
    if not found:
        return {"p50": None, "p99": None, "max": None}
    return {"p50": _percentile(found, 50), "p99": _percentile(found, 99), "max": found[-1]}


def _percentile(found: list[int], percent: int) -> int:
    """The nearest rank."""
    return found[-(-len(found) * percent // 100) - 1]


def _per_minute(counts: list[tuple[int, str, int]], now: int) -> list[Wire]:
    newest = now - now % MINUTE
    minutes: dict[int, dict[str, int]] = {newest - MINUTE * back: {} for back in range(59, -1, -1)}
    for minute, state, number in counts:
        if minute in minutes:
            minutes[minute][state] = number
    return [
        {
            "at": rfc3339(minute),
            "total": sum(states.values()),
            "succeeded": states.get(ExecutionState.SUCCEEDED, 0),
            "failed": states.get(ExecutionState.TERMINATED, 0),
        }
        for minute, states in minutes.items()
    ]
