"""What a group of writes comes to: each one judged in its order, their sum written by a statement per kind.

Statements are few whatever the size of the group: in a writer's thread each one has to win the interpreter
back from a busy event loop.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler_service.domain.effects import Delivery, QueueWrite
from scheduler_service.domain.moments import DAY
from scheduler_service.persistence.state.parts import write_parts
from scheduler_service.persistence.state.rows import (
    face_columns,
    face_digest,
    pack_delivery,
    pack_records,
    select,
    turn_columns,
)
from scheduler_service.persistence.state.sqlite_queues import Step
from scheduler_service.persistence.state.statements import (
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
    PUT_JOBS,
    PUT_META,
    PUT_REMEMBERED,
    TURN_JOBS,
    Shape,
    write_text,
)
from scheduler_service.ports import NOTHING, Batch, Commit, Remembered, Settlement, StoreConflict

_CHUNK = 256  # rows of one statement: their parameters stay far below SQLite's 32,766


class Settle(msgspec.Struct, frozen=True, gc=False):
    """What became of some deliveries."""

    settlements: tuple[Settlement, ...]


class Written(msgspec.Struct, frozen=True, gc=False):
    """The history has these batches."""

    keys: tuple[tuple[str, int], ...]


class Forget(msgspec.Struct, frozen=True, gc=False):
    """The last traces of a destroyed job go; a living one stays. The verdict says whether there was one."""

    job_id: str


class Keep(msgspec.Struct, frozen=True, gc=False):
    """A number of the store's own."""

    key: str
    value: int


Write = Commit | Settle | Remembered | Written | Forget | Keep | Step


class Standing(msgspec.Struct, frozen=True, gc=False):
    """A job as the next write finds it. `face` None: its row is not in the file yet."""

    uid: str
    sequence: int
    destroyed: bool
    face: int | None = None


class Group:
    """The sum of some writes over what the file holds. Lives within one transaction."""

    def __init__(self, *, connection: sqlite3.Connection, writes: Sequence[Write]) -> None:
        self._connection = connection
        self._found = _find(connection, writes)
        self._standing = dict(self._found)
        self._commits: dict[str, Commit] = {}
        self._forgotten: set[str] = set()
        self._definitions: dict[tuple[str, int], tuple[str, int, bytes] | None] = {}
        self._deliveries: dict[str, Delivery | None] = {}
        self._batches: dict[tuple[str, int], Batch | None] = {}
        self._remembered: dict[tuple[str, str], Remembered] = {}
        self._ended: set[str] = set()
        self._kept: dict[str, int] = {}
        self._queued: list[QueueWrite] = []

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
                self._batches.update(dict.fromkeys(keys))
            case Remembered():
                self._remembered[write.scope, write.key] = write
            case Forget(job_id):
                return self._forget(job_id)
            case Keep(key, value):
                self._kept[key] = value
            case Step(make):
                return make(self._connection)
        return None

    def flush(self) -> None:
        """Writes the sum into the open transaction."""
        self._flush_forgotten()
        self._flush_jobs()
        self._flush_definitions()
        self._flush_deliveries()
        self._flush_batches()
        self._flush_remembered()
        self._put(PUT_META, list(self._kept.items()))
        write_parts(self._connection, self._queued)

    def _take_commit(self, commit: Commit) -> StoreConflict | None:
        entry = commit.entry
        standing = self._standing.get(entry.job_id)
        if not _follows(commit, standing):
            return _conflict(commit, standing)
        self._commits[entry.job_id] = commit
        self._standing[entry.job_id] = Standing(entry.uid, commit.sequence, commit.document is None)
        if commit.definition is not None:
            value = (entry.job_id, entry.updated_at, commit.definition)
            self._definitions[entry.uid, entry.revision] = value
        self._take_batch(commit.batch)
        self._queued += commit.queued
        for delivery in commit.deliveries:
            self._deliveries[delivery.delivery_id] = delivery
        if commit.document is None:
            self._forget_answers(entry.job_id)
        if commit.remembered is not None:
            self._remembered[commit.remembered.scope, commit.remembered.key] = commit.remembered
        return None

    def _forget_answers(self, job_id: str) -> None:
        """What was answered in a life that ends fits no later one."""
        self._ended.add(job_id)
        kept = self._remembered.items()
        self._remembered = {place: one for place, one in kept if one.job_id != job_id}

    def _take_batch(self, batch: Batch | None) -> None:
        if batch is not None:
            self._batches[batch.uid, batch.sequence] = batch

    def _forget(self, job_id: str) -> bool:
        standing = self._standing.get(job_id)
        if standing is None or not standing.destroyed:
            return False
        del self._standing[job_id]
        self._found.pop(job_id, None)
        self._commits.pop(job_id, None)
        for key, kept in self._definitions.items():
            if kept is not None and kept[0] == job_id:
                self._definitions[key] = None  # it also took the place of what the file has under its key
        self._forgotten.add(job_id)
        return True

    def _flush_forgotten(self) -> None:
        rows = [(job_id,) for job_id in self._forgotten]
        self._put(DROP_JOBS, rows)
        self._put(DROP_DEFINITIONS, rows)

    def _flush_jobs(self) -> None:
        turned: list[tuple[Any, ...]] = []
        whole: list[tuple[Any, ...]] = []
        for job_id, commit in self._commits.items():
            columns = face_columns(commit.entry)
            digest = face_digest(columns)
            found = self._found.get(job_id)
            if found is not None and found.face == digest:
                turned.append((job_id, *turn_columns(commit)))
            else:
                whole.append((job_id, digest, *columns, *turn_columns(commit)))
        self._put(TURN_JOBS, turned)
        self._put(PUT_JOBS, whole)

    def _flush_definitions(self) -> None:
        items = self._definitions.items()
        self._put(PUT_DEFINITIONS, [(*key, *kept) for key, kept in items if kept is not None])
        self._put(CLEAR_DEFINITIONS, [key for key, kept in items if kept is None])

    def _flush_deliveries(self) -> None:
        items = self._deliveries.items()
        self._put(PUT_DELIVERIES, [(key, pack_delivery(kept)) for key, kept in items if kept is not None])
        self._put(DROP_DELIVERIES, [(key,) for key, kept in items if kept is None])

    def _flush_batches(self) -> None:
        items = self._batches.items()
        self._put(PUT_BATCHES, [_batch_row(batch) for _, batch in items if batch is not None])
        self._put(DROP_BATCHES, [key for key, batch in items if batch is None])

    def _flush_remembered(self) -> None:
        self._put(DROP_REMEMBERED, [(job_id,) for job_id in self._ended])
        if not self._remembered:
            return
        rows = [
            (*key, kept.created_at, kept.digest, kept.answer, kept.job_id)
            for key, kept in self._remembered.items()
        ]
        self._put(PUT_REMEMBERED, rows)
        newest = max(kept.created_at for kept in self._remembered.values())
        self._connection.execute(PRUNE_REMEMBERED, (newest - DAY,))

    def _put(self, shape: Shape, rows: Sequence[tuple[Any, ...]]) -> None:
        """Writes `rows` by statements of 256, 128, 64 … rows, so that few texts serve groups of any size."""
        start = 0
        while start < len(rows):
            count = min(_CHUNK, 1 << ((len(rows) - start).bit_length() - 1))
            part = rows[start : start + count]
            self._connection.execute(write_text(shape, count), [value for row in part for value in row])
            start += count


