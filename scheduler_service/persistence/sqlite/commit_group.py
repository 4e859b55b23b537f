"""The sum of a group of writes: each is checked in its order, their sum is written by one statement per kind.

There are few statements whatever the size of the group: for each one the writer's thread has to win the
interpreter back from a busy event loop.
"""

import sqlite3
from collections.abc import Callable, Collection, Sequence

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.persistence.common.writes import (
    Forget,
    Keep,
    Settle,
    StoreWrite,
    Written,
    conflict,
    pack,
)
from scheduler_service.persistence.sqlite.journal import FOLD_BYTES, Journal, Pending
from scheduler_service.persistence.sqlite.journal_page import encode_page
from scheduler_service.persistence.sqlite.kept_answers import KeptAnswers
from scheduler_service.persistence.sqlite.queue_parts import write_parts
from scheduler_service.persistence.sqlite.row_versions import (
    Face,
    RowVersion,
    fits_table,
    is_expected,
    write_jobs,
)
from scheduler_service.persistence.sqlite.rows import LARGE_BYTES
from scheduler_service.persistence.sqlite.statements import (
    CLEAR_DEFINITIONS,
    DROP_BATCHES,
    DROP_DEFINITIONS,
    DROP_DELIVERIES,
    DROP_JOBS,
    DROP_PAGES,
    PUT_DEFINITIONS,
    PUT_DELIVERIES,
    PUT_META,
    PUT_PAGES,
    put_rows,
)
from scheduler_service.ports.errors import StoreConflict, StoreUnavailable
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit, Remembered, StoredJob

MAX_SPENT_PAGES = 256
"""So many pages that are not needed any more are left until something else is written."""


FEW_FOLDS = 256
"""So many jobs are written within 5 ms, for which the commits of the group wait too."""


class Step(msgspec.Struct, frozen=True, gc=False):
    """One conditional write, run in the writer's transaction; its result is the verdict."""

    make: Callable[[sqlite3.Connection], object]


class Fold(msgspec.Struct, frozen=True, gc=False):
    """Moves turns from the journal into the table: up to `count` jobs, or all of them with all records.

    `is_awaited`: a reader waits for the rows that are behind for longest, also of jobs that move on with it.
    """

    count: int = FEW_FOLDS
    is_whole: bool = False
    is_awaited: bool = False


Write = StoreWrite | Step | Fold


