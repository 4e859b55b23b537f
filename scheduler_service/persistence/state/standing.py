"""How jobs stand in the table: found, and written, many at a time."""

import sqlite3
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.state.rows import (
    MOMENTS,
    face_columns,
    face_digest,
    select,
    turn_columns,
    with_state,
)
from scheduler_service.persistence.state.statements import FINISH_JOBS, PUT_JOBS, TURN_JOBS, put_rows
from scheduler_service.ports import CatalogueEntry

_NO_MOMENTS = (None,) * len(MOMENTS)


class Standing(msgspec.Struct, frozen=True, gc=False):
    """A job as the next write finds it. `face`: the digest of its row; None: the table has no row yet."""

    uid: str
    sequence: int
    destroyed: bool
    face: int | None = None


class Turned(msgspec.Struct, frozen=True, gc=False):
    """A job as a turn left it; `document` None: destroyed."""

    entry: CatalogueEntry
    sequence: int
    document: bytes | None
    due: Due


def find_standings(connection: sqlite3.Connection, job_ids: Collection[str]) -> dict[str, Standing]:
    """Those of `job_ids` that have a row."""
    if not job_ids:
        return {}
    rows = select(
        connection,
        "job_id, uid, sequence, document IS NULL, face",
        "jobs WHERE job_id IN (SELECT value FROM json_each(?))",
        (msgspec.json.encode(list(job_ids)).decode(),),
    )
    return {row[0]: Standing(row[1], row[2], bool(row[3]), row[4]) for row in rows}


def write_jobs(connection: sqlite3.Connection, turns: Iterable[tuple[Turned, int | None]]) -> None:
    """Writes the rows of jobs, given with the digest of the face that each row has (None: no row).

    Of what is in the row already as little as possible is written again: each column that is named costs
    its indexes.
    """
    moved: list[tuple[Any, ...]] = []
    finished: list[tuple[Any, ...]] = []
    whole: list[tuple[Any, ...]] = []
    for turned, face in turns:
        entry = turned.entry
        columns = face_columns(entry)
        digest = face_digest(columns)
        values = turn_columns(entry, turned.sequence, turned.due, turned.document)
        if face == digest:
            moved.append((entry.job_id, *values))
        elif _has_just_finished(entry, values) and face == face_digest(with_state(columns, JobState.ACTIVE)):
            finished.append((entry.job_id, digest, entry.state.value, *values[len(MOMENTS) :]))
        else:
            whole.append((entry.job_id, digest, *columns, *values))
    put_rows(connection, TURN_JOBS, moved)
    put_rows(connection, FINISH_JOBS, finished)
    put_rows(connection, PUT_JOBS, whole)


def _has_just_finished(entry: CatalogueEntry, values: tuple[Any, ...]) -> bool:
    """Whether the job may have been active in its row, and waits for nothing any more."""
    return entry.state is JobState.FINISHED and values[: len(MOMENTS)] == _NO_MOMENTS
