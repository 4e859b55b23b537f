"""What `punctual db check` and `db repair` find and save."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import HISTORY_FILE, STATE_FILE, history_address
from scheduler_service.engine.snapshot import encode
from scheduler_service.maintenance.folder_formats import migrate_folder
from scheduler_service.maintenance.folder_repair import Repair, find_folder_damage, repair_folder
from scheduler_service.persistence.sqlite.folder import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreDamaged, StoreLocked, StoreRefused
from scheduler_service.settings import Settings
from tests.unit.engine.rig import Rig
from tests.unit.persistence.folders import divide
from tests.unit.persistence.samples import add_page, commit, page_of_0_1_0

PAGE = 4_096
ROWS = 2_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose history has many rows, some of whose pages are damaged."""
    migrate_folder(tmp_path, history_address(Settings(), tmp_path))
    place = tmp_path / HISTORY_FILE
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.executemany(
            "INSERT INTO entries (uid, execute_number, first, last, payload) VALUES (?, 1, 1, 1, ?)",
            [(f"uid-{number}", b"z" * 1_000) for number in range(ROWS)],
        )
    content = place.read_bytes()
    pages = [at for at in range(0, len(content), PAGE) if b"z" * 500 in content[at : at + PAGE]]
    with place.open("r+b") as file:
        file.seek(pages[len(pages) // 2])
        file.write(b"\x5a" * PAGE)
    return tmp_path


def history(folder: Path) -> str:
    return history_address(Settings(), folder)


def test_a_damaged_history_is_saved(folder: Path) -> None:
    """The rows around the damaged page; the state, which is whole, is not touched."""
    state = (folder / STATE_FILE).stat().st_ino
    found = find_folder_damage(folder, history(folder))
    assert {line.partition(":")[0] for line in found} == {HISTORY_FILE}
    (repair,) = repair_folder(folder, history(folder), now=0)
    assert isinstance(repair, Repair)
    assert (repair.name, repair.saved.damaged) == (HISTORY_FILE, ("entries",))
    assert ROWS - 10 < repair.saved.rows["entries"] < ROWS
    assert repair.kept.name == f"{HISTORY_FILE}.damaged-19700101T000000"
    assert (folder / STATE_FILE).stat().st_ino == state
    assert find_folder_damage(folder, history(folder)) == []
    assert repair_folder(folder, history(folder), now=1) == []
    assert sorted(place.name for place in folder.glob("*repaired*")) == []


def test_every_table_can_be_read_by_rowid(folder: Path) -> None:
    """A repair reads around damaged pages by it; a table without one would be lost as a whole."""
    for name in (HISTORY_FILE, STATE_FILE):
        with closing(sqlite3.connect(folder / name)) as connection:
            found = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        assert found
        assert [text for (text,) in found if "WITHOUT ROWID" in text.upper()] == []


async def leave_journal(folder: Path) -> Path:
    """What a crash of 0.1.0 leaves: `job`, whose row is damaged, and whose later turn is in the journal."""
    document = Rig(qos=1).create().document
    assert document is not None
    state = encode(document)
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit("job", document=state))
    await store.close()
    later = commit("job", expected=1, document=state, execute_number=1)
    with closing(sqlite3.connect(folder / STATE_FILE)) as connection, connection:
        add_page(connection, page_of_0_1_0([later], []))
        connection.execute("UPDATE jobs SET turn_state = x'c1c1' WHERE job_id = 'job'")
    return folder


async def test_a_job_with_a_later_turn_in_the_journal_is_kept(tmp_path: Path) -> None:
    """A start would read it, so a repair must not remove it."""
    copy = await leave_journal(tmp_path)
    assert repair_folder(copy, history(copy), now=0) == []
    store = await SqliteStateStore.open(folder=copy)
    found = await store.load("job")
    assert found is not None
    assert found.sequence == 2
    await store.close()


def test_a_folder_in_use_is_not_repaired(folder: Path) -> None:
    """Its service writes to the files."""
    lock = FolderLock.claim(folder)
    with pytest.raises(StoreLocked):
        repair_folder(folder, history(folder), now=0)
    lock.release()


def test_a_file_of_another_format_is_not_repaired(folder: Path) -> None:
    """Its rows would not fit into new tables; nothing is changed."""
    with closing(sqlite3.connect(folder / HISTORY_FILE)) as connection, connection:
        connection.execute("UPDATE history_version SET version_num = 'v0001'")
    before = sorted(place.name for place in folder.iterdir())
    with pytest.raises(StoreRefused, match="has format v0001"):
        repair_folder(folder, history(folder), now=0)
    assert sorted(place.name for place in folder.iterdir()) == before


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """What is not there cannot be repaired."""
    migrate_folder(tmp_path, history(tmp_path))
    divide(tmp_path, 2)
    (tmp_path / "state-1.db").unlink()
    with pytest.raises(StoreDamaged, match=r"state-1\.db is missing"):
        repair_folder(tmp_path, history(tmp_path), now=0)


def test_without_a_state_there_is_nothing_to_repair(folder: Path) -> None:
    """The remedy is a backup."""
    (folder / STATE_FILE).unlink()
    with pytest.raises(StoreDamaged, match=r"state\.db is missing"):
        repair_folder(folder, history(folder), now=0)
