"""Puts merged rows into the tables by the raw connection: hot rows do not pass through SQLAlchemy.

The driver takes a number, a text or a bytearray as it is. Of everything else, None and bytes too, it first
asks whether it wants to be adapted: that takes longer than writing it, and nobody else has the interpreter
meanwhile. So rows bring bytearrays, and columns that are mostly NULL are left out where they are.
"""

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec

from scheduler_service.persistence.history.coalesce import Row, Rows
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
    _insert_briefly(connection, EXECUTIONS, rows.executions)
    _insert(connection, ENTRIES, rows.entries)
    _insert_briefly(connection, FIRINGS, rows.firings)
    _insert(connection, DELIVERIES, rows.deliveries)


def mark_dropped(connection: sqlite3.Connection, dropped: Iterable[tuple[str, int]]) -> None:
    """Marks executions whose detail was given up."""
    connection.executemany(MARK_DROPPED, dropped)


def _insert_briefly(connection: sqlite3.Connection, upsert: Upsert, rows: Sequence[Row]) -> None:
    """Rows without any of the rare values by statements that do not name these columns."""
    brief = _without_rare(upsert)
    usual = [row for row in rows if brief.rare_of(row) == brief.nothing]
    _insert(connection, brief.upsert, [brief.others_of(row) for row in usual])
    if len(usual) < len(rows):
        _insert(connection, upsert, [row for row in rows if brief.rare_of(row) != brief.nothing])


def _insert(connection: sqlite3.Connection, upsert: Upsert, rows: Sequence[Row]) -> None:
    """By statements of 256, 128, 64 … rows, so that few texts serve loads of any size."""
    start = 0
    while start < len(rows):
        count = min(CHUNK, 1 << ((len(rows) - start).bit_length() - 1))
        values = list(chain.from_iterable(rows[start : start + count]))
        connection.execute(upsert.text(count), values)
        start += count


class _Brief(msgspec.Struct, frozen=True):
    """A statement without the rare columns, the values of a row of both kinds, and what no rare value is."""

    upsert: Upsert
    others_of: Callable[[Row], Row]
    rare_of: Callable[[Row], Any]
    nothing: Any


@cache
def _without_rare(upsert: Upsert) -> _Brief:
    places = {name: place for place, name in enumerate(upsert.columns)}
    others = tuple(name for name in upsert.columns if name not in upsert.rare)
    rare_of = itemgetter(*(places[name] for name in upsert.rare))
    return _Brief(
        upsert=msgspec.structs.replace(upsert, columns=others, rare=()),
        others_of=itemgetter(*(places[name] for name in others)),
        rare_of=rare_of,
        nothing=rare_of((None,) * len(places)),
    )
