"""Turns that are durable in the journal and not yet in the tables: appended whole, folded in later.

A turn that only moves a job on costs one place in the one row that its group appends; the row of the job,
with its indexes, is written when the job has been left alone for a while, once for all its turns since.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec.structs import astuple

from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import AnyRecord
from scheduler_service.persistence.sqlite.row_versions import (
    Face,
    RowVersion,
    RowVersions,
    Turned,
    find_row_versions,
    write_jobs,
)
from scheduler_service.persistence.sqlite.rows import batch_row
from scheduler_service.persistence.sqlite.statements import PUT_BATCHES, put_rows
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import StoredJob

MOST_TURNS = 16_384
MOST_BYTES = 32 << 20
AT_ONCE = 4_096

BatchKey = tuple[str, int]


class ListedEntry(CatalogueEntry, frozen=True, array_like=True, gc=False):
    """An entry without the names of its members, which would be half of a page."""


class ListedBatch(Batch, frozen=True, array_like=True, gc=False):
    """A batch without the names of its members."""

    records: tuple[AnyRecord, ...]


class Page(msgspec.Struct, frozen=True, array_like=True):
    """What one group appended: jobs after their turns, and the records that the history has to get.

    A turn is (entry, sequence, document, due wall, due steady).
    """

    turns: list[tuple[ListedEntry, int, bytes, int | None, int | None]]
    batches: list[ListedBatch]


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A job whose latest turn lies in the journal alone. `face`: that of the row that it has."""

    turned: Turned
    page: int
    face: Face | None


_encode = msgspec.msgpack.Encoder().encode
_DECODER = msgspec.msgpack.Decoder(Page)


def encode_page(turns: Iterable[Turned], batches: Iterable[Batch]) -> bytes:
    """A page as the file keeps it."""
    told = [(astuple(one.entry), one.sequence, one.document, one.due.wall, one.due.steady) for one in turns]
    return _encode((told, [astuple(batch) for batch in batches]))


def unload(
    connection: sqlite3.Connection,
    is_wanted: Callable[[BatchKey], bool] = lambda _: True,
    *,
    at_once: int = AT_ONCE,
) -> None:
    """Brings all that the file's journal holds into the tables, in the transaction that is open.

    Of the records only those that are wanted; of jobs about `at_once` at a time are held in memory. After a
    crash nobody knows which records the history has confirmed: to hand them over again does nothing.
    """
    latest: dict[str, Turned] = {}
    for _, page in _read_pages(connection):
        latest.update({turned.entry.job_id: turned for turned in _turns_of(page)})
        wanted = [batch for batch in page.batches if is_wanted((batch.uid, batch.sequence))]
        put_rows(connection, PUT_BATCHES, [batch_row(batch) for batch in wanted])
        if len(latest) >= at_once:
            _write_later(connection, latest)
            latest.clear()
    _write_later(connection, latest)
    connection.execute("DELETE FROM journal")


def _write_later(connection: sqlite3.Connection, latest: Mapping[str, Turned]) -> None:
    found = find_row_versions(connection, latest.keys())
    later = [turned for job_id, turned in latest.items() if _is_later(turned, found.get(job_id))]
    write_jobs(connection, [(turned, found[turned.entry.job_id].face) for turned in later])


def _read_pages(connection: sqlite3.Connection) -> Iterator[tuple[int, Page]]:
    """One after the other: where the history was away for long they do not fit into memory together.

    Raises sqlite3.DatabaseError where one cannot be read.
    """
    for number, content in connection.execute("SELECT page, content FROM journal ORDER BY page"):
        try:
            page = _DECODER.decode(content)
        except msgspec.DecodeError as error:
            damaged = sqlite3.DatabaseError(f"a turn in the journal cannot be read: {error}")
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged from error
        yield number, page


def _turns_of(page: Page) -> list[Turned]:
    return [
        Turned(CatalogueEntry(*astuple(entry)), sequence, document, Due(wall=wall, steady=steady))
        for entry, sequence, document, wall, steady in page.turns
    ]


def _is_later(turned: Turned, standing: RowVersion | None) -> bool:
    """Whether the table has an earlier turn of this life. A later one may have gone past the journal."""
    if standing is None or standing.destroyed:
        return False
    return standing.uid == turned.entry.uid and standing.sequence < turned.sequence


