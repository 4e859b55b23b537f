"""Records that the history has not confirmed: a page a group of commits, deleted when it has them all.

Pages that an earlier process left are moved into the tables at the start. Those of version 0.1.0 have turns
of jobs as well, which are later than the rows of these jobs.
"""

import sqlite3
from collections.abc import Collection, Container, Iterable, Iterator, Mapping

from scheduler_service.persistence.sqlite.journal_page import Salvage, read_intact_page
from scheduler_service.persistence.sqlite.row_versions import RowVersion, find_row_versions, write_jobs
from scheduler_service.persistence.sqlite.rows import batch_row
from scheduler_service.persistence.sqlite.statements import PUT_BATCHES, put_rows
from scheduler_service.ports.state import StoredJob

UNLOAD_BYTES = 2 << 20
"""About so many bytes are written to the tables at once: meanwhile they take three times as much memory."""

BatchKey = tuple[str, int]


def unload(
    connection: sqlite3.Connection,
    unconfirmed: Container[BatchKey] | None = None,
    *,
    salvage: Salvage | None = None,
) -> None:
    """Moves all of the file's pages into the tables, in the transaction that is open.

    Of the records only those that are `unconfirmed`. None: after a crash it is unknown which records the
    history has confirmed, and all are kept, since it ignores those that it has.

    Where a page is damaged, `salvage` gives what can be read of it; without that this raises
    sqlite3.DatabaseError. Sequences of turns begin above the number of the start, so the turn that a job
    repeats has a new one.
    """
    latest: dict[str, StoredJob] = {}
    size = 0
    read = read_intact_page if salvage is None else salvage.read
    for number, content in _read_pages(connection):
        page = read(number, content)
        latest.update({job.entry.job_id: job for job in page.jobs()})
        kept = [
            batch
            for batch in page.batches
            if unconfirmed is None or (batch.uid, batch.sequence) in unconfirmed
        ]
        put_rows(connection, PUT_BATCHES, [batch_row(batch) for batch in kept])
        size += len(content)
        if size >= UNLOAD_BYTES:
            _write_later(connection, latest)
            latest.clear()
            size = 0
    _write_later(connection, latest)
    connection.execute("DELETE FROM journal")


def _write_later(connection: sqlite3.Connection, latest: Mapping[str, StoredJob]) -> None:
    found = find_row_versions(connection, latest.keys())
    later = [job for job_id, job in latest.items() if _is_later(job, found.get(job_id))]
    write_jobs(connection, [(job, found[job.entry.job_id].face) for job in later])


def _read_pages(connection: sqlite3.Connection) -> Iterator[tuple[int, bytes]]:
    """All pages, one at a time: after a long outage of the history they may not fit into memory together."""
    yield from connection.execute("SELECT page, content FROM journal ORDER BY page")


def _is_later(job: StoredJob, version: RowVersion | None) -> bool:
    """Whether the table has an earlier turn of this life; a later turn may have been written directly."""
    if version is None or version.destroyed:
        return False
    return version.uid == job.entry.uid and version.sequence < job.sequence


class RecordPages:
    """The writer's memory of the file's pages: which records each has, and which pages are not needed.

    It changes after a group's commit. Of a commit of unknown outcome it has the page, which the file may
    lack: to delete that does nothing.
    """

    def __init__(self) -> None:
        self._batches: dict[BatchKey, int] = {}
        self._open: dict[int, int] = {}
        self.spent: list[int] = []  # pages that are not needed any more, to be deleted
        self.next_page = 1  # that the next group appends

    @property
    def batches(self) -> Mapping[BatchKey, int]:
        """The records that are here, unconfirmed, and the pages that have them."""
        return self._batches

    def append(self, batches: Collection[BatchKey]) -> None:
        """The file has the next page, with these."""
        page = self.next_page
        self.next_page += 1
        self._open[page] = len(batches)
        own = self._batches
        for key in batches:
            if key in own:  # a repetition replaces what was there
                self._release(own[key])
            own[key] = page

    def confirm(self, keys: Iterable[BatchKey]) -> None:
        """The history has these records."""
        take = self._batches.pop
        for key in keys:
            page = take(key, None)
            if page is not None:
                self._release(page)

    def delete_spent(self, count: int) -> None:
        """The first `count` of `spent` were deleted from the file."""
        del self.spent[:count]

    def empty(self) -> None:
        """The file has no page: everything is in the tables."""
        self._batches, self._open, self.spent = {}, {}, []

    def _release(self, page: int) -> None:
        left = self._open[page] - 1
        if left:
            self._open[page] = left
        else:
            del self._open[page]
            self.spent.append(page)
