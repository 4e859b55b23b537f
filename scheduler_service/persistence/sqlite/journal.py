"""Turns that are durable in the journal and not yet in the tables: appended in one row, folded in later.

A turn that changes only its job's state costs one place in the one row that its group appends. The row of the
job, with its indexes, is written after a pause in its turns, once for all turns since.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from scheduler_service.persistence.sqlite.journal_page import Salvage, read_intact_page
from scheduler_service.persistence.sqlite.row_versions import (
    Face,
    RowVersion,
    RowVersions,
    find_row_versions,
    write_jobs,
)
from scheduler_service.persistence.sqlite.rows import batch_row
from scheduler_service.persistence.sqlite.statements import PUT_BATCHES, put_rows
from scheduler_service.ports.state import StoredJob

MAX_TURNS = 16_384
MAX_BYTES = 32 << 20
UNLOAD_BATCH_SIZE = 4_096
"""About so many jobs are in memory at a time while the journal is unloaded."""
FOLD_BYTES = 2 << 20
"""About so many bytes are written to the tables at once: meanwhile they take three times as much memory."""
REPLACED_SHARE = 4
"""Of a large state that a row is rid of, each page is visited: that counts as a part of what is written."""

BatchKey = tuple[str, int]


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A job whose latest turn is in the journal alone.

    `face`: that of its row in the table. `size`: the bytes of its document.
    """

    job: StoredJob
    page: int
    face: Face | None
    size: int


