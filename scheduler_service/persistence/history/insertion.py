"""Puts merged rows into the tables by the raw connection: hot rows do not pass through SQLAlchemy."""

import sqlite3
from collections.abc import Iterable, Sequence

from scheduler_service.persistence.history.merging import Row, Rows
from scheduler_service.persistence.history.statements import (
    DELIVERIES,
    ENTRIES,
    EXECUTIONS,
    FIRINGS,
    MARK_DROPPED,
    Upsert,
)

# One statement for many rows lets go of the interpreter once, not once a row, and is prepared once.
CHUNK = 128


def insert_rows(connection: sqlite3.Connection, rows: Rows) -> None:
    """Writes all `rows` in the transaction that is open."""
    _insert(connection, EXECUTIONS, rows.executions)
    _insert(connection, ENTRIES, rows.entries)
    _insert(connection, FIRINGS, rows.firings)
    _insert(connection, DELIVERIES, rows.deliveries)


def mark_dropped(connection: sqlite3.Connection, dropped: Iterable[tuple[str, int]]) -> None:
    """Marks executions whose detail was given up."""
    connection.executemany(MARK_DROPPED, dropped)


def _insert(connection: sqlite3.Connection, upsert: Upsert, rows: Sequence[Row]) -> None:
    full = len(rows) - len(rows) % CHUNK
    for start in range(0, full, CHUNK):
        values = [value for row in rows[start : start + CHUNK] for value in row]
        connection.execute(upsert.text(CHUNK), values)
    connection.executemany(upsert.text(1), rows[full:])
