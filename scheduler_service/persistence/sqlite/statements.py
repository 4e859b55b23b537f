"""The statements of the writer: few texts, each over many rows."""

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from scheduler_service.persistence.sqlite.rows import FACE, MOMENTS, TURN, UNINDEXED

MAX_ROWS = 256
"""Rows of one statement: their parameters stay far below SQLite's limit of 32,766."""


class Shape(msgspec.Struct, frozen=True):
    """A statement over any number of rows of `width` values: `head`, the rows, `tail`."""

    head: str
    width: int
    tail: str = ""


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
        connection.execute(write_text(shape, count), list(chain.from_iterable(part)))
        start += count


def _put_into(table: str, columns: Sequence[str], tail: str = "") -> Shape:
    return Shape(f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES", len(columns), tail)


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
    changes = [f"{name} = turned.new_{name}" for name in columns] + [f"{name} = NULL" for name in empty]
    return Shape(
        f"WITH turned (id, {', '.join(f'new_{name}' for name in columns)}) AS (VALUES",
        1 + len(columns),
        f") UPDATE jobs SET {', '.join(changes)} FROM turned WHERE jobs.job_id = turned.id",  # noqa: S608
    )


_JOB = ("job_id", "face", *FACE, *TURN)
PUT_JOBS = Shape(
    f"INSERT INTO jobs ({', '.join(_JOB)}) VALUES",
    len(_JOB),
    f"ON CONFLICT (job_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _JOB[1:])}",
)
UPDATE_UNINDEXED = _change_jobs(UNINDEXED)
UPDATE_TURN = _change_jobs(TURN)
FINISH_JOBS = _change_jobs(("face", "state", *UNINDEXED), empty=MOMENTS)
DROP_JOBS = Shape("DELETE FROM jobs WHERE job_id IN (VALUES", 1, ")")
PUT_DEFINITIONS = _put_into("definitions", ("uid", "revision", "job_id", "created_at", "text"))
CLEAR_DEFINITIONS = _drop_pairs("definitions", "revision")
DROP_DEFINITIONS = Shape("DELETE FROM definitions WHERE job_id IN (VALUES", 1, ")")
PUT_DELIVERIES = _put_into("deliveries", ("delivery_id", "content"))
DROP_DELIVERIES = Shape("DELETE FROM deliveries WHERE delivery_id IN (VALUES", 1, ")")
PUT_BATCHES = _put_into("unwritten", ("uid", "sequence", "job_id", "tenant", "at", "records"))
DROP_BATCHES = _drop_pairs("unwritten", "sequence")
PUT_REMEMBERED = _put_into("remembered", ("scope", "key", "created_at", "digest", "answer", "job_id"))
DROP_REMEMBERED = Shape("DELETE FROM remembered WHERE job_id IN (VALUES", 1, ")")
PUT_PAGES = "INSERT INTO journal (page, content) VALUES (?, ?)"
DROP_PAGES = Shape("DELETE FROM journal WHERE page IN (VALUES", 1, ")")
PUT_META = _put_into("meta", ("key", "value"))
PRUNE_REMEMBERED = (
    "DELETE FROM remembered WHERE rowid IN "
    "(SELECT rowid FROM remembered WHERE created_at < ? ORDER BY created_at LIMIT 2000)"
)