def unload(
    connection: sqlite3.Connection,
    unconfirmed: Container[BatchKey] | None = None,
    *,
    batch_size: int = UNLOAD_BATCH_SIZE,
    salvage: Salvage | None = None,
) -> None:
    """Moves all of the file's journal into the tables, in the transaction that is open.

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
        if len(latest) >= batch_size or size >= FOLD_BYTES:
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


class Journal:
    """The writer's memory of what the file's journal holds; other threads may call `find`, `newest`, `holds`.

    It changes after a group's commit, so it never has more than the file. After a commit of unknown outcome
    it is in doubt until the file is read again. It `is_full` beyond `max_turns` or `max_bytes`.
    """

    def __init__(self, *, max_turns: int = MAX_TURNS, max_bytes: int = MAX_BYTES) -> None:
        self._max_turns = max_turns
        self._max_bytes = max_bytes
        self._pending: OrderedDict[str, Pending] = OrderedDict()  # without a turn for longest first
        # The first page that each one's row lacks: that the job moves on brings nothing into the row.
        self._behind: OrderedDict[str, int] = OrderedDict()
        self._batches: dict[BatchKey, int] = {}
        self._open: dict[int, int] = {}
        self.spent: list[int] = []  # pages that are not needed any more, to be deleted
        self.next_page = 1  # that the next group appends
        self._bytes = 0
        self._doubtful: set[BatchKey] = set()
        self.is_in_doubt = False
        self.row_versions = RowVersions()

    def find(self, job_id: str) -> StoredJob | None:
        """The job, if its latest turn is here. For any thread."""
        found = self._pending.get(job_id)
        return None if found is None else found.job

    @property
    def newest(self) -> int:
        """The page that was appended last. For any thread."""
        return self.next_page - 1

    def holds(self, page: int) -> bool:
        """Whether the row of a job lacks a turn of `page` or before. For any thread."""
        try:
            first = next(iter(self._behind.values()), None)
        except RuntimeError:  # the writer changed it meanwhile: it is not empty
            return True
        return self.is_in_doubt or (first is not None and first <= page)

    @property
    def behind(self) -> int:
        """How many jobs have rows that lack a turn. For any thread."""
        return len(self._behind)

    @property
    def has_folds(self) -> bool:
        """Whether something may be folded or deleted."""
        return bool(self._pending or self.spent or self.is_in_doubt)

    @property
    def is_full(self) -> bool:
        """Whether the next group has to fold, even while commits are waiting."""
        return len(self._pending) > self._max_turns or self._bytes > self._max_bytes

    @property
    def turns(self) -> Mapping[str, Pending]:
        """The jobs whose latest turns are here, by their ids."""
        return self._pending

    def oldest(self, count: int, most_bytes: int = FOLD_BYTES) -> list[Pending]:
        """The jobs without a turn for longest, at most `count`, and no more once they have `most_bytes`."""
        return _take(self._pending.values(), count, most_bytes)

    def furthest_behind(self, count: int, most_bytes: int = FOLD_BYTES) -> list[Pending]:
        """The same of the jobs whose rows are behind for longest."""
        return _take((self._pending[job_id] for job_id in self._behind), count, most_bytes)

    @property
    def batches(self) -> Mapping[BatchKey, int]:
        """The records that are here, unconfirmed, and the pages that have them."""
        return self._batches

    def append(self, pendings: Sequence[Pending], batches: Collection[BatchKey]) -> None:
        """The file has the next page."""
        page = self.next_page
        self.next_page += 1
        self._open[page] = len(pendings) + len(batches)
        for pending in pendings:
            self._replace(pending)
        own = self._batches
        for key in batches:
            if key in own:  # a repetition replaces what was there
                self._release(own[key])
            own[key] = page

    def fold(self, job_id: str) -> None:
        """The job's row has this turn or a later one, or is gone."""
        found = self._pending.pop(job_id, None)
        if found is not None:
            del self._behind[job_id]
            self._bytes -= found.size
            self._release(found.page)

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

    def doubt(self, batches: Iterable[BatchKey]) -> None:
        """It is unknown whether the file has a page with these records, or lost some pages."""
        self._doubtful.update(batches)
        self.is_in_doubt = True
        self.row_versions.clear()

    def reload(self, connection: sqlite3.Connection) -> None:
        """Ends the doubt by reading the file; writes nothing. Raises sqlite3.Error."""
        known = self._batches.keys() | self._doubtful
        fresh = Journal()
        for number, content in _read_pages(connection):
            page = read_intact_page(number, content)
            found = find_row_versions(connection, {one[0].job_id for one in page.turns})
            fresh.next_page = number
            later = [one for one in page.jobs() if _is_later(one, found.get(one.entry.job_id))]
            pendings = [
                Pending(one, number, found[one.entry.job_id].face, len(one.document or b"")) for one in later
            ]
            fresh.append(pendings, known & {(one.uid, one.sequence) for one in page.batches})
            if fresh._open[number] == 0:
                del fresh._open[number]
                fresh.spent.append(number)
        self._pending = fresh._pending
        self._behind = OrderedDict.fromkeys(fresh._behind, 0)  # pages that a row lacks as well may be deleted
        self._batches, self._open = fresh._batches, fresh._open
        self.spent, self._bytes = fresh.spent, fresh._bytes
        self.next_page = max(self.next_page, fresh.next_page)
        self._doubtful.clear()
        self.is_in_doubt = False

    def empty(self) -> None:
        """The file's journal is empty: everything is in the tables."""
        self.row_versions.clear()
        self._pending, self._behind = OrderedDict(), OrderedDict()
        self._batches, self._open, self.spent = {}, {}, []
        self._bytes = 0

    def _replace(self, pending: Pending) -> None:
        """The job is never missing in between: another thread would then read the older row."""
        job_id = pending.job.entry.job_id
        earlier = self._pending.get(job_id)
        self._pending[job_id] = pending
        self._pending.move_to_end(job_id)
        self._behind.setdefault(job_id, pending.page)
        self._bytes += pending.size
        if earlier is not None:
            self._bytes -= earlier.size
            self._release(earlier.page)

    def _release(self, page: int) -> None:
        left = self._open[page] - 1
        if left:
            self._open[page] = left
        else:
            del self._open[page]
            self.spent.append(page)


def _take(pendings: Iterable[Pending], count: int, most_bytes: int) -> list[Pending]:
    found: list[Pending] = []
    for pending in islice(pendings, count):
        found.append(pending)
        most_bytes -= pending.size
        if pending.face is not None:
            most_bytes -= pending.face.large_bytes // REPLACED_SHARE
        if most_bytes <= 0:
            break
    return found
