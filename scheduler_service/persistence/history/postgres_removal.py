"""Removes history from PostgreSQL; `dialect.Removal` says what each step promises."""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from scheduler_service.engine.states import TERMINAL
from scheduler_service.persistence.history.dialect import Removed, Trim

# How many rows one step looks at: longer ones keep the writer from its load.
WINDOW = 2_000
# What a row takes beside what varies in it, with its share of the indexes, roughly.
ROW_BYTES = 250

Key = tuple[str, int]
Doomed = Sequence[tuple[str, int, int]]
Connection = psycopg.Connection[Any]

_FIRST: Key = ("", -1)
_LAST = """
SELECT uid, execute_number FROM (
  SELECT uid, execute_number FROM executions WHERE (uid, execute_number) > (%(uid)s, %(number)s)
  ORDER BY uid, execute_number LIMIT %(window)s) seen
ORDER BY uid DESC, execute_number DESC LIMIT 1
"""
_TRIM = """
SELECT e.uid, e.execute_number, e.planned_at FROM executions e
JOIN unnest(%(states)b::text[], %(moments)b::bigint[]) AS b(state, moment) ON b.state = e.state
WHERE (e.uid, e.execute_number) > (%(uid)s, %(number)s)
  AND (e.uid, e.execute_number) <= (%(last_uid)s, %(last_number)s)
  AND (%(tenant)s::text IS NULL OR e.tenant = %(tenant)s::text)
  AND coalesce(e.ended_at, e.created_at) < b.moment
  AND (%(retain)s = 0 OR EXISTS (
    SELECT 1 FROM executions n WHERE n.tenant = e.tenant AND n.job_id = e.job_id
      AND n.created_at >= e.created_at
      AND (n.created_at, n.execute_number) > (e.created_at, e.execute_number)
    LIMIT 1 OFFSET greatest(%(retain)s - 1, 0)))
ORDER BY e.uid, e.execute_number
"""
_FAR = 1 << 62
_PAIRS = "unnest(%b::text[], %b::bigint[]) AS d(uid, number)"


