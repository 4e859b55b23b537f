"""Damage on the disk: looks for it in a file of SQLite, saves what can be read, and puts that in its place.

A damaged file whose log is gone would be read without its last turns, and the log of a damaged file beside a
new one would be read into it. So the folder is marked from before the first step of a replacement until after
the last: no service starts on it meanwhile (`FolderLock.claim`), and the next repair goes on.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec

from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.sqlite.folder_lock import REPAIRING, write_private
from scheduler_service.persistence.sqlite.snapshot import sync

MAX_FINDINGS = 20
"""Of so many places the damage is described."""

ROWS_AT_ONCE = 500
_BEFORE_ALL = -(1 << 63)
Row = tuple[object, ...]


class Saved(msgspec.Struct, frozen=True):
    """What was saved of a file: how many `rows` of each table. `damaged`: the tables that lost some."""

    rows: dict[str, int]
    damaged: tuple[str, ...]


class _NoText(bytes):
    """A text that is not UTF-8 any more."""


def find_damage(place: Path) -> list[str]:
    """What is wrong with the pages and indexes of the file, a line each. Reads all of it, changes nothing.

    A service may be using the file.
    """
    try:
        with closing(_open(place)) as connection:
            rows = connection.execute(f"PRAGMA integrity_check({MAX_FINDINGS})").fetchall()
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if rows == [("ok",)] else [str(text) for (text,) in rows]


def save_rows(source: Path, target: Path) -> Saved:
    """Copies all rows that can be read to `target`, whose tables are there, of the same format and new.

    Each table is read from its first row on, and where that ends at a damaged page from its last row back.
    Blocks. Raises sqlite3.DatabaseError where not even the list of tables can be read.
    """
    saved: dict[str, int] = {}
    damaged: list[str] = []
    with (
        closing(_open(source)) as reading,
        closing(sqlite3.connect(target.absolute(), isolation_level=None)) as writing,
    ):
        there = {name for (name,) in reading.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        writing.execute("BEGIN IMMEDIATE")
        for table in _tables(writing):
            copy = _TableCopy(reading, writing, table)
            saved[table], is_whole = copy.run() if table in there else (0, False)
            if not is_whole:
                damaged.append(table)
        writing.execute("COMMIT")
    return Saved(saved, tuple(damaged))


class _TableCopy:
    """Copies one table, row by row, around what cannot be read."""

    def __init__(self, reading: sqlite3.Connection, writing: sqlite3.Connection, table: str) -> None:
        columns = [row[1] for row in writing.execute(f'PRAGMA table_info("{table}")')]
        names, marks = ", ".join(f'"{name}"' for name in columns), ", ".join("?" * len(columns))
        self._reading = reading
        self._writing = writing
        # Not by an index, which may be damaged as well.
        self._select = f'SELECT rowid, {names} FROM "{table}" NOT INDEXED WHERE rowid > ? ORDER BY rowid'  # noqa: S608
        self._insert = f'INSERT OR IGNORE INTO "{table}" ({names}) VALUES ({marks})'  # noqa: S608
        writing.execute(f'DELETE FROM "{table}"')  # its version, which is the same in the copy  # noqa: S608
        self._count = 0
        self._last = _BEFORE_ALL
        self._is_whole = True

    def run(self) -> tuple[int, bool]:
        """How many rows were copied, and whether these are all."""
        try:
            for rows in self._read(""):
                self._write(rows)
                self._last = rows[-1][0]  # type: ignore[assignment]
        except sqlite3.DatabaseError:
            self._is_whole = False
            with suppress(sqlite3.DatabaseError):
                for rows in self._read(" DESC"):
                    self._write(rows)
        return self._count, self._is_whole

    def _write(self, rows: Sequence[Row]) -> None:
        intact = [row[1:] for row in rows if not any(type(value) is _NoText for value in row)]
        written = self._writing.executemany(self._insert, intact).rowcount
        self._count += written
        self._is_whole = self._is_whole and written == len(rows)

    def _read(self, order: str) -> Iterator[list[Row]]:
        rows: list[Row] = []
        try:
            for row in self._reading.execute(self._select + order, (self._last,)):
                rows.append(row)
                if len(rows) == ROWS_AT_ONCE:
                    yield rows
                    rows = []
        except sqlite3.DatabaseError:
            if rows:
                yield rows  # those before the damaged page
            raise
        if rows:
            yield rows


def _tables(connection: sqlite3.Connection) -> list[str]:
    text = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    return sorted(name for (name,) in connection.execute(text))


def _open(place: Path) -> sqlite3.Connection:
    """A connection that only reads."""
    connection = sqlite3.connect(f"{place.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
    connection.execute("PRAGMA query_only = ON")
    connection.text_factory = _read_text
    return connection


def _read_text(raw: bytes) -> str | _NoText:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return _NoText(raw)


_LOGS = ("-wal", "-journal")


class Replacement(msgspec.Struct, frozen=True):
    """The file at `damaged` gives its place to that at `fresh`, and is kept at `kept`, with its log."""

    damaged: str
    fresh: str
    kept: str


def replace_file(folder: Path, replacement: Replacement, *, faults: FaultPoints | None = None) -> None:
    """Does it all, under the lock of `folder`; durable when this returns. `fresh` is whole and durable."""
    with passing(faults):
        write_private(folder / REPAIRING, msgspec.json.encode(replacement))
    finish_replacement(folder, faults=faults)


def finish_replacement(folder: Path, *, faults: FaultPoints | None = None) -> Replacement | None:
    """Ends the one that was under way in `folder` when its process ended; None: there was none."""
    mark = folder / REPAIRING
    found = _read_mark(mark)
    if found is not None and Path(found.fresh).exists():
        place = Path(found.damaged)
        with passing(faults):
            for end in ("", *_LOGS):
                with suppress(FileNotFoundError, FileExistsError):  # kept already, by the one before
                    os.link(f"{place}{end}", f"{found.kept}{end}")
            sync(place.parent)
        for end in (*_LOGS, "-shm"):
            with passing(faults):
                Path(f"{place}{end}").unlink(missing_ok=True)
        sync(place.parent)  # no log is beside the new file, not after a loss of power either
        with passing(faults):
            Path(found.fresh).replace(place)
            sync(place.parent)
    with passing(faults):
        mark.unlink(missing_ok=True)
        sync(folder)
    return found


def _read_mark(mark: Path) -> Replacement | None:
    """None: it is missing, or its writing did not end, before which nothing is changed."""
    try:
        return msgspec.json.decode(mark.read_bytes(), type=Replacement)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


@contextmanager
def passing(faults: FaultPoints | None) -> Iterator[None]:
    """Surrounds one step of a repair, for tests that end the process there."""
    if faults is not None:
        faults.before(FaultPoint.REPAIR)
    yield
    if faults is not None:
        faults.after(FaultPoint.REPAIR)
