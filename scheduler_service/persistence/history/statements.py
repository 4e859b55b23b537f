"""The writer's upserts: a repetition does nothing, and what is newer wins."""

import sqlalchemy as sa

from scheduler_service.persistence.history.coalesce import Rows
from scheduler_service.persistence.history.schema import deliveries, entries, executions, firings
from scheduler_service.persistence.sql.dialect import Dialect
from scheduler_service.persistence.sql.upserts import Upsert, overwrite


def insert_rows(dialect: Dialect, connection: sa.Connection, rows: Rows) -> None:
    """Writes all `rows` in the open transaction, table by table: of two nodes one waits, never both."""
    for upsert, found in (
        (EXECUTIONS, rows.executions),
        (ENTRIES, rows.entries),
        (FIRINGS, rows.firings),
        (DELIVERIES, rows.deliveries),
    ):
        dialect.insert_many(connection, upsert, found)


_LATEST = (
    "sequence",
    "revision",
    "state",
    "triggered_by",
    "planned_at",
    "created_at",
    "started_at",
    "ended_at",
    "reason",
    "error",
    "failure_type",
    "attempt_count",
    "progress",
    "params",
    "params_complete",
)
EXECUTIONS = Upsert(
    executions,
    ("uid", "execute_number", "job_id", "tenant", *_LATEST),
    f"(uid,execute_number) DO UPDATE SET {overwrite(_LATEST)} WHERE excluded.sequence>executions.sequence",
    rare=("reason", "error", "failure_type", "progress"),
)
ENTRIES = Upsert(entries, ("uid", "execute_number", "first", "last", "payload"), "DO NOTHING")
FIRINGS = Upsert(
    firings,
    ("uid", "planned_at", "until", "execute_number", "sequence", "at", "outcome", "count", "reason"),
    "(uid,planned_at,until,execute_number) DO UPDATE SET sequence=excluded.sequence,at=excluded.at,"
    'outcome=excluded.outcome,"count"=coalesce(excluded."count",firings."count"),'
    "reason=coalesce(excluded.reason,firings.reason) WHERE excluded.sequence>firings.sequence",
    rare=("reason",),
)
DELIVERIES = Upsert(
    deliveries,
    (
        "delivery_id",
        "uid",
        "execute_number",
        "request_counts",
        "job_id",
        "tenant",
        "event",
        "name",
        "url",
        "state",
        "created_at",
        "at",
        "tries",
        "payload",
    ),
    "(delivery_id) DO UPDATE SET state=excluded.state,at=excluded.at,tries=excluded.tries,url=excluded.url,"
    "payload=excluded.payload WHERE excluded.tries>deliveries.tries "
    "OR (excluded.tries=deliveries.tries AND excluded.at>=deliveries.at)",
)
