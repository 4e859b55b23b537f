"""Checkpoints beside the writer: the file gets what the log has, and no other connection notices."""

import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

from scheduler_service.persistence.sqlite.database import open_beside, open_writing
from scheduler_service.persistence.sqlite.files import MANY_BYTES, Checkpoints


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


def test_nothing_is_done_for_nothing(tmp_path: Path) -> None:
    """Where nothing is written the thread sleeps; `close` ends it."""
    writing = open_logged(tmp_path)
    statements: list[str] = []
    beside = open_beside(str(tmp_path / "state.db"))
    beside.set_trace_callback(statements.append)
    Checkpoints(connection=beside, pause=0.0).close()
    assert statements == []
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
