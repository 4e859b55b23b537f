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
CHUNK = 256


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
    """By statements of 256, 128, 64 … rows, so that few texts serve loads of any size."""
    start = 0
    while start < len(rows):
        count = min(CHUNK, 1 << ((len(rows) - start).bit_length() - 1))
        values = [value for row in rows[start : start + count] for value in row]
        connection.execute(upsert.text(count), values)
        start += count
