"""Copies of files that are written meanwhile are copies of one moment."""

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite.snapshot import copy_as_of_now
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreLocked, StoreRefused
from tests.unit.persistence.folders import contents, divide, fill, query

pytestmark = pytest.mark.anyio
HISTORY = "history.db"


def say_nothing(name: str, done: int, size: int) -> None:
    """Nobody watches."""


def copy_all(folder: Path, into: Path, *, patience: float = 10.0, try_seconds: float = 1.0) -> list[str]:
    into.mkdir()
    return copy_as_of_now(
        folder,
        others={},
        into=into,
        on_progress=say_nothing,
        patience=patience,
        try_seconds=try_seconds,
    )


def connect(place: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(place, isolation_level=None, timeout=30, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


async def test_a_copy_has_every_row(tmp_path: Path) -> None:
    """Of all tables; only their owner can read the files."""
    folder = await fill(tmp_path / "filled")
    names = copy_all(folder, tmp_path / "copy")
    assert names == ["state.db"]
    assert sorted(place.name for place in (tmp_path / "copy").iterdir()) == sorted(names)
    assert {place.stat().st_mode & 0o777 for place in (tmp_path / "copy").iterdir()} == {0o600}
    assert contents(tmp_path / "copy") == contents(folder)


async def test_what_the_state_has_given_up_is_in_the_history(tmp_path: Path) -> None:
    """Records go from the state to the history and are then removed from it, while copies are made."""
    folder = await fill(tmp_path / "filled")
    with closing(connect(folder / HISTORY)) as history:
        history.execute("CREATE TABLE kept (process INTEGER, number INTEGER)")
    ended = threading.Event()
    writers = [threading.Thread(target=move_records, args=(folder, process, ended)) for process in (0, 1)]
    for writer in writers:
        writer.start()
    try:
        for number in range(15):
            into = tmp_path / f"copy-{number}"
            into.mkdir()
            copy_as_of_now(folder, others={HISTORY: folder / HISTORY}, into=into, on_progress=say_nothing)
            check_records(into)
    finally:
        ended.set()
        for writer in writers:
            writer.join()


def move_records(folder: Path, process: int, ended: threading.Event) -> None:
    """As a process: a turn commits records with its state; the history gets them; the state drops them."""
    uid = f"u{process}"
    with closing(connect(folder / "state.db")) as state, closing(connect(folder / HISTORY)) as history:
        number = 0
        while not ended.is_set():
            number += 1
            state.execute("BEGIN IMMEDIATE")
            state.execute("INSERT INTO unwritten VALUES (?, ?, 'a', 'default', 0, x'')", (uid, number))
            state.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"newest{process}", number))
            state.execute("COMMIT")
            history.execute("INSERT INTO kept VALUES (?, ?)", (process, number))
            state.execute("DELETE FROM unwritten WHERE uid = ? AND sequence = ?", (uid, number))


def check_records(into: Path) -> None:
    for process in (0, 1):
        kept = numbers(into / HISTORY, f"SELECT number FROM kept WHERE process = {process}")
        left = numbers(into / "state.db", f"SELECT sequence FROM unwritten WHERE uid = 'u{process}'")
        newest = numbers(into / "state.db", f"SELECT value FROM meta WHERE key = 'newest{process}'")
        # Nothing is missing in both, and the history knows of no turn that the state does not.
        assert kept | left == set(range(1, max(newest, default=0) + 1))


def numbers(file: Path, text: str) -> set[int]:
    return {int(str(row[0])) for row in query(file, text)}


async def test_a_divided_folder_is_refused(tmp_path: Path) -> None:
    """Of files that an earlier version divided no copy is made; the message says what to do."""
    folder = await fill(tmp_path / "filled")
    divide(folder, 2)
    with pytest.raises(StoreRefused, match="punctual db migrate"):
        copy_all(folder, tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


async def test_a_writer_that_never_pauses_is_told(tmp_path: Path) -> None:
    """After some patience; nothing is locked any more then."""
    folder = await fill(tmp_path / "filled")
    with closing(connect(folder / "state.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked, match="written without a pause"):
            copy_all(folder, tmp_path / "copy", patience=0.1)
        other.execute("ROLLBACK")
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
    assert list((tmp_path / "copy").iterdir()) == []


async def test_a_writer_that_pauses_late_is_waited_for(tmp_path: Path) -> None:
    """One try after the other, between which writers go on."""
    folder = await fill(tmp_path / "filled")
    with closing(connect(folder / "state.db")) as writer, ThreadPoolExecutor(1) as thread:
        writer.execute("BEGIN IMMEDIATE")
        copying = thread.submit(copy_all, folder, tmp_path / "copy", try_seconds=0.01)
        wait([copying], timeout=0.1)
        assert not copying.done()
        writer.execute("COMMIT")
        assert copying.result() == ["state.db"]


def test_a_folder_without_a_state_is_named(tmp_path: Path) -> None:
    """And no file is made by looking; a file of something else is refused."""
    with pytest.raises(FolderUnusable, match=r"state\.db is missing"):
        copy_all(tmp_path, tmp_path / "copy")
    assert [place.name for place in tmp_path.iterdir()] == ["copy"]
    (tmp_path / "state.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreDamaged, match=r"state\.db"):
        copy_as_of_now(tmp_path, others={}, into=tmp_path / "copy", on_progress=say_nothing)
