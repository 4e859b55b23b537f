"""Rows of jobs are changed as little as possible, and are the same as if they had been written whole."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.sqlite.row_versions import (
    Face,
    RowVersion,
    RowVersions,
    find_row_versions,
    write_jobs,
)
from scheduler_service.persistence.sqlite.rows import LARGE_BYTES
from scheduler_service.persistence.sqlite.schema import upgrade
from scheduler_service.ports.state import StoredJob
from tests.unit.persistence.samples import entry

ACTIVE = entry("job", state=JobState.ACTIVE, next_fire=7, live=1)
BEFORE = StoredJob(ACTIVE, 1, b"before", Due(wall=7, steady=5))
OVER = {"next_fire": None, "live": 0, "latest": b"{}"}


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """An empty state in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        upgrade(connection, place=":memory:")
        yield connection


def write(connection: sqlite3.Connection, job: StoredJob, face: Face | None) -> list[str]:
    """Writes one job; the statements that it took."""
    heard: list[str] = []
    connection.set_trace_callback(heard.append)
    write_jobs(connection, [(job, face)])
    connection.set_trace_callback(None)
    return heard


def rows(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    """All that is known of the jobs."""
    return connection.execute("SELECT * FROM jobs").fetchall()


@pytest.mark.parametrize(
    ("changes", "due", "form"),
    [
        ({}, Due(wall=9), "UPDATE"),
        ({}, Due(wall=7), "UPDATE"),
        ({"execute_number": 9}, Due(wall=7, steady=5), "UPDATE"),
        (OVER, Due(), "UPDATE"),
        ({"state": JobState.FINISHED, **OVER}, Due(), "UPDATE"),
        ({"state": JobState.FINISHED, **OVER}, Due(steady=8), "INSERT"),
        ({"state": JobState.FINISHED, **OVER, "next_fire": 9}, Due(), "INSERT"),
        ({"state": JobState.FINISHED, **OVER, "updated_at": 99}, Due(), "INSERT"),
        ({"state": JobState.PAUSED, **OVER}, Due(), "INSERT"),
        ({"state": JobState.FINISHED, **OVER, "uid": "another"}, Due(), "INSERT"),
    ],
)
def test_a_row_is_changed_in_part_and_reads_as_if_written_whole(
    database: sqlite3.Connection, changes: dict[str, object], due: Due, form: str
) -> None:
    """A turn changes a row's moments and counts; where a one-shot job finishes, its state with them."""
    write(database, BEFORE, None)
    face = find_row_versions(database, ["job"])["job"].face
    after = StoredJob(replace(ACTIVE, **changes), 2, b"after", due)
    heard = write(database, after, face)
    found = rows(database)
    database.execute("DELETE FROM jobs")
    write(database, after, None)
    assert found == rows(database)
    assert len(heard) == 1
    assert form == ("UPDATE" if ") UPDATE jobs" in heard[0] else "INSERT")


@pytest.mark.parametrize(
    ("changes", "due", "form"),
    [
        ({}, Due(wall=7, steady=5), "UPDATE"),
        ({}, Due(wall=9), "UPDATE"),
        ({"state": JobState.FINISHED, **OVER}, Due(), "UPDATE"),
        ({"state": JobState.PAUSED, **OVER}, Due(), "INSERT"),
    ],
)
@pytest.mark.parametrize("size", [1, LARGE_BYTES + 1])
def test_what_takes_the_place_of_a_large_document_is_written_alone(
    database: sqlite3.Connection, changes: dict[str, object], due: Due, form: str, size: int
) -> None:
    """As it would be among others; the statement has nothing of it afterwards."""
    large = b"x" * (LARGE_BYTES + 1)
    known = write_jobs(database, [(replace(BEFORE, document=large), None)])
    assert known == find_row_versions(database, ["job"])
    face = known["job"].face
    assert face is not None
    assert face.large_bytes
    after = StoredJob(replace(ACTIVE, **changes), 2, b"x" * size, due)
    heard = write(database, after, face)
    found = rows(database)
    assert find_row_versions(database, ["job"])["job"].face.large_bytes == (size if size > LARGE_BYTES else 0)
    database.execute("DELETE FROM jobs")
    write(database, after, None)
    assert found == rows(database)
    assert [one.split()[0] for one in heard] == [form, form]
    assert "NULL" in heard[1]


@pytest.mark.parametrize(
    ("due", "named"), [(Due(wall=7, steady=5), False), (Due(wall=7), True), (Due(), True)]
)
def test_moments_that_stay_are_not_written(database: sqlite3.Connection, due: Due, named: bool) -> None:
    """A job that was triggered waits for what it waited for: the indexes of moments stay as they are, and
    their pages clean.
    """
    write(database, BEFORE, None)
    face = find_row_versions(database, ["job"])["job"].face
    heard = write(database, StoredJob(replace(ACTIVE, execute_number=9), 2, b"after", due), face)
    assert ("due_wall" in heard[0]) is named


def test_a_finished_job_is_written_again_with_its_new_face(database: sqlite3.Connection) -> None:
    """Afterwards the row has the face of the finished job: the next turn finds it."""
    write(database, BEFORE, None)
    finished = replace(ACTIVE, state=JobState.FINISHED, **OVER)
    for sequence in (2, 3):
        face = find_row_versions(database, ["job"])["job"].face
        heard = write(database, StoredJob(finished, sequence, b"after", Due()), face)
    assert "new_state" not in heard[0]
    assert find_row_versions(database, ["job"])["job"].sequence == 3


def test_memory_knows_what_was_written_and_asks_for_the_rest(database: sqlite3.Connection) -> None:
    """What it says is what the table says; what is gone is not known, and neither is what is in doubt."""
    versions = RowVersions()
    others = [StoredJob(replace(ACTIVE, job_id=name), 4, b"x", Due()) for name in ("one", "two", "gone")]
    written = write_jobs(database, [(job, None) for job in others])
    assert written == find_row_versions(database, ["one", "two", "gone"])
    versions.replace({"one": written["one"], "gone": written["gone"]}, without=())
    database.execute("DELETE FROM jobs WHERE job_id = 'gone'")
    versions.replace({}, without=["gone"])
    heard: list[str] = []
    database.set_trace_callback(heard.append)
    assert versions.find(database, ["one"]) == {"one": written["one"]}
    assert heard == []
    assert versions.find(database, {"one", "two", "gone"}) == {"one": written["one"], "two": written["two"]}
    assert len(heard) == 1
    assert '"one"' not in heard[0]
    versions.clear()
    assert versions.find(database, ["one"]) == {"one": written["one"]}
    assert len(heard) == 2


def test_memory_keeps_a_bounded_number(database: sqlite3.Connection) -> None:
    """Those written longest ago go first; a row that is written again counts as new."""
    versions = RowVersions(limit=2)
    for name in ("a", "b", "a", "c"):
        versions.replace({name: RowVersion("u", 1, False, Face(1, (None, None, None)))}, without=())
    assert versions.find(database, ["a", "b", "c"]).keys() == {"a", "c"}


def test_a_destroyed_job_is_known_as_such(database: sqlite3.Connection) -> None:
    """Its row stays, and the next life is judged by it."""
    destroyed = StoredJob(replace(ACTIVE, state=JobState.DESTROYED), 9, None, Due())
    assert write_jobs(database, [(destroyed, None)]) == find_row_versions(database, ["job"])
    assert find_row_versions(database, ["job"])["job"].destroyed
