"""The open files of a folder: the connection that writes, the checkpoints, and the lock."""

import sqlite3
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec

from scheduler_service.persistence.sqlite.database import open_beside, open_writing, translated
from scheduler_service.persistence.sqlite.folder import FolderLock, is_divided, state_file
from scheduler_service.persistence.sqlite.journal import OnDamagedPage, take_over
from scheduler_service.persistence.sqlite.schema import transaction
from scheduler_service.ports.errors import StoreRefused

PAUSE_SECONDS = 1.0
"""From a write to the next checkpoint: a page that changes often is written once for several changes."""

MANY_BYTES = 1 << 20
"""After so many the pause ends: a checkpoint's sync of the file holds up the commits beside it.

The log has some 2.5 times as many. Definitions of a second, 15 MiB of the log, were synced in 0.1 to 0.16 s.
"""


class Checkpoints:
    """A thread with a connection of its own, active only while something is written.

    SQLite checkpoints by itself within the commit that makes the log too long: one was seen to take 78 ms,
    for which every later turn had to wait. That one still comes, empties the log if this thread is behind,
    and finds little left to do. A checkpoint that fails is tried again after the next write; if the log
    cannot grow any more, the commit that needs it to fails.
    """

    def __init__(self, *, connection: sqlite3.Connection, pause: float = PAUSE_SECONDS) -> None:
        self._connection = connection
        self._pause = pause
        self._bytes = 0
        self._written = threading.Event()
        self._has_many = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="state-checkpoints", daemon=True)
        self._thread.start()

    def note(self, size: int = 0) -> None:
        """Something was written, about `size` bytes. For the thread that writes."""
        self._bytes += size
        if self._bytes >= MANY_BYTES:
            self._has_many.set()
        self._written.set()

    def close(self) -> None:
        """Ends the thread, then the connection; waits for a checkpoint that is under way."""
        self._closing.set()
        self._written.set()
        self._has_many.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        # Checked after `clear` too, which may have undone the `set` of `close`.
        while not self._closing.is_set():
            self._written.wait()
            self._has_many.wait(self._pause)
            if self._closing.is_set():
                return
            self._written.clear()
            self._has_many.clear()
            self._bytes = 0  # what is added just now may be lost: it comes with the next checkpoint
            with suppress(sqlite3.Error):
                # Passive: it waits for no other connection, and none waits for it.
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class Files(msgspec.Struct, frozen=True):
    """The open `state.db` of a folder, whose lock is given back when it is closed."""

    place: str
    writing: sqlite3.Connection
    checkpoints: Checkpoints
    lock: FolderLock

    def note(self, size: int) -> None:
        """Some `size` bytes were written."""
        self.checkpoints.note(size)

    def end_checkpoints(self) -> None:
        """What is written now stays in the log, until the last connection is closed."""
        self.checkpoints.close()

    def close(self) -> None:
        """Closes the connection, which empties the log, and gives the lock back."""
        self.checkpoints.close()
        self.writing.close()
        self.lock.release()


def open_files(
    folder: Path,
    *,
    durability: str,
    lock: FolderLock | None,
    on_damaged_page: OnDamagedPage | None,
) -> Files:
    """The files of a folder, under a lock that is released on failure; see `SqliteStateStore.open`."""
    place = str(state_file(folder))
    with translated(place), ExitStack() as undo:
        lock = FolderLock.claim(folder) if lock is None else lock
        undo.callback(lock.release)
        if is_divided(folder):
            raise StoreRefused(
                f"The jobs of the data folder {folder} are in several files, as an earlier version divided "
                "them. Start the service, or run 'punctual db migrate': both bring them together."
            )
        writing = undo.enter_context(closing(open_writing(place, durability=durability)))
        with transaction(writing):
            take_over(writing, place=Path(place), on_damaged_page=on_damaged_page)
        checkpoints = Checkpoints(connection=open_beside(place))
        undo.pop_all()
    return Files(place, writing, checkpoints, lock)


def upgrade_folder(folder: Path) -> None:
    """Brings the file of the jobs to the newest format, under a lock that the caller holds.

    Raises StoreRefused.
    """
    place = state_file(folder)
    with (
        translated(str(place)),
        closing(open_writing(str(place), durability="full")) as connection,
        transaction(connection),
    ):
        take_over(connection, place=place)
