"""What a file of a store keeps, for whom, and when it is durable."""

import asyncio
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.persistence.sqlite.database import open_beside, open_writing
from scheduler_service.persistence.sqlite.files import MANY_BYTES, Checkpoints
from scheduler_service.persistence.sqlite.schema import MIGRATIONS, upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreDamaged, StoreTooNew
from tests.fault_points import WriteGate
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


async def test_reads_never_wait_for_the_writer(tmp_path: Path) -> None:
    """While a group is being written, reads answer with what was committed before."""
    gate = WriteGate()
    store = await SqliteStateStore.open(folder=tmp_path, faults=gate)
    answer = asyncio.ensure_future(store.commit(commit()))
    assert await asyncio.to_thread(gate.reached.wait, 20)
    assert await store.load("job") is None
    assert await store.catalogue.get("job") is None
    assert not answer.done()
    gate.opened.set()
    await answer
    assert await store.load("job") is not None
    await store.close()
    # The file holds the keys of feedback tokens: no other user may read it or its log
    store = await SqliteStateStore.open(folder=tmp_path / "new")
    await store.commit(commit())
    for name in ("state.db", "state.db-wal"):
        assert (tmp_path / "new" / name).stat().st_mode & 0o077 == 0
    await store.close()


FAST = 2
"""Of `secure_delete`: freed pages are not written for it."""


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("process", 1)])
async def test_durability_decides_what_a_commit_waits_for(
    tmp_path: Path, durability: str, synchronous: int
) -> None:
    """ "full" syncs the log at each commit, "process" leaves it to the system (SPEC section 8)."""
    store = await SqliteStateStore.open(folder=tmp_path, durability=durability)
    connection = store.files.writing
    assert connection.execute("PRAGMA synchronous").fetchall() == [(synchronous,)]
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert connection.execute("PRAGMA secure_delete").fetchall() == [(FAST,)]
    await store.close()


async def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """A word that means nothing is named with those that do, and leaves the folder free."""
    with pytest.raises(ValueError, match=r"'some'.*full, process"):
        await SqliteStateStore.open(folder=tmp_path, durability="some")
    await (await SqliteStateStore.open(folder=tmp_path)).close()


def open_logged(folder: Path) -> sqlite3.Connection:
    """A store's file whose log is never brought in by a commit."""
    connection = open_writing(str(folder / "state.db"), durability="full")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def rows_without_log(folder: Path) -> int:
    """How many rows are in the file without the log."""
    alone = folder / "alone.db"
    shutil.copy(folder / "state.db", alone)
    connection = sqlite3.connect(alone)
    try:
        found: int = connection.execute("SELECT count(*) FROM meta WHERE key LIKE 'row-%'").fetchall()[0][0]
        return found
    finally:
        connection.close()


def test_what_was_written_comes_into_the_file(tmp_path: Path) -> None:
    """Without a commit that has to wait for it (decision 65)."""
    writing = open_logged(tmp_path)
    asked = threading.Event()
    beside = open_beside(str(tmp_path / "state.db"))
    beside.set_trace_callback(lambda _: asked.set())
    checkpoints = Checkpoints(connection=beside, pause=0.0)
    writing.execute("INSERT INTO meta (key, value) VALUES ('row-1', 1)")
    assert rows_without_log(tmp_path) == 0
    checkpoints.note()
    assert asked.wait(10)
    checkpoints.close()
    assert rows_without_log(tmp_path) == 1
    writing.close()
    # Where nothing is written the thread sleeps; `close` ends it
    writing = open_logged(tmp_path)
    statements: list[str] = []
    beside = open_beside(str(tmp_path / "state.db"))
    beside.set_trace_callback(statements.append)
    Checkpoints(connection=beside, pause=0.0).close()
    assert statements == []
    writing.close()


def test_an_array_as_large_as_allowed_waits_for_no_checkpoint(tmp_path: Path) -> None:
    """Nor do firings behind it: its 16 MiB, a definition and a document of each job, stay in the log."""
    writing = open_writing(str(tmp_path / "state.db"), durability="full")
    writing.execute("CREATE TABLE large (value)")
    writing.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = (tmp_path / "state.db").stat().st_size
    for _ in range(32):
        writing.execute("INSERT INTO large VALUES (zeroblob(1048576))")
    assert (tmp_path / "state.db").stat().st_size == before
    writing.close()


