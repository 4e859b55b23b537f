"""Copies of files that are written meanwhile are copies of one moment."""

import sqlite3
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite.snapshot import copy_as_of_now
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreLocked, StoreRefused
from tests.unit.persistence.folders import contents, fill, query, split

pytestmark = pytest.mark.anyio
HISTORY = "history.db"
FILES = ("state.db", "state-1.db")


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


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_copy_has_every_row(tmp_path: Path, shards: int) -> None:
    """Of all tables of all shards, the journal included; only their owner can read the files."""
    folder = await fill(tmp_path / "filled")
    split(folder, shards)
    names = copy_all(folder, tmp_path / "copy")
    assert names == ["state.db", "state-1.db", "state-2.db"][:shards]
    assert sorted(place.name for place in (tmp_path / "copy").iterdir()) == sorted(names)
    assert {place.stat().st_mode & 0o777 for place in (tmp_path / "copy").iterdir()} == {0o600}
    assert contents(tmp_path / "copy") == contents(folder)


async def test_what_the_state_has_given_up_is_in_the_history(tmp_path: Path) -> None:
    """Records go from the state to the history and are then removed from it, while copies are made."""
    folder = await fill(tmp_path / "filled")
    split(folder, 2)
    with closing(connect(folder / HISTORY)) as history:
        history.execute("CREATE TABLE kept (shard INTEGER, number INTEGER)")
    ended = threading.Event()
    writers = [threading.Thread(target=move_records, args=(folder, shard, ended)) for shard in (0, 1)]
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


def move_records(folder: Path, shard: int, ended: threading.Event) -> None:
    """As a service: a turn commits records with its state; the history gets them; the state drops them."""
    with closing(connect(folder / FILES[shard])) as state, closing(connect(folder / HISTORY)) as history:
        number = 0
        while not ended.is_set():
            number += 1
            state.execute("BEGIN IMMEDIATE")
            state.execute("INSERT INTO unwritten VALUES ('u', ?, 'of a job', 'default', 0, x'')", (number,))
            state.execute("INSERT OR REPLACE INTO meta VALUES ('newest', ?)", (number,))
            state.execute("COMMIT")
            history.execute("INSERT INTO kept VALUES (?, ?)", (shard, number))
            state.execute("DELETE FROM unwritten WHERE uid = 'u' AND sequence = ?", (number,))


def check_records(into: Path) -> None:
    for shard, name in enumerate(FILES):
        kept = numbers(into / HISTORY, f"SELECT number FROM kept WHERE shard = {shard}")
        left = numbers(into / name, "SELECT sequence FROM unwritten WHERE uid = 'u'")
        newest = max(numbers(into / name, "SELECT value FROM meta WHERE key = 'newest'"), default=0)
        # Nothing is missing in both, and the history knows of no turn that the state does not.
        assert kept | left == set(range(1, newest + 1))


def numbers(file: Path, text: str) -> set[int]:
    return {int(str(row[0])) for row in query(file, text)}


async def test_a_division_under_way_is_waited_for(tmp_path: Path) -> None:
    """Its jobs may be in any file."""
    folder = await fill(tmp_path / "filled")
    split(folder, 2)
    with closing(connect(folder / "state.db")) as state:
        state.execute("UPDATE meta SET value = 0 WHERE key = 'shares'")
    with pytest.raises(StoreRefused, match="Wait until the log says 'divided'"):
        copy_all(folder, tmp_path / "copy")


async def test_a_writer_that_never_pauses_is_told(tmp_path: Path) -> None:
    """After some patience; nothing is locked any more then."""
    folder = await fill(tmp_path / "filled")
    split(folder, 2)
    with closing(connect(folder / "state-1.db")) as other, closing(connect(folder / "state.db")) as first:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked, match="written without a pause"):
            copy_all(folder, tmp_path / "copy", patience=0.1)
        first.execute("BEGIN IMMEDIATE")
        first.execute("ROLLBACK")
        other.execute("ROLLBACK")
    assert list((tmp_path / "copy").iterdir()) == []


async def test_a_writer_is_held_up_for_one_try_only(tmp_path: Path) -> None:
    """However many files there are, and however late each of them is free."""
    folder = await fill(tmp_path / "filled")
    split(folder, 6)
    with ExitStack() as opened, ThreadPoolExecutor(1) as thread:
        held = [opened.enter_context(closing(connect(folder / f"state-{one}.db"))) for one in range(1, 6)]
        for holder in held:
            holder.execute("BEGIN IMMEDIATE")
        copying = thread.submit(copy_all, folder, tmp_path / "copy", try_seconds=0.2)
        refused = write_until(copying, folder / "state.db", held)
        assert len(copying.result()) == 6
    assert refused < 5


def write_until(copying: Future[list[str]], place: Path, held: list[sqlite3.Connection]) -> int:
    """How often in a row a writer waited 0.12 s in vain; each time one more of the other files is free."""
    longest = refused = 0
    with closing(connect(place)) as writer:
        writer.execute("PRAGMA busy_timeout = 120")
        while not copying.done():
            try:
                writer.execute("BEGIN IMMEDIATE")
                writer.execute("ROLLBACK")
                refused = 0
            except sqlite3.OperationalError:
                refused += 1
                longest = max(longest, refused)
                if held:
                    held.pop(0).execute("ROLLBACK")
    return longest


def test_a_folder_without_a_state_is_named(tmp_path: Path) -> None:
    """And no file is made by looking; a file of something else is refused."""
    with pytest.raises(FolderUnusable, match=r"state\.db is missing"):
        copy_all(tmp_path, tmp_path / "copy")
    assert [place.name for place in tmp_path.iterdir()] == ["copy"]
    (tmp_path / "state.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreDamaged, match=r"state\.db"):
        copy_as_of_now(tmp_path, others={}, into=tmp_path / "copy", on_progress=say_nothing)