class Journal:
    """What the file's journal holds, as the writer's thread keeps it; other threads may only `find` and ask.

    It changes after a group's commit, so it never knows more than the file. In doubt nobody knows what the
    file holds, until it is read again. It wants to be folded beyond `most_turns` and `most_bytes`.
    """

    def __init__(self, *, most_turns: int = MOST_TURNS, most_bytes: int = MOST_BYTES) -> None:
        self._most_turns = most_turns
        self._most_bytes = most_bytes
        self._pending: OrderedDict[str, Pending] = OrderedDict()
        self._batches: dict[BatchKey, int] = {}
        self._open: dict[int, int] = {}
        self._spent: list[int] = []
        self._next = 1
        self._bytes = 0
        self._doubtful: set[BatchKey] = set()
        self.is_in_doubt = False
        self.standings = RowVersions()

    def find(self, job_id: str) -> StoredJob | None:
        """The job, if its latest turn lies here. Any thread may ask."""
        found = self._pending.get(job_id)
        if found is None:
            return None
        turned = found.turned
        return StoredJob(turned.entry, turned.sequence, turned.document, turned.due)

    @property
    def newest(self) -> int:
        """The page that was appended last. Any thread may ask."""
        return self._next - 1

    def holds(self, page: int) -> bool:
        """Whether a job's latest turn lies in `page` or before. Any thread may ask."""
        try:
            oldest = next(iter(self._pending.values()), None)
        except RuntimeError:  # the writer changed it under our eyes: it holds something
            return True
        return self.is_in_doubt or (oldest is not None and oldest.page <= page)

    @property
    def has_folds(self) -> bool:
        """Whether something may be folded or deleted."""
        return bool(self._pending or self._spent or self.is_in_doubt)

    @property
    def is_full(self) -> bool:
        """Whether it is time to fold, whoever waits."""
        return len(self._pending) > self._most_turns or self._bytes > self._most_bytes

    @property
    def next_page(self) -> int:
        """The number of the page that the next group appends."""
        return self._next

    @property
    def spent(self) -> Sequence[int]:
        """Pages of which nothing is needed any more, to be deleted."""
        return self._spent

    def pending(self, job_id: str) -> Pending | None:
        """The job, if its latest turn lies here."""
        return self._pending.get(job_id)

    def oldest(self, count: int) -> list[Pending]:
        """The jobs that were left alone for longest, at most `count`."""
        return list(islice(self._pending.values(), count))

    def has_batch(self, key: BatchKey) -> bool:
        """Whether these records lie here, unconfirmed."""
        return key in self._batches

    def append(self, pendings: Sequence[Pending], batches: Collection[BatchKey]) -> None:
        """The file has the next page."""
        page = self._next
        self._next += 1
        self._open[page] = len(pendings) + len(batches)
        for pending in pendings:
            self._replace(pending)
        for key in batches:
            self.confirm(key)  # a repetition replaces what was there
            self._batches[key] = page

    def fold(self, job_id: str) -> None:
        """The file has a later turn of the job, or its row has this one."""
        found = self._pending.pop(job_id, None)
        if found is not None:
            self._bytes -= _weigh(found)
            self._release(found.page)

    def confirm(self, key: BatchKey) -> None:
        """The history has these records."""
        page = self._batches.pop(key, None)
        if page is not None:
            self._release(page)

    def delete_spent(self, count: int) -> None:
        """The file has lost the first `count` of `spent`."""
        del self._spent[:count]

    def doubt(self, batches: Iterable[BatchKey]) -> None:
        """Whether the file has a page with these records, or lost some pages, is unknown."""
        self._doubtful.update(batches)
        self.is_in_doubt = True
        self.standings.clear()

    def reload(self, connection: sqlite3.Connection) -> None:
        """Ends the doubt by what the file holds; writes nothing. Raises sqlite3.Error."""
        known = self._batches.keys() | self._doubtful
        fresh = Journal()
        for number, page in _read_pages(connection):
            found = find_row_versions(connection, {one[0].job_id for one in page.turns})
            fresh._next = number
            later = [one for one in _turns_of(page) if _is_later(one, found.get(one.entry.job_id))]
            pendings = [Pending(one, number, found[one.entry.job_id].face) for one in later]
            fresh.append(pendings, known & {(one.uid, one.sequence) for one in page.batches})
            if fresh._open[number] == 0:
                del fresh._open[number]
                fresh._spent.append(number)
        self._pending, self._batches, self._open = fresh._pending, fresh._batches, fresh._open
        self._spent, self._bytes = fresh._spent, fresh._bytes
        self._next = max(self._next, fresh._next)
        self._doubtful.clear()
        self.is_in_doubt = False

    def empty(self) -> None:
        """The file's journal is empty: all is in the tables."""
        self.standings.clear()
        self._pending, self._batches, self._open, self._spent = OrderedDict(), {}, {}, []
        self._bytes = 0

    def _replace(self, pending: Pending) -> None:
        """At no moment is the job missing: another thread would then believe the table."""
        job_id = pending.turned.entry.job_id
        earlier = self._pending.get(job_id)
        self._pending[job_id] = pending
        self._pending.move_to_end(job_id)
        self._bytes += _weigh(pending)
        if earlier is not None:
            self._bytes -= _weigh(earlier)
            self._release(earlier.page)

    def _release(self, page: int) -> None:
        left = self._open[page] - 1
        if left:
            self._open[page] = left
        else:
            del self._open[page]
            self._spent.append(page)


def _weigh(pending: Pending) -> int:
    return len(pending.turned.document or b"")