def test_after_many_bytes_the_pause_ends(tmp_path: Path) -> None:
    """A long checkpoint would hold up the commits beside it; after few bytes it takes its time."""
    writing = open_logged(tmp_path)
    asked = threading.Event()
    beside = open_beside(str(tmp_path / "state.db"))
    beside.set_trace_callback(lambda _: asked.set())
    checkpoints = Checkpoints(connection=beside, pause=1_000.0)
    writing.execute("INSERT INTO meta (key, value) VALUES ('row-1', 1)")
    checkpoints.note(MANY_BYTES - 1)
    assert not asked.is_set()
    checkpoints.note(1)
    assert asked.wait(10)
    checkpoints.close()
    assert rows_without_log(tmp_path) == 1
    writing.close()


class Failing(sqlite3.Connection):
    """A connection to a file that cannot be written."""

    asked: threading.Event

    def execute(self, *_: Any) -> Any:
        self.asked.set()
        raise sqlite3.OperationalError("disk I/O error")


def test_a_checkpoint_that_fails_is_tried_again() -> None:
    """After the next write; a commit that needs what cannot be written fails."""
    failing = sqlite3.connect(":memory:", factory=Failing, check_same_thread=False)
    failing.asked = threading.Event()
    checkpoints = Checkpoints(connection=failing, pause=0.0)
    for _ in range(3):
        failing.asked.clear()
        checkpoints.note()
        assert failing.asked.wait(10)
    checkpoints.close()


def test_a_close_is_never_overheard(tmp_path: Path) -> None:
    """Whatever the thread is just doing: it ends."""
    writing = open_logged(tmp_path)
    for _ in range(300):
        checkpoints = Checkpoints(connection=open_beside(str(tmp_path / "state.db")), pause=0.0)
        checkpoints.note()
        checkpoints.close()
    writing.close()


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """A file of a newer program is left alone and named."""
    await (await SqliteStateStore.open(folder=tmp_path)).close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(StoreTooNew, match="999"):
        await SqliteStateStore.open(folder=tmp_path)


async def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    """A database that is not ours is not touched."""
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    content = (tmp_path / "state.db").read_bytes()
    with pytest.raises(StoreDamaged, match="another program"):
        await SqliteStateStore.open(folder=tmp_path)
    assert (tmp_path / "state.db").read_bytes() == content


def test_a_new_file_has_all_that_the_steps_lead_to() -> None:
    """Though it is a copy, made in one transaction."""
    found = []
    for migrations in (MIGRATIONS, [*MIGRATIONS]):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            upgrade(connection, place=":memory:", migrations=migrations)
            version = connection.execute("PRAGMA user_version").fetchall()
            owner = connection.execute("PRAGMA application_id").fetchall()
            found.append([version, owner, *connection.iterdump()])
    assert found[0] == found[1]
    assert len(found[0]) > 10


async def test_an_older_format_is_upgraded_step_by_step(tmp_path: Path) -> None:
    """Each missing step is taken in a transaction; one that fails changes nothing."""
    store = await SqliteStateStore.open(folder=tmp_path)
    await store.commit(commit())
    await store.close()
    connection = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    further = ("ALTER TABLE jobs ADD COLUMN note TEXT", "UPDATE jobs SET note = 'new'")
    with pytest.raises(sqlite3.OperationalError):
        upgrade(connection, place="state.db", migrations=(*MIGRATIONS, (*further, "NONSENSE")))
    assert connection.execute("PRAGMA user_version").fetchall() == [(len(MIGRATIONS),)]
    upgrade(connection, place="state.db", migrations=(*MIGRATIONS, further))
    assert connection.execute("SELECT job_id, note FROM jobs").fetchall() == [("job", "new")]
    assert connection.execute("PRAGMA user_version").fetchall() == [(len(MIGRATIONS) + 1,)]
    connection.close()
