"""Brings the jobs of a folder that an earlier version divided among worker processes into one `state.db`.

The rows of each further file are copied, durably, before the first of these files is removed. A start after a
crash copies again what is there already, which changes nothing: no job has had a turn meanwhile. Programs
that divide folders refuse `state.db` from the first step on, for its format.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from scheduler_service.persistence.common.fault_points import FaultPoint, FaultPoints
from scheduler_service.persistence.sqlite.database import open_writing, translated
from scheduler_service.persistence.sqlite.files import OnDamagedPage, take_over
from scheduler_service.persistence.sqlite.folder_lock import find_divided, is_divided, state_file
from scheduler_service.persistence.sqlite.schema import transaction
from scheduler_service.persistence.sqlite.snapshot import sync

ROWS_AT_ONCE = 20_000
"""Rows that are copied by one commit: the log does not grow to the size of a file."""
CACHE_KIB = 65_536
LOG_EVERY_SECONDS = 5.0

# A column that each file counts for itself is not copied.
_TABLES = {
    "jobs": "", "definitions": "", "remembered": "", "outbox": "", "queue_parts": "", "untold": "",
    "queue_completions": "place",
}  # fmt: skip


def gather(
    folder: Path,
    *,
    log: Callable[..., None],
    on_damaged_page: OnDamagedPage | None = None,
    faults: FaultPoints | None = None,
    rows_at_once: int = ROWS_AT_ONCE,
) -> None:
    """Moves all jobs into `state.db`; reads one row where they are there.

    Called under the folder's lock, before a store is opened there, when no worker process is left; blocks the
    thread. Logs `gathering` at the beginning and now and then, `gathered` at the end. Raises StoreRefused; a
    later call goes on.
    """
    if not is_divided(folder):
        return
    others = find_divided(folder)
    work = _Gathering(others=others, log=log, faults=faults, rows_at_once=rows_at_once)
    for place in (state_file(folder), *others):
        with _open(place) as connection, transaction(connection):
            take_over(connection, place=place, on_damaged_page=on_damaged_page)
    with _open(state_file(folder)) as connection:
        work.run(connection)
    for other in others:
        for suffix in ("-wal", "-shm", ""):
            other.with_name(other.name + suffix).unlink(missing_ok=True)
    sync(folder)
    log("gathered", **work.figures())


class _Gathering:
    """Copies rows of `others`."""

    def __init__(
        self,
        *,
        others: Sequence[Path],
        log: Callable[..., None],
        faults: FaultPoints | None,
        rows_at_once: int,
    ) -> None:
        self._others = others
        self._log = log
        self._faults = faults
        self._rows_at_once = rows_at_once
        self._jobs = 0
        self._began = self._logged_at = time.monotonic()

    def run(self, connection: sqlite3.Connection) -> None:
        """All rows are in the file of `connection` when this returns, and it says so."""
        self._log("gathering", **self.figures())
        for other in self._others:
            connection.execute("ATTACH ? AS other", (str(other.absolute()),))
            for table, number in _TABLES.items():
                self._copy(connection, table, number)
            with self._step(connection):
                # Sequences of turns begin above the number of the start, so that none is used twice.
                connection.execute(
                    "UPDATE marks SET value = max(value, ifnull((SELECT value FROM other.marks "
                    "WHERE name = 'epoch'), 0)) WHERE name = 'epoch'"
                )
            connection.execute("DETACH other")
        with self._step(connection):
            connection.execute("DELETE FROM meta WHERE key = 'shares'")

    def figures(self) -> dict[str, object]:
        """How far it is."""
        seconds = round(time.monotonic() - self._began, 1)
        return {"files": len(self._others) + 1, "jobsMoved": self._jobs, "seconds": seconds}

    def _copy(self, connection: sqlite3.Connection, table: str, number: str) -> None:
        names = [
            row[1] for row in connection.execute(f"PRAGMA other.table_info({table})") if row[1] != number
        ]
        columns = ", ".join(names)
        next_one = (
            f"SELECT max(rowid) FROM (SELECT rowid FROM other.{table} WHERE rowid > ? ORDER BY rowid LIMIT ?)"  # noqa: S608
        )
        copy = (
            f"INSERT OR IGNORE INTO main.{table} ({columns}) "  # noqa: S608 - only our own names
            f"SELECT {columns} FROM other.{table} WHERE rowid > ? AND rowid <= ? ORDER BY rowid"
        )
        after = -(1 << 63)
        while (end := connection.execute(next_one, (after, self._rows_at_once)).fetchone()[0]) is not None:
            with self._step(connection):
                copied = connection.execute(copy, (after, end)).rowcount
            after = end
            self._jobs += copied if table == "jobs" else 0
            if time.monotonic() - self._logged_at >= LOG_EVERY_SECONDS:
                self._logged_at = time.monotonic()
                self._log("gathering", **self.figures())

    @contextmanager
    def _step(self, connection: sqlite3.Connection) -> Iterator[None]:
        """A transaction of its own, which is durable when this ends."""
        with transaction(connection):
            yield
            if self._faults is not None:
                self._faults.before(FaultPoint.GATHER)
        if self._faults is not None:
            self._faults.after(FaultPoint.GATHER)


@contextmanager
def _open(place: Path) -> Iterator[sqlite3.Connection]:
    with translated(str(place)), closing(open_writing(str(place), durability="full")) as connection:
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        yield connection
