"""How rows leave one file for another: whose each one is; copied there, then deleted here."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import msgspec


class RowMove(msgspec.Struct, frozen=True):
    """What is to be known of a table: the column that tells whose a row is, and how `owner` reads it.

    The owner "" says that the row is no job's. `verb` and `tail` write a row where its like may stand;
    without the column `number`, which each file counts for itself.
    """

    table: str
    column: str
    owner: Callable[[Any], str]
    verb: str = "INSERT OR REPLACE"
    tail: str = ""
    number: str = ""


def find_owners(
    connection: sqlite3.Connection, move: RowMove, after: int, limit: int
) -> list[tuple[int, str]]:
    """The next rows behind the row `after`, each with whose it is; at most `limit`. Raises sqlite3.Error."""
    text = f"SELECT rowid, {move.column} FROM {move.table} WHERE rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608
    try:
        return [(row, move.owner(value)) for row, value in connection.execute(text, (after, limit))]
    except msgspec.DecodeError as error:
        damaged = sqlite3.DatabaseError(f"a row of {move.table} cannot be read: {error}")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error


def copy_rows(
    source: sqlite3.Connection, target: sqlite3.Connection, move: RowMove, rows: Iterable[int]
) -> None:
    """Writes `rows` of `source` into `target`, in the transaction that is open there, one after the other."""
    names = [row[1] for row in source.execute(f"PRAGMA table_info({move.table})") if row[1] != move.number]
    columns, places = ", ".join(names), ", ".join("?" * len(names))
    read = f"SELECT {columns} FROM {move.table} WHERE {_CHOSEN} ORDER BY rowid"  # noqa: S608 - constants
    write = f"{move.verb} INTO {move.table} ({columns}) VALUES ({places}) {move.tail}"
    target.executemany(write, source.execute(read, (_list(rows),)))


def delete_rows(connection: sqlite3.Connection, move: RowMove, rows: Iterable[int]) -> None:
    """Deletes `rows`, in the transaction that is open."""
    connection.execute(f"DELETE FROM {move.table} WHERE {_CHOSEN}", (_list(rows),))  # noqa: S608 - constants


class _Owned(msgspec.Struct):
    """The one member of a packed value that counts here; the others are passed over."""

    job_id: str = ""


_CHOSEN = "rowid IN (SELECT value FROM json_each(?))"
_read_owned = msgspec.msgpack.Decoder(_Owned).decode


def _list(rows: Iterable[int]) -> str:
    return msgspec.json.encode(list(rows)).decode()


def _unpack(content: bytes) -> str:
    return _read_owned(content).job_id


def _read(job_id: str) -> str:
    return job_id


def _nobody(_: object) -> str:
    return ""


# Two files hold the same scope and key only after a division that a crash cut off, and then they are alike;
# were they not, the later answer would be the one to keep.
_LATER = (
    "ON CONFLICT (scope, key) DO UPDATE SET created_at = excluded.created_at, digest = excluded.digest, "
    "answer = excluded.answer, job_id = excluded.job_id WHERE excluded.created_at > remembered.created_at"
)

ROW_MOVES = (
    RowMove("jobs", "job_id", _read),
    RowMove("definitions", "job_id", _read),
    RowMove("remembered", "job_id", _read, verb="INSERT", tail=_LATER),
    RowMove("deliveries", "content", _unpack),
    RowMove("parts", "content", _unpack),
    RowMove("unwritten", "job_id", _read),
    RowMove("completions", "lease", _nobody, verb="INSERT OR IGNORE", number="place"),
)
"""All tables but `journal`, which is empty by then, and `meta`, which is each file's own."""
