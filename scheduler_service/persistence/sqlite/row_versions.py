"""How jobs stand in the table: found, judged and written, many at a time."""

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.sqlite.rows import (
    MOMENTS,
    face_columns,
    face_digest,
    select,
    turn_columns,
    with_state,
)
from scheduler_service.persistence.sqlite.statements import (
    COUNT_JOBS,
    FINISH_JOBS,
    PUT_JOBS,
    TURN_JOBS,
    put_rows,
)
from scheduler_service.ports.catalogue import CatalogueEntry
from scheduler_service.ports.errors import StoreConflict
from scheduler_service.ports.state import NOTHING, Commit

# Of so many rows memory knows how they stand.
MOST_KNOWN = 16_384

_BEYOND = 1 << 63
_NO_MOMENTS = (None,) * len(MOMENTS)


class Face(msgspec.Struct, frozen=True, gc=False):
    """What of a row is left alone while it is equal: the digest of FACE, and the values of MOMENTS."""

    digest: int
    moments: tuple[int | None, ...]


class RowVersion(msgspec.Struct, frozen=True, gc=False):
    """A job as the next write finds it. `face`: that of its row; None: the table has no row yet."""

    uid: str
    sequence: int
    destroyed: bool
    face: Face | None = None


class Turned(msgspec.Struct, frozen=True, gc=False):
    """A job as a turn left it; `document` None: destroyed."""

    entry: CatalogueEntry
    sequence: int
    document: bytes | None
    due: Due


def find_row_versions(connection: sqlite3.Connection, job_ids: Collection[str]) -> dict[str, RowVersion]:
    """Those of `job_ids` that have a row."""
    if not job_ids:
        return {}
    rows = select(
        connection,
        "job_id, uid, sequence, document IS NULL, face, due_wall, due_steady, next_fire",
        "jobs WHERE job_id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(list(job_ids)).decode(),),
    )
    return {row[0]: RowVersion(row[1], row[2], bool(row[3]), Face(row[4], tuple(row[5:]))) for row in rows}


class RowVersions:
    """How the rows stand that were written last: the next turn of such a job asks no table.

    It knows what the file has, and nothing that was not committed. Of the one writer's thread.
    """

    def __init__(self, *, most: int = MOST_KNOWN) -> None:
        self._most = most
        self._known: dict[str, RowVersion] = {}

    def find(self, connection: sqlite3.Connection, job_ids: Collection[str]) -> dict[str, RowVersion]:
        """Those of `job_ids` that have a row."""
        known = self._known
        found = {job_id: known[job_id] for job_id in job_ids if job_id in known}
        if len(found) < len(job_ids):
            found.update(find_row_versions(connection, [job_id for job_id in job_ids if job_id not in found]))
        return found

    def replace(self, written: Mapping[str, RowVersion], *, without: Iterable[str]) -> None:
        """The file has these rows now, and none of those `without`."""
        for job_id in without:
            self._known.pop(job_id, None)
        for job_id, standing in written.items():
            self._known.pop(job_id, None)  # those written last are the last ones to go
            self._known[job_id] = standing
        for job_id in list(islice(self._known, max(len(self._known) - self._most, 0))):
            del self._known[job_id]

    def clear(self) -> None:
        """Nobody knows what the file has."""
        self._known.clear()


def write_jobs(
    connection: sqlite3.Connection, turns: Iterable[tuple[Turned, Face | None]]
) -> dict[str, RowVersion]:
    """Writes the rows of jobs, given with the face that each row has (None: no row).

    Returns how they stand once the transaction has ended well. Of what is in the row already as little as
    possible is written again: each column that is named costs its indexes, and a page of each.
    """
    counted: list[tuple[Any, ...]] = []
    moved: list[tuple[Any, ...]] = []
    finished: list[tuple[Any, ...]] = []
    whole: list[tuple[Any, ...]] = []
    written: dict[str, RowVersion] = {}
    for turned, known in turns:
        entry = turned.entry
        columns = face_columns(entry)
        values = turn_columns(entry, turned.sequence, turned.due, turned.document)
        face = Face(face_digest(columns), values[: len(MOMENTS)])
        written[entry.job_id] = RowVersion(entry.uid, turned.sequence, turned.document is None, face)
        if known is not None and known.digest == face.digest:
            if known.moments == face.moments:
                counted.append((entry.job_id, *values[len(MOMENTS) :]))
            else:
                moved.append((entry.job_id, *values))
        elif known is not None and _has_just_finished(entry, face, columns, known):
            finished.append((entry.job_id, face.digest, entry.state._value_, *values[len(MOMENTS) :]))
        else:
            whole.append((entry.job_id, face.digest, *columns, *values))
    put_rows(connection, COUNT_JOBS, counted)
    put_rows(connection, TURN_JOBS, moved)
    put_rows(connection, FINISH_JOBS, finished)
    put_rows(connection, PUT_JOBS, whole)
    return written


def _has_just_finished(entry: CatalogueEntry, face: Face, columns: tuple[Any, ...], known: Face) -> bool:
    """Whether nothing differs but that the job was active, and that it waits for nothing any more."""
    if entry.state is not JobState.FINISHED or face.moments != _NO_MOMENTS:
        return False
    return known.digest == face_digest(with_state(columns, JobState.ACTIVE))


def fits(turned: Turned) -> bool:
    """Whether the table can hold what the journal can: what it cannot has to fail now, and alone."""
    entry, due = turned.entry, turned.due
    return (
        entry.execute_number < _BEYOND
        and entry.request_counts < _BEYOND
        and entry.missed < _BEYOND
        and turned.sequence < _BEYOND
        and (due.wall is None or due.wall < _BEYOND)
        and (due.steady is None or due.steady < _BEYOND)
        and (entry.next_fire is None or entry.next_fire < _BEYOND)
    )


def follows(commit: Commit, standing: RowVersion | None) -> bool:
    """Whether `commit` was decided over what stands there.

    Over a destroyed job a new life may name either 0 or the sequence of the destruction. A living job is
    also told by its uid: sequences of two lives may be equal.
    """
    if standing is None:
        return commit.expected in (0, NOTHING)
    if standing.destroyed:
        return commit.expected in (0, standing.sequence)
    return commit.expected == standing.sequence and commit.entry.uid == standing.uid


def conflict(commit: Commit, standing: RowVersion | None) -> StoreConflict:
    """Why `commit` does not count over what stands there."""
    job_id = commit.entry.job_id
    if commit.expected == NOTHING:
        return StoreConflict(f"Job {job_id} is in the store already, or was: load it.")
    if standing is None:
        return StoreConflict(f"Job {job_id} is not in the store: expected at sequence {commit.expected}.")
    return StoreConflict(
        f"Job {job_id} (life {standing.uid}) stands at sequence {standing.sequence}, not at "
        f"{commit.expected} of life {commit.entry.uid}: another writer was first. Load it again."
    )
