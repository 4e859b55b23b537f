"""Executions over time, for figures and charts (SPEC section 10): the last hour by minutes, and series."""

from collections import Counter
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import HOUR, MINUTE, rfc3339
from scheduler_service.persistence.history.day_statistics import (
    DURATION,
    LATENESS,
    SLOT,
    Figures,
    add,
    bucket_of,
    percentile,
    spread,
)
from scheduler_service.persistence.history.history_counts import MOST_EXAMINED, select_examined
from scheduler_service.persistence.history.queries import ExecutionQuery, SeriesQuery, Wire, read_lists
from scheduler_service.persistence.history.schema import NOT_SUCCEEDED, executions, statistic_slots
from scheduler_service.persistence.sql.expressions import Unindexed

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
        "lateness": _lateness_wire(_latenesses(connection, tenant, now, without)),
        "perMinute": [_minute_wire(minute) for minute in minutes],
    }


def count_begun(connection: sa.Connection, tenant: str, now: int, without: frozenset[str]) -> int:
    """Those that began within a minute, as the tenant's limit counts them: delayed ones when they are due."""
    table, since = executions.c, now - MINUTE
    chosen = sa.and_(
        table.tenant == tenant,
        table.state != ExecutionState.SCHEDULED.value,
        table.job_id.not_in(without),
    )
    created = sa.select(sa.func.count()).where(chosen, table.created_at > since)
    delayed = sa.select(sa.func.count()).where(chosen, table.planned_at > since, table.created_at <= since)
    row = connection.execute(sa.select(created.scalar_subquery(), delayed.scalar_subquery())).one()
    return int(row[0] + row[1])


def _count(connection: sa.Connection, tenant: str, now: int, without: frozenset[str]) -> list[Minute]:
    """Whole minutes, oldest first. Most executions succeed: only the others are counted by state."""
    starts = _minutes(now)
    apart = _count_excluded(connection, tenant, starts, without)
    values = {f"minute{place}": start for place, start in enumerate(starts)}
    totals = connection.execute(_TOTALS, {"tenant": tenant, **values}).one()
    minutes = [
        Minute(start, total - apart[start], Counter()) for start, total in zip(starts, totals, strict=True)
    ]
    for place, state, number in read_lists(connection, _select_others(tenant, starts, without)):
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
    return (
        sa.select(*key, sa.func.count().label("number"))
        .where(table.tenant == tenant, NOT_SUCCEEDED, table.job_id.not_in(without))
        .where(table.created_at.between(minutes[0], minutes[-1] + MINUTE - 1))
        .group_by(*key)
    )


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


