"""The statements of the writer: few texts for groups of any size, of which none keeps much.

A statement keeps its values until it is given others, also when it is done, and Python keeps the statements.
An UPDATE of several rows takes seven times their size meanwhile, and keeps the pages that it changes or
frees. So what is large is written alone, and what replaces it as well.
"""

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from scheduler_service.persistence.sqlite.rows import FACE, MOMENTS, TURN, UNINDEXED

MAX_ROWS = 256
"""Rows of one statement: their parameters stay far below SQLite's limit of 32,766."""
STATEMENT_BYTES = 256 << 10
"""So many bytes of blobs a statement for several rows has at most."""


class Shape(msgspec.Struct, frozen=True):
    """A statement over any number of rows of `width` values: `head`, the rows, `tail`.

    `blob` is the place of the value that may be large (None: none may). `single` is a statement for one row
    alone, that does nothing unless the value after those of the row is 1.
    """

    head: str
    width: int
    tail: str = ""
    blob: int | None = None
    single: str = ""


@cache
def write_text(shape: Shape, count: int) -> str:
    """The statement of `shape` over `count` rows."""
    row = f"({', '.join('?' * shape.width)})"
    return f"{shape.head} {', '.join([row] * count)} {shape.tail}"


def put_rows(connection: sqlite3.Connection, shape: Shape, rows: Sequence[tuple[Any, ...]]) -> None:
    """Writes `rows` by statements of 256, 128, 64 … rows, so that few texts serve groups of any size."""
    start = 0
    while start < len(rows):
        count = min(MAX_ROWS, 1 << ((len(rows) - start).bit_length() - 1))
        part = rows[start : start + count]
        blob = shape.blob
        if blob is not None:
            while (size := sum([len(row[blob] or b"") for row in part])) > STATEMENT_BYTES and count > 1:
                count >>= 1
                part = part[:count]
            if size > STATEMENT_BYTES:
                put_row(connection, shape, part[0])
                start += 1
                continue
        connection.execute(write_text(shape, count), list(chain.from_iterable(part)))
        start += count


def put_row(connection: sqlite3.Connection, shape: Shape, row: tuple[Any, ...]) -> None:
    """Writes one row by a statement of its own, which has none of its values afterwards."""
    connection.execute(shape.single, (*row, 1))
    connection.execute(shape.single, (*(None for _ in row), 0))  # does nothing: it is given other values


def _put_into(table: str, columns: Sequence[str], blob: str, verb: str = "INSERT OR REPLACE") -> Shape:
    head, width = f"{verb} INTO {table} ({', '.join(columns)})", len(columns)
    single = f"{head} {_given(width)} WHERE ?{width + 1}"
    return Shape(f"{head} VALUES", width, blob=columns.index(blob), single=single)


def _given(width: int) -> str:
    return f"SELECT {', '.join(f'?{place}' for place in range(1, width + 1))}"


def _drop_pairs(table: str, number: str) -> Shape:
    """Deletes rows by their uid and `number`."""
    # SQLite searches the whole table for a pair in a list; in a join it looks each pair up.
    return Shape(
        "WITH gone (of, at) AS (VALUES",
        2,
        f") DELETE FROM {table} WHERE rowid IN (SELECT kept.rowid FROM gone CROSS JOIN {table} AS kept "  # noqa: S608
        f"ON kept.uid = gone.of AND kept.{number} = gone.at)",
    )


def _change_jobs(columns: Sequence[str], *, empty: Sequence[str] = ()) -> Shape:
    """Changes `columns` of jobs and sets those of `empty` to NULL: other columns and their indexes stay."""
    emptied = [f"{name} = NULL" for name in empty]
    changes = [f"{name} = turned.new_{name}" for name in columns] + emptied
    given = [f"{name} = ?{place}" for place, name in enumerate(columns, 2)] + emptied
    width = 1 + len(columns)
    return Shape(
        f"WITH turned (id, {', '.join(f'new_{name}' for name in columns)}) AS (VALUES",
        width,
        f") UPDATE jobs SET {', '.join(changes)} FROM turned WHERE jobs.job_id = turned.id",  # noqa: S608
        blob=1 + columns.index("document"),
        single=f"UPDATE jobs SET {', '.join(given)} WHERE job_id = ?1 AND ?{width + 1}",  # noqa: S608
    )


def _put_jobs() -> Shape:
    columns = ("job_id", "face", *FACE, *TURN)
    head, width = f"INSERT INTO jobs ({', '.join(columns)})", len(columns)
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns[1:])
    tail = f"ON CONFLICT (job_id) DO UPDATE SET {changes}"
    return Shape(
        f"{head} VALUES",
        width,
        tail,
        blob=columns.index("document"),
        single=f"{head} {_given(width)} WHERE ?{width + 1} {tail}",
    )


PUT_JOBS = _put_jobs()
UPDATE_UNINDEXED = _change_jobs(UNINDEXED)
UPDATE_TURN = _change_jobs(TURN)
FINISH_JOBS = _change_jobs(("face", "state", *UNINDEXED), empty=MOMENTS)
DROP_JOBS = Shape("DELETE FROM jobs WHERE job_id IN (VALUES", 1, ")")
PUT_DEFINITIONS = _put_into("definitions", ("uid", "revision", "job_id", "created_at", "text"), "text")
CLEAR_DEFINITIONS = _drop_pairs("definitions", "revision")
DROP_DEFINITIONS = Shape("DELETE FROM definitions WHERE job_id IN (VALUES", 1, ")")
PUT_DELIVERIES = _put_into("deliveries", ("delivery_id", "content"), "content")
DROP_DELIVERIES = Shape("DELETE FROM deliveries WHERE delivery_id IN (VALUES", 1, ")")
PUT_BATCHES = _put_into("unwritten", ("uid", "sequence", "job_id", "tenant", "at", "records"), "records")
DROP_BATCHES = _drop_pairs("unwritten", "sequence")
PUT_REMEMBERED = _put_into(
    "remembered", ("scope", "key", "created_at", "digest", "answer", "job_id"), "answer"
)
ADD_REMEMBERED = (
    "INSERT INTO remembered (scope, key, created_at, digest, answer, job_id) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (scope, key) DO UPDATE SET created_at = excluded.created_at, digest = excluded.digest, "
    "answer = excluded.answer, job_id = excluded.job_id WHERE remembered.created_at < ?"
)
DROP_REMEMBERED = Shape("DELETE FROM remembered WHERE job_id IN (VALUES", 1, ")")
PUT_PAGES = _put_into("journal", ("page", "content"), "content", "INSERT")
DROP_PAGES = Shape("DELETE FROM journal WHERE page IN (VALUES", 1, ")")
PUT_META = Shape("INSERT OR REPLACE INTO meta (key, value) VALUES", 2)
PRUNE_REMEMBERED = (
    "DELETE FROM remembered WHERE rowid IN "
    "(SELECT rowid FROM remembered WHERE created_at < ? ORDER BY created_at LIMIT 2000)"
)
