"""The statements of the writer: few texts for groups of any size, of which none keeps much.

A statement keeps its values until it is given others, also when it is done, and Python keeps the statements.
An UPDATE of several rows takes seven times their size meanwhile, and keeps the pages that it changes or
frees. So what is large is written alone, and what replaces it as well.
"""

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, chain
from typing import Any

import msgspec

from scheduler_service.persistence.sqlite.rows import FACE, MOMENTS, TURN, UNINDEXED

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Rows of one statement: few texts serve groups of any size, far below SQLite's 32,766 parameters."""
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
    """Writes `rows`, 256 at a time; where no size fits, the last row is written again up to the next size.

    For each statement this thread has to win the interpreter back from a busy event loop, up to 5 ms.
    """
    start = 0
    while start < len(rows):
        part = rows[start : start + SIZES[-1]]
        blob = shape.blob
        if blob is not None:
            sizes = [len(row[blob] or b"") for row in part]
            if sum(sizes) > STATEMENT_BYTES:
                part = part[: bisect_right(list(accumulate(sizes)), STATEMENT_BYTES)]
            if not part:
                put_row(connection, shape, rows[start])
                start += 1
                continue
        start += len(part)
        count = SIZES[bisect_left(SIZES, len(part))]
        values = list(chain.from_iterable(part))
        for _ in range(count - len(part)):
            values += part[-1]
        connection.execute(write_text(shape, count), values)


def put_row(connection: sqlite3.Connection, shape: Shape, row: tuple[Any, ...]) -> None:
    """Writes one row by a statement of its own, which has none of its values afterwards."""
    connection.execute(shape.single, (*row, 1))
    connection.execute(shape.single, (*(None for _ in row), 0))  # does nothing: it is given other values


def _put_into(table: str, columns: Sequence[str], blob: str) -> Shape:
    head, width = f"INSERT OR REPLACE INTO {table} ({', '.join(columns)})", len(columns)
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
DROP_REMEMBERED = Shape("DELETE FROM remembered WHERE job_id IN (VALUES", 1, ")")
PUT_META = Shape("INSERT OR REPLACE INTO meta (key, value) VALUES", 2)
PRUNE_REMEMBERED = (
    "DELETE FROM remembered WHERE rowid IN "
    "(SELECT rowid FROM remembered WHERE created_at < ? ORDER BY created_at LIMIT 2000)"
)