def _find(connection: sqlite3.Connection, writes: Sequence[Write]) -> dict[str, Standing]:
    job_ids = {write.entry.job_id for write in writes if isinstance(write, Commit)}
    job_ids.update(write.job_id for write in writes if isinstance(write, Forget))
    if not job_ids:
        return {}
    rows = select(
        connection,
        "job_id, uid, sequence, document IS NULL, face",
        "jobs WHERE job_id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(list(job_ids)).decode(),),
    )
    return {row[0]: Standing(row[1], row[2], bool(row[3]), row[4]) for row in rows}


def _follows(commit: Commit, standing: Standing | None) -> bool:
    """Whether `commit` was decided over what stands there.

    Over a destroyed job a new life may name either 0 or the sequence of the destruction. A living job is
    also told by its uid: sequences of two lives may be equal.
    """
    if standing is None:
        return commit.expected in (0, NOTHING)
    if standing.destroyed:
        return commit.expected in (0, standing.sequence)
    return commit.expected == standing.sequence and commit.entry.uid == standing.uid


def _conflict(commit: Commit, standing: Standing | None) -> StoreConflict:
    job_id = commit.entry.job_id
    if commit.expected == NOTHING:
        return StoreConflict(f"Job {job_id} is in the store already, or was: load it.")
    if standing is None:
        return StoreConflict(f"Job {job_id} is not in the store: expected at sequence {commit.expected}.")
    return StoreConflict(
        f"Job {job_id} (life {standing.uid}) stands at sequence {standing.sequence}, not at "
        f"{commit.expected} of life {commit.entry.uid}: another writer was first. Load it again."
    )


def _batch_row(batch: Batch) -> tuple[Any, ...]:
    return (
        batch.uid, batch.sequence, batch.job_id, batch.tenant, batch.at, pack_records(batch.records),
    )  # fmt: skip