def _latenesses(connection: sa.Connection, tenant: str, now: int, without: frozenset[str]) -> dict[int, int]:
    """How many of the newest executions have each lateness (ms).

    The database counts them: for ten thousand rows this thread would keep the loop waiting.
    """
    table = executions.c
    late = sa.case((table.started_at > table.planned_at, table.started_at - table.planned_at), else_=0)
    newest = (
        sa.select(late.label("late"))
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
    counted = sa.select(newest.c.late, sa.func.count().label("number")).group_by(newest.c.late)
    return dict(read_lists(connection, counted))


def _lateness_wire(found: dict[int, int]) -> Wire:
    return {"p50": percentile(found, 50), "p99": percentile(found, 99), "max": max(found, default=None)}


def _minute_wire(minute: Minute) -> Wire:
    return {
        "at": rfc3339(minute.start),
        "total": minute.total,
        "succeeded": minute.succeeded,
        "failed": minute.others[ExecutionState.TERMINATED],
    }


LIVE = (
    ExecutionState.SCHEDULED,
    ExecutionState.ENQUEUED,
    ExecutionState.PROCESSING,
    ExecutionState.FAILED,
)
_SHOWN = ("planned_at", "state", "triggered_by", "started_at", "ended_at")
Buckets = dict[int, Figures]


def collect_series(connection: sa.Connection, query: SeriesQuery, without: frozenset[str]) -> Wire:
    """`buckets`, oldest first, empty ones too; `isCapped` and `examinedFrom`.

    Without any filter the counts by slots are read, and executions that have not ended; else the newest
    10,000 executions of the span: where there are more, nothing is known of what was planned before
    `examinedFrom`.
    """
    buckets: Buckets = {place: Figures() for place in range((query.last - query.first) // query.width + 1)}
    examined_from = None
    if _is_whole(query.executions):
        _add_slots(connection, query, buckets)
        _add_live(connection, query, without, buckets)
    else:
        examined_from = _add_executions(connection, query, without, buckets)
    return {
        "isCapped": examined_from is not None,
        "examinedFrom": None if examined_from is None else rfc3339(examined_from),
        "buckets": [
            _bucket_wire(query.first + place * query.width, figures) for place, figures in buckets.items()
        ],
    }


def _is_whole(query: ExecutionQuery) -> bool:
    """Whether all executions of the tenant are asked for."""
    span = (query.planned_from, query.planned_to)
    return query == ExecutionQuery(tenant=query.tenant, planned_from=span[0], planned_to=span[1])


def _add_slots(connection: sa.Connection, query: SeriesQuery, buckets: Buckets) -> None:
    table = statistic_slots.c
    slots = query.width // SLOT
    place = ((table.slot - query.first // SLOT) // slots).label("place")
    found = (
        sa.select(place, table.figure, table.bucket, table.executions)
        .where(table.slot.between(query.first // SLOT, query.last // SLOT))
        .where(table.tenant == query.executions.tenant)
        .subquery("found")
    )
    key = (found.c.place, found.c.figure, found.c.bucket)
    number = sa.cast(sa.func.sum(found.c.executions), sa.BigInteger)
    grouped = sa.select(*key, number.label("number")).group_by(*key)
    for at, figure, bucket, count in read_lists(connection, grouped):
        # Each comes once: to add to what is not there yet takes three times as long.
        if figure == LATENESS:
            buckets[at].lateness[bucket] = count
        elif figure == DURATION:
            buckets[at].duration[bucket] = count
        else:
            add(buckets[at].states, figure, count)


def _add_live(
    connection: sa.Connection, query: SeriesQuery, without: frozenset[str], buckets: Buckets
) -> None:
    """Executions that have not ended: few, and found by the index of states."""
    table = executions.c
    found = (
        sa.select(table.planned_at, table.state)
        .where(table.tenant == query.executions.tenant, NOT_SUCCEEDED)
        .where(table.state.in_([state.value for state in LIVE]), table.job_id.not_in(without))
        .where(Unindexed(table.planned_at).between(query.first, query.last))
        .limit(MOST_EXAMINED)
    )
    for planned_at, state in read_lists(connection, found):
        add(buckets[(planned_at - query.first) // query.width].states, state)


def _add_executions(
    connection: sa.Connection, query: SeriesQuery, without: frozenset[str], buckets: Buckets
) -> int | None:
    """Adds those that fit; the oldest planned moment that was looked at, if there are more."""
    wanted = msgspec.structs.replace(query.executions, planned_from=query.first, planned_to=query.last)
    rows = read_lists(connection, select_examined(wanted, without, columns=_SHOWN))
    for planned_at, state, trigger, started_at, ended_at, fits in rows:
        if not fits:
            continue
        bucket = buckets[(planned_at - query.first) // query.width]
        add(bucket.states, state)
        if started_at is not None and ended_at is not None:
            add(bucket.duration, bucket_of(ended_at - started_at))
            if trigger == TriggeredBy.TIMER.value:
                add(bucket.lateness, bucket_of(started_at - planned_at))
    return min(row[0] for row in rows) if len(rows) > MOST_EXAMINED else None


def _bucket_wire(start: int, figures: Figures) -> Wire:
    """The bucket that begins at `start` (wall ms)."""
    return {
        "from": rfc3339(start),
        "byState": figures.states,
        "latenessMs": spread(figures.lateness, (50, 99)),
        "durationMs": spread(figures.duration, (50, 95)),
    }
