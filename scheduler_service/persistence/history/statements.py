"""The writer's upserts: a repetition does nothing, and what is newer wins."""

from functools import cache

import msgspec


class Upsert(msgspec.Struct, frozen=True):
    """An insert of any number of rows in one statement, in the words that SQLite and PostgreSQL share.

    `rare` are columns that are NULL in most rows.
    """

    table: str
    columns: tuple[str, ...]
    conflict: str
    rare: tuple[str, ...] = ()

    def text(self, rows: int) -> str:
        """The statement for `rows` rows, a question mark for each value."""
        return _compose(self, rows)

    def from_arrays(self, arrays: str) -> str:
        """The statement for rows whose columns are `arrays`, as PostgreSQL has them."""
        return _insert_into(self, f"SELECT * FROM unnest({arrays})")  # noqa: S608


@cache
def _compose(upsert: Upsert, rows: int) -> str:
    row = "(" + ",".join("?" * len(upsert.columns)) + ")"
    return _insert_into(upsert, "VALUES " + ",".join([row] * rows))


def _insert_into(upsert: Upsert, values: str) -> str:
    columns = ",".join(f'"{name}"' for name in upsert.columns)
    return f"INSERT INTO {upsert.table} ({columns}) {values} ON CONFLICT {upsert.conflict}"


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
    rare=("reason", "error", "failure_type", "progress"),
)
ENTRIES = Upsert("entries", ("uid", "execute_number", "first", "last", "payload"), "DO NOTHING")
FIRINGS = Upsert(
    "firings",
    ("uid", "planned_at", "until", "execute_number", "sequence", "at", "outcome", "count", "reason"),
    "(uid,planned_at,until,execute_number) DO UPDATE SET sequence=excluded.sequence,at=excluded.at,"
    'outcome=excluded.outcome,"count"=coalesce(excluded."count",firings."count"),'
    "reason=coalesce(excluded.reason,firings.reason) WHERE excluded.sequence>firings.sequence",
    rare=("reason",),
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
