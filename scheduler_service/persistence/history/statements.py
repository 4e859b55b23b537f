"""The writer's upserts: a repetition does nothing, and what is newer wins."""

from functools import cache

import msgspec


class Upsert(msgspec.Struct, frozen=True):
    """An insert of any number of rows in one statement, in the words that SQLite and PostgreSQL share."""

    table: str
    columns: tuple[str, ...]
    conflict: str
    row: str = ""

    def text(self, rows: int, placeholder: str = "?") -> str:
        """The statement for `rows` rows."""
        return _compose(self, rows, placeholder)


@cache
def _compose(upsert: Upsert, rows: int, placeholder: str) -> str:
    row = upsert.row or "(" + ",".join("?" * len(upsert.columns)) + ")"
    values = ",".join([row.replace("?", placeholder)] * rows)
    columns = ",".join(f'"{name}"' for name in upsert.columns)
    return f"INSERT INTO {upsert.table} ({columns}) VALUES {values} ON CONFLICT {upsert.conflict}"  # noqa: S608


def _overwrite(columns: tuple[str, ...]) -> str:
    return ",".join(f'"{name}"=excluded."{name}"' for name in columns)


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
    "executions",
    ("uid", "execute_number", "job_id", "tenant", *_LATEST),
    f"(uid,execute_number) DO UPDATE SET {_overwrite(_LATEST)} WHERE excluded.sequence>executions.sequence",
)
ENTRIES = Upsert("entries", ("uid", "execute_number", "first", "last", "payload"), "DO NOTHING")
FIRINGS = Upsert(
    "firings",
    ("uid", "planned_at", "until", "execute_number", "sequence", "at", "outcome", "count", "reason"),
    "(uid,planned_at,until,execute_number) DO UPDATE SET sequence=excluded.sequence,at=excluded.at,"
    'outcome=excluded.outcome,"count"=coalesce(excluded."count",firings."count"),'
    "reason=coalesce(excluded.reason,firings.reason) WHERE excluded.sequence>firings.sequence",
)
DELIVERIES = Upsert(
    "deliveries",
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
MARK_DROPPED = "UPDATE executions SET dropped=1 WHERE uid=? AND execute_number=?"
