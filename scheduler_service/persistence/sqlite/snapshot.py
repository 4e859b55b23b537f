"""Copies SQLite files that a running service writes, all of them as of one moment."""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from scheduler_service.persistence.sqlite.database import open_reading, translated
from scheduler_service.persistence.sqlite.folder import RESHARDING, name_files, read_shards
from scheduler_service.persistence.sqlite.schema import read_version
from scheduler_service.ports.errors import FolderUnusable, StoreLocked, StoreRefused

OnProgress = Callable[[str, int, int], None]
"""Takes the name of the file, the bytes that are copied, and how many there are."""

LOCK_PATIENCE_SECONDS = 30.0
"""For all write locks at once; a service waits for one of them 5 s before it refuses requests."""

LOCK_TRY_SECONDS = 1.0
"""For all write locks of one try; a service is held up for no longer than that at a time."""

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
    """Copies the files of the jobs' state in `folder`, and `others` by their names, to the folder `into`.

    A running service is held up for the moment in which the copies begin, not while they are made. No turn is
    in only some of the copies, and what the state says is in `others` is there: the copies are what a crash
    at that moment would leave. Returns the names of all copies. Blocks; for that moment it waits up to
    `patience` seconds, and holds a writer up for at most `try_seconds` at a time. Raises StoreRefused, also
    where a division of the jobs is under way.
    """
    with ExitStack() as open_files:
        names = _name_state(folder)
        with ExitStack() as locks:
            _lock_all([folder / name for name in names], locks, patience, try_seconds)
            places = {name: folder / name for name in names} | dict(others)
            sources = {name: _take_snapshot(place, open_files) for name, place in places.items()}
        if _count_shards(sources[names[0]], str(folder / names[0])) != len(names):
            raise StoreRefused(f"The jobs of {folder} were divided anew meanwhile. Begin the backup again.")
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


def _name_state(folder: Path) -> list[str]:
    first = folder / name_files(folder, 1)[0]
    if not first.is_file():  # opening it would make it
        raise FolderUnusable(
            f"{first} is missing: no service has kept its jobs in {folder}. Name another one."
        )
    with translated(str(first)), closing(open_reading(str(first))) as connection:
        shards = _count_shards(connection, str(first))
    if shards == RESHARDING:
        raise StoreRefused(
            f"The jobs of {folder} are being divided into another number of shards. "
            "Wait until the log says 'divided', then begin the backup again."
        )
    return name_files(folder, shards)


def _count_shards(connection: sqlite3.Connection, place: str) -> int:
    return read_shards(connection) if read_version(connection, place=place) else 1


def _lock_all(places: Sequence[Path], locks: ExitStack, patience: float, try_seconds: float) -> None:
    """Keeps every writer out until `locks` is closed. Raises StoreLocked, after it has tried for a while."""
    until = time.monotonic() + patience
    while not _try_all(places, locks, min(patience, try_seconds)):
        if time.monotonic() > until:
            raise StoreLocked(
                f"The files of {places[0].parent} are written without a pause for "
                f"{patience:g} s. Begin again when the service has less to do."
            )
        time.sleep(LOCK_PAUSE_SECONDS)


def _try_all(places: Sequence[Path], locks: ExitStack, seconds: float) -> bool:
    """Whether all are locked; else none is. `seconds` are for all together."""
    until = time.monotonic() + seconds
    with ExitStack() as taken:
        try:
            for place in places:
                _lock(place, taken, max(0.0, until - time.monotonic()))
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise FolderUnusable(f"The file {places[0].parent} does not open: {error}.") from error
            return False
        locks.push(taken.pop_all())
    return True


def _lock(place: Path, taken: ExitStack, patience: float) -> None:
    connection = taken.enter_context(
        closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None))
    )
    connection.execute(f"PRAGMA busy_timeout = {round(patience * 1000)}")
    connection.execute("BEGIN IMMEDIATE")


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
