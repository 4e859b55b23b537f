"""Copies SQLite files that a running service writes, all of them as of one moment."""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from scheduler_service.persistence.sqlite.database import open_reading, translated
from scheduler_service.persistence.sqlite.folder_lock import has_state, is_divided, state_file
from scheduler_service.ports.errors import FolderUnusable, StoreLocked, StoreRefused

OnProgress = Callable[[str, int, int], None]
"""Takes the name of the file, the bytes that are copied, and how many there are."""

LOCK_PATIENCE_SECONDS = 30.0
"""For the write lock; a service waits for it 5 s before it refuses requests."""

LOCK_TRY_SECONDS = 1.0
"""For one try."""

LOCK_PAUSE_SECONDS = 0.25
"""Between two tries. SQLite asks every 0.1 s for a lock that is taken, so a waiting writer gets it."""

PAGES_PER_STEP = 2_048


def copy_as_of_now(
    folder: Path,
    *,
    others: Mapping[str, Path],
    into: Path,
    on_progress: OnProgress,
    patience: float = LOCK_PATIENCE_SECONDS,
    try_seconds: float = LOCK_TRY_SECONDS,
) -> list[str]:
    """Copies the file of the jobs' state in `folder`, and `others` by their names, to the folder `into`.

    A running service is held up for the moment in which the copies begin, not while they are made. No turn is
    in only some of the copies, and what the state says is in `others` is there: the copies are what a crash
    at that moment would leave. Returns the names of all copies. Blocks; for that moment it waits up to
    `patience` seconds, and holds writers up for at most `try_seconds` at a time. Raises StoreRefused, also
    where an earlier version has divided the jobs among several files.
    """
    state = state_file(folder)
    if not has_state(folder):  # opening it would make it
        raise FolderUnusable(
            f"{state} is missing: no service has kept its jobs in {folder}. Name another one."
        )
    if is_divided(folder):
        raise StoreRefused(
            f"The jobs of {folder} are in several files, as an earlier version divided them. Start the "
            "service, or run 'punctual db migrate': both bring them together. Then begin the backup again."
        )
    with ExitStack() as open_files:
        with ExitStack() as locks:
            _lock(state, locks, patience, try_seconds)
            places = {state.name: state} | dict(others)
            sources = {name: _take_snapshot(place, open_files) for name, place in places.items()}
        for name, source in sources.items():
            with translated(str(into / name)):
                _copy(source, into / name, on_progress)
    return list(sources)


def _take_snapshot(place: Path, open_files: ExitStack) -> sqlite3.Connection:
    """A connection with a read transaction that has begun."""
    with translated(str(place)):
        connection = open_files.enter_context(closing(open_reading(str(place))))
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    return connection


def _lock(place: Path, locks: ExitStack, patience: float, try_seconds: float) -> None:
    """Keeps every writer out until `locks` is closed. Raises StoreLocked, after it has tried for a while."""
    connection = locks.enter_context(
        closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None))
    )
    connection.execute(f"PRAGMA busy_timeout = {round(min(patience, try_seconds) * 1000)}")
    until = time.monotonic() + patience
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise FolderUnusable(f"The file {place} does not open: {error}.") from error
            if time.monotonic() > until:
                raise StoreLocked(
                    f"The file {place} is written without a pause for {patience:g} s. "
                    "Begin again when the service has less to do."
                ) from error
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return


def _copy(source: sqlite3.Connection, place: Path, on_progress: OnProgress) -> None:
    page_size: int = source.execute("PRAGMA page_size").fetchall()[0][0]

    def report(status: int, left: int, pages: int) -> None:
        on_progress(place.name, (pages - left) * page_size, pages * page_size)

    # It holds the keys of feedback tokens.
    os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(sqlite3.connect(place.absolute(), isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # synced once, as a whole
        source.backup(copy, pages=PAGES_PER_STEP, progress=report)
    for leftover in ("-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            place.with_name(place.name + leftover).unlink()
    sync(place)


def sync(place: Path) -> None:
    """Returns when a file, or the names in a folder, outlive a power loss."""
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
