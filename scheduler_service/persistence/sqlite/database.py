"""Opens the SQLite file: connections that write, and connections that only read."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from scheduler_service.persistence.sqlite.schema import MIGRATIONS, read_version, upgrade
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged

# "full" survives a power loss: the log is synced at each commit. "process" survives the process alone.
SYNCHRONOUS = {"full": "FULL", "process": "NORMAL"}

# Pages of the log, 64 MiB, before a commit brings it into the file: what waits behind that commit waits for
# 150 ms and more. Large arrays write less in the second after which a checkpoint comes beside the writer.
CHECKPOINT_PAGES = 16_000

# Pages that a connection keeps: the writer's trees are wide, and each reader would keep the same pages again.
WRITE_CACHE_KIB, READ_CACHE_KIB = 8_192, 2_048

# Errors of the file itself, not of its disk or its rights.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def open_writing(place: str, *, durability: str) -> sqlite3.Connection:
    """A connection that writes, over the newest format; all commits of the opening itself are synced.

    Raises StoreRefused (damaged, too new, not writable), ValueError for an unknown durability.
    """
    if durability not in SYNCHRONOUS:
        raise ValueError(f"store.durability is {durability!r}; it must be one of {', '.join(SYNCHRONOUS)}.")
    with translated(place), ExitStack() as undo:
        _make_private(place)
        connection = undo.enter_context(closing(_connect(place, cache_kib=WRITE_CACHE_KIB)))
        connection.execute("PRAGMA synchronous = FULL")
        upgrade(connection, place=place)
        # After the upgrade, which refuses other programs' files: this changes the file.
        _write_ahead(connection, place=place)
        undo.pop_all()
    return connection


def relax(connection: sqlite3.Connection, *, durability: str) -> None:
    """Sets what a commit waits for from now on."""
    connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")


def open_reading(place: str) -> sqlite3.Connection:
    """A connection that reads the last committed state and never writes."""
    connection = _connect(place, cache_kib=READ_CACHE_KIB)
    connection.execute("PRAGMA query_only = ON")
    return connection


def open_beside(place: str) -> sqlite3.Connection:
    """A connection for checkpoints: pages in the file are synced before the log is reused."""
    connection = _connect(place, cache_kib=READ_CACHE_KIB)
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raises a database error as a StoreRefused that names the file at `place`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _refusal(place, error) from error


def inspect(place: str) -> tuple[int, int]:
    """(format of the file at `place`, format of this program); changes nothing. Raises StoreRefused."""
    with translated(place), closing(open_reading(place)) as connection:
        return read_version(connection, place=place), len(MIGRATIONS)


def read_definitions(place: str) -> Iterator[tuple[str, bytes]]:
    """(jobId, definition) of the jobs that users have made and not destroyed; changes nothing.

    Raises StoreRefused.
    """
    text = (
        "SELECT jobs.job_id, text FROM jobs JOIN definitions USING (uid, revision) "
        "WHERE NOT system AND state != 'destroyed' ORDER BY jobs.job_id"
    )
    with translated(place), closing(open_reading(place)) as connection:
        yield from connection.execute(text)


def read_documents(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    """(jobId, document) of the jobs that are not destroyed, in a file of any format."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(jobs)")}
    name = "turn_state" if "turn_state" in columns else "document"
    yield from connection.execute(f"SELECT job_id, {name} FROM jobs WHERE {name} IS NOT NULL")  # noqa: S608


def _refusal(place: str, error: sqlite3.Error) -> StoreDamaged | FolderUnusable:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
        return StoreDamaged(
            f"The file {place} cannot be read as a database: {error}. "
            "Put back a copy of it: 'punctual db restore' does that with a backup."
        )
    return FolderUnusable(
        f"The store in {Path(place).parent} does not open: {error}. "
        "See that the disk has room and that this user may write the folder."
    )


def _make_private(place: str) -> None:
    # The file holds the keys of feedback tokens. SQLite gives its log the same rights as the file.
    # One that is there is left alone: closing it would end the locks that SQLite has on it here (POSIX).
    if place == ":memory:" or (Path(place).is_file() and os.access(place, os.R_OK | os.W_OK)):
        return
    try:
        os.close(os.open(place, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise FolderUnusable(
            f"The file {place} cannot be written: {error.strerror}. Give this user the right to write it."
        ) from error


def _connect(place: str, *, cache_kib: int) -> sqlite3.Connection:
    # Absolute: where SQLite is built to read URIs, it would take `file:…` for one.
    name = place if place == ":memory:" else str(Path(place).absolute())
    connection = sqlite3.connect(
        name, isolation_level=None, check_same_thread=False, cached_statements=256, timeout=5.0
    )
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA secure_delete = FAST")  # else a freed page is written as one of zeros
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    return connection


def _write_ahead(connection: sqlite3.Connection, *, place: str) -> None:
    mode: str = connection.execute("PRAGMA journal_mode = WAL").fetchall()[0][0]
    if mode not in ("wal", "memory"):
        raise FolderUnusable(
            f"The file {place} cannot have a write-ahead log (its journal stays {mode!r}). "
            "Name a data folder on a local disk."
        )
