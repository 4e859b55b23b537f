"""Executions by buckets of time, for charts: states, lateness and durations (SPEC section 10)."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.execution import ExecutionState, TriggeredBy
from scheduler_service.domain.moments import rfc3339
from scheduler_service.persistence.history.buckets import bucket_of, middle_of, percentile
from scheduler_service.persistence.history.examination import MOST_EXAMINED, select_examined
from scheduler_service.persistence.history.queries import ExecutionQuery, SeriesQuery, Wire
from scheduler_service.persistence.history.schema import NOT_SUCCEEDED, executions, statistic_slots
from scheduler_service.persistence.history.slot_counts import DURATION, LATENESS, SLOT
from scheduler_service.persistence.sql.expressions import JsonLists, Unindexed

LIVE = (
    ExecutionState.SCHEDULED,
    ExecutionState.ENQUEUED,
    ExecutionState.PROCESSING,
    ExecutionState.FAILED,
)
_SHOWN = ("planned_at", "state", "triggered_by", "started_at", "ended_at")


class Bucket(msgspec.Struct):
    """What is counted in a bucket of time; lateness and durations by `buckets`."""

    states: Counter[str] = msgspec.field(default_factory=Counter)
    lateness: Counter[int] = msgspec.field(default_factory=Counter)
    duration: Counter[int] = msgspec.field(default_factory=Counter)

    def wire(self, start: int) -> Wire:
        """The bucket that begins at `start` (wall ms), in wire form."""
        return {
            "from": rfc3339(start),
            "byState": dict(self.states),
            "latenessMs": _spread(self.lateness, (50, 99)),
            "durationMs": _spread(self.duration, (50, 95)),
        }


Buckets = dict[int, Bucket]


def collect_series(connection: sa.Connection, query: SeriesQuery, without: frozenset[str]) -> Wire:
    """`buckets`, oldest first, empty ones too; `isCapped` and `examinedFrom`.

    Without any filter the counts by slots are read, and executions that have not ended; else the newest
    10,000 executions of the span: where there are more, nothing is known of what was planned before
    `examinedFrom`.
    """
    buckets: Buckets = {place: Bucket() for place in range((query.last - query.first) // query.width + 1)}
    examined_from = None
    if _is_whole(query.executions):
        _add_slots(connection, query, buckets)
        _add_live(connection, query, without, buckets)
    else:
        examined_from = _add_executions(connection, query, without, buckets)
    return {
        "isCapped": examined_from is not None,
        "examinedFrom": None if examined_from is None else rfc3339(examined_from),
        "buckets": [bucket.wire(query.first + place * query.width) for place, bucket in buckets.items()],
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
    grouped = sa.select(*key, number.label("number")).group_by(*key).subquery("grouped")
    for at, figure, bucket, count in _read(connection, sa.select(JsonLists(*grouped.c))):
        # Each comes once: to add to what is not there yet takes three times as long.
        if figure == LATENESS:
            buckets[at].lateness[bucket] = count
        elif figure == DURATION:
            buckets[at].duration[bucket] = count
        else:
            buckets[at].states[figure] += count


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
        .subquery("found")
    )
    for planned_at, state in _read(connection, sa.select(JsonLists(*found.c))):
        buckets[(planned_at - query.first) // query.width].states[state] += 1


def _add_executions(
    connection: sa.Connection, query: SeriesQuery, without: frozenset[str], buckets: Buckets
) -> int | None:
    """Adds those that fit; the oldest planned moment that was looked at, if there are more."""
    wanted = msgspec.structs.replace(query.executions, planned_from=query.first, planned_to=query.last)
    found = select_examined(wanted, without, columns=_SHOWN).subquery("found")
    rows = _read(connection, sa.select(JsonLists(*found.c)))
    for planned_at, state, trigger, started_at, ended_at, fits in rows:
        if not fits:
            continue
        bucket = buckets[(planned_at - query.first) // query.width]
        bucket.states[state] += 1
        if started_at is not None and ended_at is not None:
            bucket.duration[bucket_of(ended_at - started_at)] += 1
            if trigger == TriggeredBy.TIMER.value:
                bucket.lateness[bucket_of(started_at - planned_at)] += 1
    return min(row[0] for row in rows) if len(rows) > MOST_EXAMINED else None


def _read(connection: sa.Connection, selection: sa.Select[Any]) -> list[Any]:
    """Rows that come as one JSON text."""
    found: list[Any] = msgspec.json.decode(connection.execute(selection).scalar_one() or "[]")
    return found


def _spread(counts: Counter[int], percentiles: Iterable[int]) -> Wire:
    """Percentiles and the largest in ms; None where there is nothing to judge."""
    found: Wire = {f"p{percent}": percentile(counts, percent) for percent in percentiles}
    return found | {"max": middle_of(max(counts)) if counts else None}
