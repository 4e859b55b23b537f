"""The statements that remove history: each works on many rows at once, in the writer's transaction."""

import json
import sqlite3
from collections.abc import Mapping

import msgspec

from scheduler_service.engine.states import TERMINAL

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


class Removed(msgspec.Struct, frozen=True):
    """How much was removed; `entries` are rows of detail that gave way to `max_bytes`."""

    executions: int = 0
    notifications: int = 0
    firings: int = 0
    entries: int = 0

    def plus(self, other: "Removed") -> "Removed":
        """Both together."""
        return Removed(
            self.executions + other.executions,
            self.notifications + other.notifications,
            self.firings + other.firings,
            self.entries + other.entries,
        )


class Trim(msgspec.Struct, frozen=True, kw_only=True):
    """What ended before the moment of its state (None: all that did), but the newest `retain` of each job."""

    retain: int
    before: Mapping[str, int] | None
    tenant: str | None

    def remove(self, place: int, connection: sqlite3.Connection) -> tuple[Removed, int | None]:
        """Looks at the rows behind `place` and what belongs to them; where to go on, None: that was all."""
        last = connection.execute(_LAST, (place, WINDOW)).fetchone()[0]
        if last is None:
            return Removed(), None
        before = dict.fromkeys(TERMINAL, _FAR) if self.before is None else self.before
        connection.execute(_DOOM)
        connection.execute(
            _TRIM,
            {
                "place": place,
                "last": last,
                "retain": self.retain,
                "before": json.dumps(dict(before)),
                "tenant": self.tenant,
            },
        )
        return _remove_doomed(connection), int(last)


def find_lives(jobs: str, tenant: str, connection: sqlite3.Connection) -> list[str]:
    """The lives (uids) of which there are executions; `jobs` is JSON, `[[jobId, last executeNumber], …]`."""
    found = connection.execute(
        "SELECT DISTINCT e.uid FROM json_each(?) j JOIN executions e ON e.tenant = ? "
        "AND e.job_id = json_extract(j.value, '$[0]') "
        "AND e.execute_number <= json_extract(j.value, '$[1]')",
        (jobs, tenant),
    )
    return [str(uid) for (uid,) in found]


def count_lives(uids: str, connection: sqlite3.Connection) -> int:
    """Of how many of these lives (a JSON array of uids) there is history."""
    found = connection.execute(
        "SELECT count(*) FROM (SELECT value AS uid FROM json_each(?)) l WHERE "
        "EXISTS (SELECT 1 FROM executions e WHERE e.uid = l.uid) "
        "OR EXISTS (SELECT 1 FROM firings f WHERE f.uid = l.uid)",
        (uids,),
    )
    return _number(found)


def remove_lives(uids: str, connection: sqlite3.Connection) -> Removed:
    """Removes a part of what there is of these lives; nothing removed: nothing is left."""
    connection.execute(_DOOM)
    connection.execute(
        "INSERT INTO doomed SELECT uid, execute_number, planned_at FROM executions "
        "WHERE uid IN (SELECT value FROM json_each(?)) LIMIT ?",
        (uids, WINDOW),
    )
    removed = _remove_doomed(connection)
    if removed.executions:
        return removed
    # What belongs to no execution: missed firings, and detail or deliveries that came too late.
    rest = [
        connection.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} "  # noqa: S608
            "WHERE uid IN (SELECT value FROM json_each(?)) LIMIT ?)",
            (uids, WINDOW),
        ).rowcount
        for table in ("firings", "deliveries")
    ]
    return Removed(firings=rest[0], notifications=rest[1])


def remove_firings(before: int, connection: sqlite3.Connection) -> int:
    """Removes firings that were recorded before a moment and whose execution is gone, or never was."""
    return connection.execute(
        "DELETE FROM firings WHERE rowid IN (SELECT f.rowid FROM firings f WHERE f.at < ? AND NOT EXISTS "
        "(SELECT 1 FROM executions e WHERE e.uid = f.uid AND e.execute_number = f.execute_number) LIMIT ?)",
        (before, WINDOW),
    ).rowcount


def drop_detail(connection: sqlite3.Connection) -> int:
    """Removes the oldest detail and marks its executions; how many rows it was."""
    connection.execute(_DOOM)
    connection.execute(
        "INSERT INTO doomed SELECT uid, execute_number, id FROM entries ORDER BY id LIMIT ?", (WINDOW // 4,)
    )
    connection.execute(
        "UPDATE executions SET dropped = 1, params = iif(params = x'7b7d', params, NULL), "  # noqa: S608
        "params_complete = iif(params = x'7b7d', params_complete, 0) "
        f"WHERE (uid, execute_number) IN ({_DOOMED})"
    )
    removed = connection.execute("DELETE FROM entries WHERE id IN (SELECT planned_at FROM doomed)").rowcount
    connection.execute("DELETE FROM doomed")
    return removed


def measure(connection: sqlite3.Connection) -> int:
    """The bytes that the history uses of its file."""
    pages, free, size = (
        _number(connection.execute(f"PRAGMA {name}"))
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def give_back(connection: sqlite3.Connection) -> None:
    """Shortens the file by pages that nothing uses."""
    # `execute` would stop after one page; `executescript` runs to the end, and ends the transaction first.
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