class PostgresRemoval:
    """dialect.Removal over PostgreSQL; a mark is the last key that a walk has seen.

    What was removed is used again, but its space goes back to the disk only as autovacuum finds whole pages
    at a table's end: `measure` counts what the rows hold, not the files.
    """

    def trim(self, trim: Trim, mark: Key | None, connection: Connection) -> tuple[Removed, Key | None]:
        """Looks at the rows behind `mark` and what belongs to them; where to go on, None: that was all."""
        uid, number = mark or _FIRST
        behind = {"uid": uid, "number": number}
        last = connection.execute(_LAST, {**behind, "window": WINDOW}).fetchone()
        if last is None:
            return Removed(), None
        before = dict.fromkeys(TERMINAL, _FAR) if trim.before is None else trim.before
        asked = {
            **behind,
            "last_uid": last[0],
            "last_number": last[1],
            "states": [str(state) for state in before],
            "moments": list(before.values()),
            "tenant": trim.tenant,
            "retain": trim.retain,
        }
        return _remove(connection, connection.execute(_TRIM, asked).fetchall()), (last[0], last[1])

    def find_lives(self, jobs: Mapping[str, int], tenant: str, connection: Connection) -> list[str]:
        """The lives (uids) with executions up to the last `executeNumber` of each job."""
        found = connection.execute(
            f"SELECT DISTINCT e.uid FROM {_PAIRS} JOIN executions e "  # noqa: S608
            "ON e.tenant = %s AND e.job_id = d.uid AND e.execute_number <= d.number",
            [list(jobs), list(jobs.values()), tenant],
        )
        return [str(uid) for (uid,) in found]

    def count_lives(self, uids: Sequence[str], connection: Connection) -> int:
        """Of how many of these lives there is history."""
        return _number(
            connection.execute(
                "SELECT count(*) FROM unnest(%b::text[]) AS l(uid) WHERE "
                "EXISTS (SELECT 1 FROM executions e WHERE e.uid = l.uid) "
                "OR EXISTS (SELECT 1 FROM firings f WHERE f.uid = l.uid)",
                [list(uids)],
            )
        )

    def remove_lives(self, uids: Sequence[str], connection: Connection) -> Removed:
        """Removes a part of what there is of these lives; nothing removed: nothing is left."""
        found = connection.execute(
            "SELECT uid, execute_number, planned_at FROM executions WHERE uid = ANY(%b::text[]) "
            "ORDER BY uid, execute_number LIMIT %s",
            [list(uids), WINDOW],
        )
        removed = _remove(connection, found.fetchall())
        if removed.executions:
            return removed
        # What belongs to no execution: missed firings, and detail or deliveries that came too late.
        rest = [
            connection.execute(
                f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} "  # noqa: S608
                "WHERE uid = ANY(%b::text[]) LIMIT %s))",
                [list(uids), WINDOW],
            ).rowcount
            for table in ("firings", "deliveries")
        ]
        return Removed(firings=rest[0], notifications=rest[1])

    def remove_firings(self, before: int, connection: Connection) -> int:
        """Removes firings that were recorded before a moment and whose execution is gone, or never was."""
        return connection.execute(
            "DELETE FROM firings WHERE ctid = ANY(ARRAY(SELECT f.ctid FROM firings f WHERE f.at < %s "
            "AND NOT EXISTS (SELECT 1 FROM executions e "
            "WHERE e.uid = f.uid AND e.execute_number = f.execute_number) LIMIT %s))",
            [before, WINDOW],
        ).rowcount

    def drop_detail(self, connection: Connection) -> tuple[int, int]:
        """Removes the oldest detail and marks its executions: how many rows, and bytes, that were."""
        gone = connection.execute(
            "DELETE FROM entries WHERE id = ANY(ARRAY(SELECT id FROM entries ORDER BY id LIMIT %s)) "
            "RETURNING uid, execute_number, pg_column_size(payload)",
            [WINDOW // 4],
        ).fetchall()
        keys = sorted({(uid, number) for uid, number, _ in gone})
        connection.execute(
            "UPDATE executions SET dropped = 1, "  # noqa: S608
            r"params = CASE WHEN params = '\x7b7d' THEN params END, "
            r"params_complete = CASE WHEN params = '\x7b7d' THEN params_complete ELSE 0 END "
            f"FROM {_PAIRS} WHERE executions.uid = d.uid AND executions.execute_number = d.number",
            _columns(keys),
        )
        return len(gone), sum(size + ROW_BYTES for _, _, size in gone)

    def measure(self, connection: Connection) -> int:
        """The bytes that the rows hold, roughly: one look at all of them."""
        parts = " + ".join(
            f"(SELECT coalesce(sum({size} + {ROW_BYTES}), 0) FROM {table})"  # noqa: S608
            for table, size in (
                ("executions", "coalesce(pg_column_size(params), 0)"),
                ("entries", "pg_column_size(payload)"),
                ("firings", "0"),
                ("deliveries", "pg_column_size(payload)"),
            )
        )
        return _number(connection.execute(f"SELECT {parts}"))

    def give_back(self, connection: Connection) -> None:
        """Autovacuum does that beside the work."""


def _remove(connection: Connection, doomed: Doomed) -> Removed:
    if not doomed:
        return Removed()
    keys = _columns([(uid, number) for uid, number, _ in doomed])
    notifications = connection.execute(_delete("deliveries"), keys).rowcount
    connection.execute(_delete("entries"), keys)
    firings = connection.execute(
        "DELETE FROM firings f USING unnest(%b::text[], %b::bigint[], %b::bigint[]) AS d(uid, number, at) "
        "WHERE f.uid = d.uid AND f.planned_at = d.at AND f.execute_number = d.number",
        [*keys, [planned_at for _, _, planned_at in doomed]],
    ).rowcount
    executions = connection.execute(_delete("executions"), keys).rowcount
    return Removed(executions, notifications, firings)


def _delete(table: str) -> str:
    return f"DELETE FROM {table} t USING {_PAIRS} WHERE t.uid = d.uid AND t.execute_number = d.number"  # noqa: S608


def _columns(keys: Sequence[Key]) -> list[list[Any]]:
    return [[uid for uid, _ in keys], [number for _, number in keys]]


def _number(cursor: psycopg.Cursor[Any]) -> int:
    found = cursor.fetchone()
    assert found is not None
    return int(found[0])
