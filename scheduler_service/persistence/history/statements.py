"""The writer's upserts: a repetition does nothing, and what is newer wins."""

import sqlalchemy as sa

from scheduler_service.persistence.history.coalesce import Rows
from scheduler_service.persistence.history.schema import deliveries, entries, executions, firings
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.expressions import Upsert, overwrite


def insert_rows(dialect: Dialect, connection: sa.Connection, rows: Rows) -> None:
    """Writes all `rows` in the open transaction, table by table: of two nodes one waits, never both."""
    for upsert, found in (
        (EXECUTIONS, rows.executions),
        (ENTRIES, rows.entries),
        (FIRINGS, rows.firings),
        (DELIVERIES, rows.deliveries),
    ):
        dialect.insert_many(connection, upsert, found)


def _columns(table: sa.Table, *but: str) -> tuple[str, ...]:
    """The columns in the order of the schema, which is that of `Rows`."""
    return tuple(column.name for column in table.c if column.name not in but)


EXECUTIONS = Upsert(
    executions,
    _columns(executions, "dropped"),
    "(uid,execute_number) DO UPDATE SET "
    + overwrite(_columns(executions, "uid", "execute_number", "job_id", "tenant", "dropped"))
    + " WHERE excluded.sequence>executions.sequence",
    rare=("reason", "error", "failure_type", "progress"),
)
ENTRIES = Upsert(entries, _columns(entries, "id"), "DO NOTHING")
FIRINGS = Upsert(
    firings,
    _columns(firings),
    "(uid,planned_at,until,execute_number) DO UPDATE SET sequence=excluded.sequence,at=excluded.at,"
    'outcome=excluded.outcome,"count"=coalesce(excluded."count",firings."count"),'
    "reason=coalesce(excluded.reason,firings.reason) WHERE excluded.sequence>firings.sequence",
    rare=("reason",),
)
DELIVERIES = Upsert(
    deliveries,
    _columns(deliveries),
    f"(delivery_id) DO UPDATE SET {overwrite(('state', 'at', 'tries', 'url', 'payload'))} "
    "WHERE (excluded.tries,excluded.at)>=(deliveries.tries,deliveries.at)",
)
