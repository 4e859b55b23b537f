"""Removes history from SQLite; `dialect.Removal` says what each step promises."""

import json
import sqlite3
from collections.abc import Mapping, Sequence

from scheduler_service.engine.states import TERMINAL
from scheduler_service.persistence.history.dialect import Removed, Trim

# How many rows one step looks at: longer ones keep the writer from its load.
WINDOW = 2_000
# Pages that go back to the disk at once.
PAGES = 2_000

_DOOM = "CREATE TEMP TABLE IF NOT EXISTS doomed (uid, execute_number, planned_at)"
_DOOMED = "SELECT uid, execute_number FROM doomed"
_LAST = "SELECT max(rowid) FROM (SELECT rowid FROM executions WHERE rowid > ? ORDER BY rowid LIMIT ?)"
_TRIM = """
INSERT INTO doomed
SELECT e.uid, e.execute_number, e.planned_at FROM executions e
WHERE e.rowid > :place AND e.rowid <= :last AND (:tenant IS NULL OR e.tenant = :tenant)
  AND e.state IN (SELECT key FROM json_each(:before))
  AND coalesce(e.ended_at, e.created_at) < (SELECT value FROM json_each(:before) WHERE key = e.state)
  AND (:retain = 0 OR EXISTS (
    SELECT 1 FROM executions n WHERE n.tenant = e.tenant AND n.job_id = e.job_id
      AND n.created_at >= e.created_at
      AND (n.created_at, n.execute_number) > (e.created_at, e.execute_number)
    LIMIT 1 OFFSET max(:retain - 1, 0)))
"""
_FAR = 1 << 62


class SqliteRemoval:
    """dialect.Removal over SQLite; a mark is the last `rowid` that a walk has seen."""

    def trim(
        self, trim: Trim, mark: int | None, connection: sqlite3.Connection
    ) -> tuple[Removed, int | None]:
        """Looks at the rows behind `mark` and what belongs to them; where to go on, None: that was all."""
        place = mark or 0
        last = connection.execute(_LAST, (place, WINDOW)).fetchone()[0]
        if last is None:
            return Removed(), None
        before = dict.fromkeys(TERMINAL, _FAR) if trim.before is None else trim.before
        connection.execute(_DOOM)
        connection.execute(
            _TRIM,
            {
                "place": place,
                "last": last,
                "retain": trim.retain,
                "before": json.dumps(dict(before)),
                "tenant": trim.tenant,
            },
        )
        return _remove_doomed(connection), int(last)

    def find_lives(self, jobs: Mapping[str, int], tenant: str, connection: sqlite3.Connection) -> list[str]:
        """The lives (uids) with executions up to the last `executeNumber` of each job."""
        found = connection.execute(
            "SELECT DISTINCT e.uid FROM json_each(?) j JOIN executions e ON e.tenant = ? "
            "AND e.job_id = json_extract(j.value, '$[0]') "
            "AND e.execute_number <= json_extract(j.value, '$[1]')",
            (json.dumps(list(jobs.items())), tenant),
        )
        return [str(uid) for (uid,) in found]

    def count_lives(self, uids: Sequence[str], connection: sqlite3.Connection) -> int:
        """Of how many of these lives there is history."""
        found = connection.execute(
            "SELECT count(*) FROM (SELECT value AS uid FROM json_each(?)) l WHERE "
            "EXISTS (SELECT 1 FROM executions e WHERE e.uid = l.uid) "
            "OR EXISTS (SELECT 1 FROM firings f WHERE f.uid = l.uid)",
            (json.dumps(uids),),
        )
        return _number(found)

    def remove_lives(self, uids: Sequence[str], connection: sqlite3.Connection) -> Removed:
        """Removes a part of what there is of these lives; nothing removed: nothing is left."""
        wanted = json.dumps(uids)
        connection.execute(_DOOM)
        connection.execute(
            "INSERT INTO doomed SELECT uid, execute_number, planned_at FROM executions "
            "WHERE uid IN (SELECT value FROM json_each(?)) LIMIT ?",
            (wanted, WINDOW),
        )
        removed = _remove_doomed(connection)
        if removed.executions:
            return removed
        # What belongs to no execution: missed firings, and detail or deliveries that came too late.
        rest = [
            connection.execute(
                f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} "  # noqa: S608
                "WHERE uid IN (SELECT value FROM json_each(?)) LIMIT ?)",
                (wanted, WINDOW),
            ).rowcount
            for table in ("firings", "deliveries")
        ]
        return Removed(firings=rest[0], notifications=rest[1])

    def remove_firings(self, before: int, connection: sqlite3.Connection) -> int:
        """Removes firings that were recorded before a moment and whose execution is gone, or never was."""
        return connection.execute(
            "DELETE FROM firings WHERE rowid IN (SELECT f.rowid FROM firings f WHERE f.at < ? AND NOT EXISTS "
            "(SELECT 1 FROM executions e WHERE e.uid = f.uid AND e.execute_number = f.execute_number) "
            "LIMIT ?)",
            (before, WINDOW),
        ).rowcount

    def drop_detail(self, connection: sqlite3.Connection) -> tuple[int, int]:
        """Removes the oldest detail and marks its executions: how many rows, and bytes, that were."""
        used = self.measure(connection)
        connection.execute(_DOOM)
        connection.execute(
            "INSERT INTO doomed SELECT uid, execute_number, id FROM entries ORDER BY id LIMIT ?",
            (WINDOW // 4,),
        )
        connection.execute(
            "UPDATE executions SET dropped = 1, "  # noqa: S608
            "params = iif(params = x'7b7d', params, NULL), "
            "params_complete = iif(params = x'7b7d', params_complete, 0) "
            f"WHERE (uid, execute_number) IN ({_DOOMED})"
        )
        gone = connection.execute("DELETE FROM entries WHERE id IN (SELECT planned_at FROM doomed)").rowcount
        connection.execute("DELETE FROM doomed")
        return gone, used - self.measure(connection)

    def measure(self, connection: sqlite3.Connection) -> int:
        """The bytes that the history uses of its file."""
        pages, free, size = (
            _number(connection.execute(f"PRAGMA {name}"))
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Shortens the file by pages that nothing uses."""
        # `execute` would stop after one page; `executescript` runs to the end, and ends the transaction.
        connection.executescript(f"PRAGMA incremental_vacuum({PAGES})")


def _remove_doomed(connection: sqlite3.Connection) -> Removed:
    pair = f"(uid, execute_number) IN ({_DOOMED})"
    notifications = connection.execute(f"DELETE FROM deliveries WHERE {pair}").rowcount  # noqa: S608
    connection.execute(f"DELETE FROM entries WHERE {pair}")  # noqa: S608
    firings = connection.execute(
        "DELETE FROM firings WHERE rowid IN (SELECT f.rowid FROM doomed d JOIN firings f "
        "ON f.uid = d.uid AND f.planned_at = d.planned_at AND f.execute_number = d.execute_number)"
    ).rowcount
    executions = connection.execute(f"DELETE FROM executions WHERE {pair}").rowcount  # noqa: S608
    connection.execute("DELETE FROM doomed")
    return Removed(executions, notifications, firings)


def _number(cursor: sqlite3.Cursor) -> int:
    return int(cursor.fetchone()[0])
