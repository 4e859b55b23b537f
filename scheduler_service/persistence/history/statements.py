"""The writer's upserts: a repetition does nothing, and what is newer wins."""

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.persistence.audit.lines import LINES
from scheduler_service.persistence.history.coalesce import Rows
from scheduler_service.persistence.history.day_counts import count_ended, has_ended
from scheduler_service.persistence.history.schema import (
    deliveries,
    entries,
    executions,
    firings,
    statistic_cells,
    statistic_slots,
)
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Changes, Row, Upsert, json_rows, overwrite


class Repetition(Exception):
    """Some of the executions were written before: which ones, `write_singly` finds."""


WriteExecutions = Callable[[Dialect, sa.Connection, Sequence[Row]], Sequence[Row]]
"""Writes rows of `executions`; those that were new, or newer than what was there."""


def insert_rows(
    dialect: Dialect,
    connection: sa.Connection,
    rows: Rows,
    *,
    write_executions: WriteExecutions,
    system_jobs: Collection[str] = (),
) -> None:
    """Writes all `rows` in the open transaction, table by table: of two nodes one waits, never both.

    Each execution that ends with this is added to the statistics. Raises Repetition: roll back.
    """
    written = write_executions(dialect, connection, rows.executions)
    cells, slots = count_ended(written, system_jobs)
    for upsert, found in (
        (ENTRIES, rows.entries),
        (FIRINGS, rows.firings),
        (DELIVERIES, rows.deliveries),
        (CELLS, cells),
        (SLOTS, slots),
        (LINES, rows.audit),
    ):
        dialect.insert_many(connection, upsert, found)


def write_together(dialect: Dialect, connection: sa.Connection, rows: Sequence[Row]) -> Sequence[Row]:
    """Writes all by few statements. Raises Repetition where one was there that may have been counted."""
    written = dialect.insert_many(connection, EXECUTIONS, rows)
    if written < len(rows) and any(map(has_ended, rows)):
        raise Repetition
    return rows


def write_singly(dialect: Dialect, connection: sa.Connection, rows: Sequence[Row]) -> Sequence[Row]:
    """Writes one after the other, in the order of their keys: slow, but says which of them were new."""
    ordered = sorted(rows, key=lambda row: row[:2])
    return [row for row in ordered if dialect.insert_many(connection, EXECUTIONS, [row])]


def mark_dropped(dialect: Dialect, connection: sa.Connection, dropped: Iterable[tuple[str, int]]) -> None:
    """Marks executions whose detail was dropped before it was written."""
    keys = sorted(dropped)
    if keys:
        table, of = executions.c, json_rows(sa.literal(msgspec.json.encode(keys).decode())).c
        is_one = dialect.among((table.uid, table.execute_number), (of.name, of.number))
        connection.execute(sa.update(executions).values(dropped=1).where(is_one))


def _columns(table: sa.Table, *but: str) -> tuple[str, ...]:
    """The columns in the order of the schema, which is that of `Rows`."""
    return tuple(column.name for column in table.c if column.name not in but)


def _key(table: sa.Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


def _add(table: sa.Table, *columns: str) -> Changes:
    """What is new is added to what is there."""
    return tuple((name, f'{table.name}."{name}"+excluded."{name}"') for name in columns)


EXECUTIONS = Upsert(
    executions,
    _columns(executions, "dropped"),
    _key(executions),
    overwrite(*_columns(executions, "uid", "execute_number", "job_id", "tenant", "dropped")),
    # An execution ends once, and is counted then: a row that has ended stays as it is.
    guard="excluded.sequence>executions.sequence AND executions.ended_at IS NULL",
    rare=("reason", "error", "failure_type", "progress"),
)
ENTRIES = Upsert(entries, _columns(entries, "id"), ("uid", "execute_number", "first", "last"))
FIRINGS = Upsert(
    firings,
    _columns(firings),
    _key(firings),
    (
        *overwrite("sequence", "at", "outcome"),
        ("count", 'coalesce(excluded."count",firings."count")'),
        ("reason", "coalesce(excluded.reason,firings.reason)"),
    ),
    guard="excluded.sequence>firings.sequence",
    rare=("reason",),
)
DELIVERIES = Upsert(
    deliveries,
    _columns(deliveries),
    _key(deliveries),
    (
        *overwrite("state", "at", "tries", "url", "payload"),
        ("given_up_at", "coalesce(deliveries.given_up_at,excluded.given_up_at)"),
    ),
    guard="(excluded.tries,excluded.at)>=(deliveries.tries,deliveries.at)",
)
CELLS = Upsert(
    statistic_cells,
    _columns(statistic_cells),
    _key(statistic_cells),
    _add(statistic_cells, "executions", "attempts", "lateness_ms", "duration_ms"),
)
SLOTS = Upsert(
    statistic_slots, _columns(statistic_slots), _key(statistic_slots), _add(statistic_slots, "executions")
)
