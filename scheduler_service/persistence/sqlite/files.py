"""The open files of a folder: the connection that writes, the checkpoints, and the lock.

The tables `journal` and `unwritten` are taken over at a start: nothing writes them any more. A page of the
journal has records that the history has not confirmed; in version 0.1.0 also jobs after their turns, ahead of
their rows. `unwritten` has records, too.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec
from msgspec.structs import astuple

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.packing import pack
from scheduler_service.persistence.sql.job_tables import ENTRY, entry_row
from scheduler_service.persistence.sqlite.database import open_beside, open_writing, translated
from scheduler_service.persistence.sqlite.folder_lock import FolderLock, is_divided, state_file, write_private
from scheduler_service.persistence.sqlite.schema import transaction
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreRefused
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import StoredJob


class ListedEntry(CatalogueEntry, frozen=True, array_like=True, gc=False):
    """An entry as an array."""


class JournalPage(msgspec.Struct, frozen=True, array_like=True):
    """Turns (entry, sequence, document, due wall, due steady) and records of one group of commits."""

    turns: list[tuple[ListedEntry, int, bytes, int | None, int | None]]
    batches: list[Batch]

    def jobs(self) -> list[StoredJob]:
        """The jobs after their turns."""
        return [
            StoredJob(CatalogueEntry(*astuple(entry)), sequence, document, Due(wall=wall, steady=steady))
            for entry, sequence, document, wall, steady in self.turns
        ]


OnDamagedPage = Callable[[Path], None]
"""Is told the file that has a page that cannot be read, before the page is removed.

Any job may have lost its latest turn, which it repeats, and the history some records.
"""

_PUT_RECORDS = "INSERT OR REPLACE INTO untold (uid, sequence, content, node, boot) VALUES (?, ?, ?, '', '')"
_read_page = msgspec.msgpack.Decoder(JournalPage).decode


def take_over(
    connection: sqlite3.Connection, *, place: Path, on_damaged_page: OnDamagedPage | None = None
) -> None:
    """Moves all pages of the file at `place` into its tables, in the transaction that is open.

    The history ignores records that it has. A page that cannot be read is put beside the file, durably, and
    `on_damaged_page` is told; None: sqlite3.DatabaseError.
    """
    # One at a time: after a long outage of the history they may not fit into memory together.
    for number, content in connection.execute("SELECT page, content FROM journal ORDER BY page"):
        try:
            page = _read_page(content)
        except msgspec.DecodeError as error:
            if on_damaged_page is None:
                damaged = sqlite3.DatabaseError(f"page {number} of the journal cannot be read: {error}")
                damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise damaged from error
            copy = place.with_name(f"{place.name}-page-{number}.damaged")
            write_private(copy, content)
            on_damaged_page(copy)
            continue
        rows = ((batch.uid, batch.sequence, pack(batch)) for batch in page.batches)
        connection.executemany(_PUT_RECORDS, rows)
        _write_later(connection, page.jobs())
    connection.execute("DELETE FROM journal")
    for row in connection.execute("SELECT uid, job_id, tenant, sequence, at, records FROM unwritten"):
        content = pack((*row[:-1], msgspec.Raw(row[-1])))
        connection.execute(_PUT_RECORDS, (row[0], row[3], content))
    connection.execute("DELETE FROM unwritten")


def _write_later(connection: sqlite3.Connection, jobs: Iterable[StoredJob]) -> None:
    """Each of the `jobs` whose row has an earlier turn of the same life."""
    for job in jobs:
        names = (column.name for column in ENTRY)
        values = dict(zip(names, entry_row(job.entry), strict=True)) | {
            "sequence": job.sequence,
            "due_wall": job.due.wall,
            "due_steady": job.due.steady,
            "turn_state": job.document,
        }
        changes = ", ".join(f"{name} = :{name}" for name in values)
        is_earlier = "job_id = :job_id AND uid = :uid AND sequence < :sequence AND turn_state IS NOT NULL"
        connection.execute(f"UPDATE jobs SET {changes} WHERE {is_earlier}", values)  # noqa: S608 - our own


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
