"""The sum of a group of writes: each is checked in its order, their sum is written by one statement per kind.

There are few statements whatever the size of the group: for each one the writer's thread has to win the
interpreter back from a busy event loop.
"""

import sqlite3
from collections.abc import Callable, Sequence

import msgspec
import sqlalchemy as sa

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.persistence.common.packing import pack
from scheduler_service.persistence.queues.writes import write_parts
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.persistence.sqlite.row_versions import RowVersion, RowVersions, is_expected, write_jobs
from scheduler_service.persistence.sqlite.rows import batch_row
from scheduler_service.persistence.sqlite.statements import (
    CLEAR_DEFINITIONS,
    DROP_BATCHES,
    DROP_DEFINITIONS,
    DROP_DELIVERIES,
    DROP_JOBS,
    DROP_REMEMBERED,
    PRUNE_REMEMBERED,
    PUT_BATCHES,
    PUT_DEFINITIONS,
    PUT_DELIVERIES,
    PUT_META,
    PUT_REMEMBERED,
    put_rows,
)
from scheduler_service.ports.errors import StoreConflict
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import ANSWER_KEPT_MS, NOTHING, Commit, Remembered, Settlement, StoredJob

MAX_CONFIRMED = 1_024
"""So many records that the history has are left in the file until others are written."""

BatchKey = tuple[str, int]


class WriterStep(msgspec.Struct, frozen=True, gc=False):
    """One conditional write, run in the writer's transaction; its result is the verdict."""

    make: Callable[[sa.Connection], object]


class Settle(msgspec.Struct, frozen=True, gc=False):
    """Results of tries of deliveries."""

    settlements: tuple[Settlement, ...]


class ConfirmedBatches(msgspec.Struct, frozen=True, gc=False):
    """The history has these batches (uid, sequence); `at_once`: what it has is deleted now."""

    keys: tuple[tuple[str, int], ...]
    at_once: bool = False


class Forget(msgspec.Struct, frozen=True, gc=False):
    """Removes the last traces of a destroyed job; a living one stays. The verdict: whether there was one."""

    job_id: str


class Keep(msgspec.Struct, frozen=True, gc=False):
    """A number of the store's own."""

    key: str
    value: int


Write = Commit | Settle | Remembered | ConfirmedBatches | Forget | Keep | WriterStep


