"""The versions of the jobs' rows: found, compared with what a commit expects, and written, many at a time."""

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.sqlite.rows import (
    LARGE_BYTES,
    MOMENTS,
    face_columns,
    face_digest,
    select,
    turn_columns,
    with_state,
)
from scheduler_service.persistence.sqlite.statements import (
    FINISH_JOBS,
    PUT_JOBS,
    UPDATE_TURN,
    UPDATE_UNINDEXED,
    put_row,
    put_rows,
)
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.state import NOTHING, Commit, StoredJob

MAX_CACHED = 16_384
"""Of so many rows the version is cached."""

_NO_MOMENTS = (None,) * len(MOMENTS)


class Face(msgspec.Struct, frozen=True, gc=False):
    """What of a row is not written again while it is equal: the digest of FACE, and the values of MOMENTS.

    `large_bytes`: those of its document, if that is large.
    """

    digest: int
    moments: tuple[int | None, ...]
    large_bytes: int = 0


class RowVersion(msgspec.Struct, frozen=True, gc=False):
    """A job as the next write finds it. `face` None: the table has no row of this job yet."""

    uid: str
    sequence: int
    destroyed: bool
    face: Face | None = None


def find_row_versions(connection: sqlite3.Connection, job_ids: Collection[str]) -> dict[str, RowVersion]:
    """The versions of those of `job_ids` that have a row."""
    if not job_ids:
        return {}
    rows = select(
        connection,
        "job_id, uid, sequence, document IS NULL, face, due_wall, due_steady, next_fire, "
        f"iif(length(document) > {LARGE_BYTES}, length(document), 0)",
        "jobs WHERE job_id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(list(job_ids)).decode(),),
    )
    return {
        row[0]: RowVersion(row[1], row[2], bool(row[3]), Face(row[4], tuple(row[5:8]), row[8]))
        for row in rows
    }


class RowVersions:
    """A cache of the rows written last: the next turn of such a job needs no query.

    It has what the file has, and nothing that was not committed. Where several processes write the file, it
    is right all the same: a job's row is written and deleted by the process alone that has the job, by the
    hash of its id, and a process is followed by another one only when it has ended. For the writer's thread
    alone.
    """

    def __init__(self, *, limit: int = MAX_CACHED) -> None:
        self._limit = limit
        self._cached: dict[str, RowVersion] = {}

    def find(self, connection: sqlite3.Connection, job_ids: Collection[str]) -> dict[str, RowVersion]:
        """The versions of those of `job_ids` that have a row."""
        cached = self._cached
        found = {job_id: cached[job_id] for job_id in job_ids if job_id in cached}
        if len(found) < len(job_ids):
            found.update(find_row_versions(connection, [job_id for job_id in job_ids if job_id not in found]))
        return found

    def replace(self, written: Mapping[str, RowVersion], *, without: Iterable[str]) -> None:
        """The file has these rows now, and none of the jobs `without`."""
        for job_id in without:
            self._cached.pop(job_id, None)
        for job_id, version in written.items():
            self._cached.pop(job_id, None)  # moves it to the end: those written longest ago are evicted first
            self._cached[job_id] = version
        for job_id in list(islice(self._cached, max(len(self._cached) - self._limit, 0))):
            del self._cached[job_id]

    def clear(self) -> None:
        """What the file has is unknown."""
        self._cached.clear()


def write_jobs(
    connection: sqlite3.Connection, jobs: Iterable[tuple[StoredJob, Face | None]]
) -> dict[str, RowVersion]:
    """Writes the rows of jobs, given with the face that each row has (None: no row).

    Returns their versions, valid once the transaction has been committed. As few columns as possible are
    written: each one that is named costs its indexes, and a page of each. A row that had a large document is
    written alone: a statement over several rows keeps what it replaces in memory until its end.
    """
    unindexed: list[tuple[Any, ...]] = []
    turned: list[tuple[Any, ...]] = []
    finished: list[tuple[Any, ...]] = []
    whole: list[tuple[Any, ...]] = []
    written: dict[str, RowVersion] = {}
    for job, known in jobs:
        entry = job.entry
        columns = face_columns(entry)
        values = turn_columns(entry, job.sequence, job.due, job.document)
        size = len(job.document or b"")
        large_bytes = size if size > LARGE_BYTES else 0
        face = Face(face_digest(columns), values[: len(MOMENTS)], large_bytes)
        written[entry.job_id] = RowVersion(entry.uid, job.sequence, job.document is None, face)
        if known is not None and known.digest == face.digest:
            if known.moments == face.moments:
                rows, shape, row = unindexed, UPDATE_UNINDEXED, (entry.job_id, *values[len(MOMENTS) :])
            else:
                rows, shape, row = turned, UPDATE_TURN, (entry.job_id, *values)
        elif known is not None and _has_just_finished(entry, face, columns, known):
            rows, shape = finished, FINISH_JOBS
            row = (entry.job_id, face.digest, entry.state._value_, *values[len(MOMENTS) :])
        else:
            rows, shape, row = whole, PUT_JOBS, (entry.job_id, face.digest, *columns, *values)
        if known is not None and known.large_bytes:
            put_row(connection, shape, row)
        else:
            rows.append(row)
    put_rows(connection, UPDATE_UNINDEXED, unindexed)
    put_rows(connection, UPDATE_TURN, turned)
    put_rows(connection, FINISH_JOBS, finished)
    put_rows(connection, PUT_JOBS, whole)
    return written


def _has_just_finished(entry: CatalogueEntry, face: Face, columns: tuple[Any, ...], known: Face) -> bool:
    """Whether the only differences are that the job was active, and that it has no alarm any more."""
    if entry.state is not JobState.FINISHED or face.moments != _NO_MOMENTS:
        return False
    return known.digest == face_digest(with_state(columns, JobState.ACTIVE))


def is_expected(commit: Commit, version: RowVersion | None) -> bool:
    """Whether `commit` was decided over this version of its job.

    Over a destroyed job a new life may expect either 0 or the sequence of the destruction. Of a living job
    the uid must be the same too: sequences of two lives may be equal.
    """
    if version is None:
        return commit.expected in (0, NOTHING)
    if version.destroyed:
        return commit.expected in (0, version.sequence)
    return commit.expected == version.sequence and commit.entry.uid == version.uid
