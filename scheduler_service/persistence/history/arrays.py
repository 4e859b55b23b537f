"""Puts merged rows into PostgreSQL: one statement a table, each column an array, whatever their number."""

from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from typing import Any

import psycopg
import sqlalchemy as sa

from scheduler_service.persistence.history.coalesce import Row, Rows
from scheduler_service.persistence.history.schema import metadata
from scheduler_service.persistence.history.statements import (
    DELIVERIES,
    ENTRIES,
    EXECUTIONS,
    FIRINGS,
    Upsert,
)

# So many rows make a statement: what one holds in memory stays far from the protocol's 1 GiB.
CHUNK = 1_000
# The keys of all tables lie among the first four columns, none of which is NULL.
_KEY = itemgetter(slice(0, 4))
_MARK_DROPPED = (
    "UPDATE executions SET dropped=1 FROM unnest(%b::text[],%b::bigint[]) AS d(uid,number) "
    "WHERE executions.uid=d.uid AND executions.execute_number=d.number"
)


def insert_rows(connection: psycopg.Connection[Any], rows: Rows) -> None:
    """Writes all `rows` in the open transaction, always in one order: two nodes wait, none for ever."""
    _insert(connection, EXECUTIONS, rows.executions)
    _insert(connection, ENTRIES, rows.entries)
    _insert(connection, FIRINGS, rows.firings)
    _insert(connection, DELIVERIES, rows.deliveries)


def mark_dropped(connection: psycopg.Connection[Any], dropped: Iterable[tuple[str, int]]) -> None:
    """Marks executions whose detail was given up."""
    found = sorted(dropped)
    if found:
        connection.execute(_MARK_DROPPED, [[uid for uid, _ in found], [number for _, number in found]])


def _insert(connection: psycopg.Connection[Any], upsert: Upsert, rows: Iterable[Row]) -> None:
    ordered = sorted(rows, key=_KEY)
    for start in range(0, len(ordered), CHUNK):
        columns = zip(*ordered[start : start + CHUNK], strict=True)
        connection.execute(_compose(upsert), [list(column) for column in columns])


@cache
def _compose(upsert: Upsert) -> bytes:
    """The statement, the same for any number of rows: the server prepares it once."""
    columns = metadata.tables[upsert.table].c
    arrays = ",".join(f"%b::{_array_of(columns[name].type)}" for name in upsert.columns)
    return upsert.from_arrays(arrays).encode()


def _array_of(kind: sa.types.TypeEngine[Any]) -> str:
    if isinstance(kind, sa.Integer):
        return "bigint[]"
    return "bytea[]" if isinstance(kind, sa.LargeBinary) else "text[]"