class CommitGroup:
    """The sum of some writes over what the file holds. Lives within one transaction.

    `statements` is the same `connection` for statements of SQLAlchemy, `dialect` the one they are made for.
    `confirmed`: records that the history has and the file may have, too; they are deleted together with what
    else is written. `size`: the bytes of its documents and definitions, once it is flushed.
    """

    def __init__(
        self,
        *,
        connection: sqlite3.Connection,
        statements: sa.Connection,
        dialect: SqliteDialect,
        confirmed: set[BatchKey],
        row_versions: RowVersions,
        writes: Sequence[Write],
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._dialect = dialect
        self._confirmed = confirmed
        self._row_versions = row_versions
        self.size = 0
        self._found: dict[str, RowVersion] = row_versions.find(connection, _jobs_of(writes))
        self._versions = dict(self._found)
        self._commits: dict[str, Commit] = {}
        self._forgotten: set[str] = set()
        self._definitions: dict[tuple[str, int], tuple[str, int, bytes] | None] = {}
        self._deliveries: dict[str, Delivery | None] = {}
        self._batches: dict[BatchKey, Batch] = {}
        self._dropped: tuple[BatchKey, ...] = ()
        self._drops_all = False
        self._answers = _KeptAnswers()
        self._meta: dict[str, int] = {}
        self._queued: list[QueueWrite] = []
        self._written: dict[str, RowVersion] = {}

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
            case ConfirmedBatches(keys, at_once):
                self._confirmed.update(keys)
                self._drops_all = self._drops_all or at_once
                for key in keys:
                    self._batches.pop(key, None)
            case Remembered():
                self._answers.add(write)
            case Forget(job_id):
                return self._forget(job_id)
            case Keep(key, value):
                self._meta[key] = value
            case WriterStep(make):
                return make(self._statements)
        return None

    def flush(self) -> None:
        """Writes the sum into the open transaction."""
        self._flush_forgotten()
        self._flush_jobs()
        self._flush_definitions()
        self._flush_deliveries()
        self._flush_records()
        self._answers.flush(self._connection)
        put_rows(self._connection, PUT_META, list(self._meta.items()))
        write_parts(self._statements, self._dialect, self._queued)

    def settle(self) -> None:
        """Brings the writer's memory up to date after the transaction was committed."""
        self._confirmed.difference_update(self._dropped)
        self._row_versions.replace(self._written, without=self._forgotten)

    def _take_commit(self, commit: Commit) -> StoreConflict | None:
        entry = commit.entry
        version = self._versions.get(entry.job_id)
        if not is_expected(commit, version):
            return _conflict(commit, None if version is None else (version.uid, version.sequence))
        self._commits[entry.job_id] = commit
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
        rows = []
        for job_id, commit in self._commits.items():
            found = self._found.get(job_id)
            job = StoredJob(commit.entry, commit.sequence, commit.document, commit.due)
            self.size += len(job.document or b"")
            rows.append((job, None if found is None else found.face))
        self._written = write_jobs(self._connection, rows)

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

    def _flush_records(self) -> None:
        """Those that the history has got meanwhile are not worth a write of their own."""
        put_rows(self._connection, PUT_BATCHES, [batch_row(batch) for batch in self._batches.values()])
        if self._batches or self._drops_all or len(self._confirmed) >= MAX_CONFIRMED:
            self._dropped = tuple(self._confirmed)
            put_rows(self._connection, DROP_BATCHES, self._dropped)


class _KeptAnswers:
    """What a group adds of answers to repeated requests, and the jobs whose lives it ends."""

    def __init__(self) -> None:
        self._added: dict[tuple[str, str], Remembered] = {}
        self._ended: set[str] = set()

    def add(self, remembered: Remembered) -> None:
        """Keeps an answer."""
        self._added[remembered.scope, remembered.key] = remembered

    def end(self, job_id: str) -> None:
        """An answer of a life that ends must not be given to a later one."""
        self._ended.add(job_id)
        self._added = {place: one for place, one in self._added.items() if one.job_id != job_id}

    def flush(self, connection: sqlite3.Connection) -> None:
        """Writes them into the open transaction; those that are older than a day are dropped."""
        put_rows(connection, DROP_REMEMBERED, [(job_id,) for job_id in self._ended])
        if not self._added:
            return
        put_rows(connection, PUT_REMEMBERED, [_row_of(kept) for kept in self._added.values()])
        newest = max(kept.created_at for kept in self._added.values())
        connection.execute(PRUNE_REMEMBERED, (newest - ANSWER_KEPT_MS,))


def _row_of(kept: Remembered) -> tuple[object, ...]:
    return kept.scope, kept.key, kept.created_at, kept.digest, kept.answer, kept.job_id


def _conflict(commit: Commit, stored: tuple[str, object] | None) -> StoreConflict:
    """Why `commit` is refused over the `stored` uid and sequence; None: the store has no such job."""
    job_id, expected = commit.entry.job_id, commit.expected
    if expected == NOTHING:
        return StoreConflict(f"Job {job_id} is in the store already, or was: load it.")
    if stored is None:
        return StoreConflict(f"Job {job_id} is not in the store: expected at sequence {expected}.")
    uid, sequence = stored
    return StoreConflict(
        f"Job {job_id} (life {uid}) is at sequence {sequence}, not at {expected} of life {commit.entry.uid}: "
        "another writer was first. Load it again."
    )


def _jobs_of(writes: Sequence[Write]) -> set[str]:
    """The ids of the jobs whose rows `writes` ask for."""
    found: set[str] = set()
    for write in writes:
        if isinstance(write, Commit):
            found.add(write.entry.job_id)
        elif isinstance(write, Forget):
            found.add(write.job_id)
    return found