class Group:
    """The sum of some writes over what the file holds. Lives within one transaction.

    `size`: the bytes of its documents and definitions, once it is flushed.
    """

    def __init__(
        self,
        *,
        connection: sqlite3.Connection,
        journal: Journal,
        writes: Sequence[Write],
        may_fold: bool = True,
    ) -> None:
        self._connection = connection
        self._journal = journal
        self.size = 0
        self._found: dict[str, RowVersion] = _find(connection, journal, writes)
        self._versions = dict(self._found)
        self._commits: dict[str, Commit] = {}
        self._direct: set[str] = set()  # jobs whose rows are written now, not through the journal
        self._forgotten: set[str] = set()
        self._definitions: dict[tuple[str, int], tuple[str, int, bytes] | None] = {}
        self._deliveries: dict[str, Delivery | None] = {}
        self._batches: dict[tuple[str, int], Batch] = {}
        self._confirmed: set[tuple[str, int]] = set()
        self._answers = KeptAnswers()
        self._meta: dict[str, int] = {}
        self._queued: list[QueueWrite] = []
        self._may_fold = may_fold
        self._folds = 0
        self._is_awaited = False
        self._journaled: list[Pending] = []
        self._folded: list[Pending] = []
        self._written: dict[str, RowVersion] = {}
        self._deleted = 0

    def take(self, write: Write) -> object:
        """Adds `write` to the sum. Returns its result, or the StoreConflict for which it was left out."""
        match write:
            case Commit():
                return self._take_commit(write)
            case Settle(settlements):
                for settlement in settlements:
                    delivery = settlement.delivery
                    self._deliveries[delivery.delivery_id] = None if settlement.done else delivery
                    self._take_batch(settlement.batch)
            case Written(keys):
                self._confirmed.update(keys)
                for key in keys:
                    self._batches.pop(key, None)
            case Remembered():
                self._answers.add(write)
            case Forget(job_id):
                return self._forget(job_id)
            case Keep(key, value):
                self._meta[key] = value
            case Step(make):
                return make(self._connection)
            case Fold(count, _, is_awaited):
                self._folds += count
                self._is_awaited |= is_awaited
                return None if self._may_fold else StoreUnavailable("the journal cannot be folded now")
        return None

    @property
    def batches(self) -> Collection[tuple[str, int]]:
        """The records that this group adds to the journal."""
        return self._batches.keys()

    @property
    def folds(self) -> bool:
        """Whether `flush` moves turns from the journal into the table."""
        return self._may_fold and (self._folds > 0 or self._journal.is_full)

    def flush(self) -> None:
        """Writes the sum into the open transaction."""
        self._flush_forgotten()
        self._flush_jobs()
        self._flush_definitions()
        self._flush_deliveries()
        self._flush_confirmed()
        self._answers.flush(self._connection)
        put_rows(self._connection, PUT_META, list(self._meta.items()))
        write_parts(self._connection, self._queued)
        self._flush_page()

    def settle(self) -> None:
        """Brings the journal's memory up to date after the transaction was committed."""
        journal = self._journal
        journal.delete_spent(self._deleted)
        if self._journaled or self._batches:
            journal.append(self._journaled, self._batches)
        for job_id in (*self._direct, *self._forgotten):
            journal.fold(job_id)
        for pending in self._folded:
            journal.fold(pending.job.entry.job_id)
        journal.confirm(self._confirmed)
        journal.row_versions.replace(self._written, without=self._forgotten)

    def _take_commit(self, commit: Commit) -> StoreConflict | None:
        entry = commit.entry
        version = self._versions.get(entry.job_id)
        if not is_expected(commit, version):
            return conflict(commit, None if version is None else (version.uid, version.sequence))
        self._commits[entry.job_id] = commit
        if commit.document is None or commit.definition is not None or version is None or version.destroyed:
            self._direct.add(entry.job_id)
        self._versions[entry.job_id] = RowVersion(entry.uid, commit.sequence, commit.document is None)
        if commit.definition is not None:
            self.size += len(commit.definition)
            value = (entry.job_id, entry.updated_at, commit.definition)
            self._definitions[entry.uid, entry.revision] = value
        self._take_batch(commit.batch)
        self._queued += commit.queued
        for delivery in commit.deliveries:
            self._deliveries[delivery.delivery_id] = delivery
        if commit.document is None:
            self._answers.end(entry.job_id)
        if commit.remembered is not None:
            self._answers.add(commit.remembered)
        return None

    def _take_batch(self, batch: Batch | None) -> None:
        if batch is not None:
            self._batches[batch.uid, batch.sequence] = batch
            self._confirmed.discard((batch.uid, batch.sequence))

    def _forget(self, job_id: str) -> bool:
        version = self._versions.get(job_id)
        if version is None or not version.destroyed:
            return False
        del self._versions[job_id]
        self._found.pop(job_id, None)
        self._direct.discard(job_id)
        self._commits.pop(job_id, None)
        for key, kept in self._definitions.items():
            if kept is not None and kept[0] == job_id:
                self._definitions[key] = None  # it has also replaced what the file has under its key
        self._forgotten.add(job_id)
        return True

    def _flush_forgotten(self) -> None:
        rows = [(job_id,) for job_id in self._forgotten]
        put_rows(self._connection, DROP_JOBS, rows)
        put_rows(self._connection, DROP_DEFINITIONS, rows)

    def _flush_jobs(self) -> None:
        """A turn that changes only the job's state goes to the journal; for others the row is written.

        It is for a large state too: the journal keeps its turns in memory, and would write them twice.
        """
        page = self._journal.next_page
        rows: list[tuple[StoredJob, Face | None]] = []
        awaited = self._choose_awaited()
        for job_id, commit in self._commits.items():
            found = self._found.get(job_id)
            face = None if found is None else found.face
            job = StoredJob(commit.entry, commit.sequence, commit.document, commit.due)
            size = len(job.document or b"")
            self.size += size
            if size > LARGE_BYTES or job_id in self._direct or job_id in awaited or not fits_table(job):
                self._direct.add(job_id)
                rows.append((job, face))
            else:
                self._journaled.append(Pending(job, page, face, size))
        if self.folds:
            chosen = awaited.values() or self._choose(self._journal.oldest, len(self._journaled), self.size)
            taken = self._commits.keys() | self._forgotten
            self._folded = [pending for pending in chosen if pending.job.entry.job_id not in taken]
            rows += [(pending.job, pending.face) for pending in self._folded]
        self._written = write_jobs(self._connection, rows)

    def _choose_awaited(self) -> dict[str, Pending]:
        """Jobs whose rows a reader waits for: those of them that move on go past the journal."""
        if not (self._is_awaited and self._may_fold):
            return {}
        size = sum([len(commit.document or b"") for commit in self._commits.values()])
        chosen = self._choose(self._journal.furthest_behind, len(self._commits), size)
        return {pending.job.entry.job_id: pending for pending in chosen}

    def _choose(self, order: Callable[[int, int], list[Pending]], added: int, size: int) -> list[Pending]:
        """The first in `order`: twice as many, and twice the bytes, as the journal may be full."""
        return order(max(self._folds, 2 * added), max(FOLD_BYTES, 2 * size))

    def _flush_definitions(self) -> None:
        items = self._definitions.items()
        put_rows(
            self._connection, PUT_DEFINITIONS, [(*key, *kept) for key, kept in items if kept is not None]
        )
        put_rows(self._connection, CLEAR_DEFINITIONS, [key for key, kept in items if kept is None])

    def _flush_deliveries(self) -> None:
        items = self._deliveries.items()
        put_rows(
            self._connection, PUT_DELIVERIES, [(key, pack(kept)) for key, kept in items if kept is not None]
        )
        put_rows(self._connection, DROP_DELIVERIES, [(key,) for key, kept in items if kept is None])

    def _flush_confirmed(self) -> None:
        """Records in the journal are deleted with their page; `unload` has moved the others to the table."""
        journaled = self._journal.batches
        put_rows(self._connection, DROP_BATCHES, [key for key in self._confirmed if key not in journaled])

    def _flush_page(self) -> None:
        """Writes one row for all turns and records of the journal; deletes rows of earlier groups."""
        spent = self._journal.spent
        if self._journaled or self._batches:
            content = encode_page([one.job for one in self._journaled], list(self._batches.values()))
            put_rows(self._connection, PUT_PAGES, [(self._journal.next_page, content)])
        elif not self._folds and len(spent) < MAX_SPENT_PAGES:
            return
        self._deleted = len(spent)
        put_rows(self._connection, DROP_PAGES, [(page,) for page in spent])


def _find(connection: sqlite3.Connection, journal: Journal, writes: Sequence[Write]) -> dict[str, RowVersion]:
    """The versions of the jobs that `writes` name, from the journal or else from the table."""
    versions: dict[str, RowVersion] = {}
    others: set[str] = set()
    turns = journal.turns
    for write in writes:
        if isinstance(write, Commit):
            job_id = write.entry.job_id
        elif isinstance(write, Forget):
            job_id = write.job_id
        else:
            continue
        pending = turns.get(job_id)
        if pending is None:
            others.add(job_id)
        else:
            job = pending.job
            versions[job_id] = RowVersion(job.entry.uid, job.sequence, False, pending.face)
    versions.update(journal.row_versions.find(connection, others))
    return versions
