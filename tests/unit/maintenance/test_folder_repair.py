"""What `punctual db check` and `db repair` find and save."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import HISTORY_FILE, STATE_FILE, history_address
from scheduler_service.engine.document_bytes import encode
from scheduler_service.maintenance.folder_formats import migrate_folder
from scheduler_service.maintenance.folder_repair import Repair, find_folder_damage, repair_folder
from scheduler_service.persistence.sqlite.damage import find_damage
from scheduler_service.persistence.sqlite.folder_lock import REPAIRING, FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreLocked, StoreRefused
from scheduler_service.settings import Settings
from tests.present import present
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
    # One that is damaged again in the same second is kept beside the first
    overwrite(folder / HISTORY_FILE, b"z" * 500)
    (again,) = repair_folder(folder, history(folder), now=0)
    assert isinstance(again, Repair)
    assert again.kept.name == f"{repair.kept.name}-2"
    assert find_damage(repair.kept)


def test_every_table_can_be_read_by_rowid(folder: Path) -> None:
    """A repair reads around damaged pages by it; a table without one would be lost as a whole."""
    for name in (HISTORY_FILE, STATE_FILE):
        with closing(sqlite3.connect(folder / name)) as connection:
            found = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        assert found
        assert [text for (text,) in found if "WITHOUT ROWID" in text.upper()] == []


async def leave_journal(folder: Path) -> Path:
    """What a crash of 0.1.0 leaves: `job`, whose row is damaged, and whose later turn is in the journal."""
    document = present(Rig(qos=1).create().document)
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
    found = present(await store.load("job"))
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


def test_a_file_without_room_beside_it_is_not_repaired(folder: Path) -> None:
    """A repair that filled the disk would stop whatever else writes there."""
    with (folder / HISTORY_FILE).open("r+b") as file:
        file.truncate(1 << 42)  # of which the disk has a little
    before = sorted(place.name for place in folder.iterdir())
    with pytest.raises(FolderUnusable, match="Make room first"):
        repair_folder(folder, history(folder), now=0)
    assert sorted(place.name for place in folder.iterdir()) == before


def test_a_repair_that_was_cut_off_is_named(tmp_path: Path) -> None:
    """Whatever its files say: no service starts on the folder before it is ended."""
    migrate_folder(tmp_path, history(tmp_path))
    (tmp_path / REPAIRING).touch()
    (line,) = find_folder_damage(tmp_path, history(tmp_path))
    assert "run 'punctual db repair' again" in line


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


ROOT = Path(__file__).resolve().parents[3]
JOBS = 60
LATER = 7
LEAST_POINTS = 20


def overwrite(place: Path, mark: bytes) -> None:
    """Destroys the page of the file in the middle of those that hold `mark`."""
    content = place.read_bytes()
    pages = [at for at in range(0, len(content), PAGE) if mark in content[at : at + PAGE]]
    with place.open("r+b") as file:
        file.seek(pages[len(pages) // 2])
        file.write(b"\x5a" * PAGE)


@pytest.fixture
async def damaged(tmp_path: Path) -> Path:
    """The file has a damaged page; `first` has its last turn in the log alone; `lost` cannot be read."""
    data, copy = tmp_path / "data", tmp_path / "damaged"
    data.mkdir()
    migrate_folder(data, history(data))
    document = present(Rig(qos=1).create().document)
    state = encode(document)
    store = await SqliteStateStore.open(folder=data)
    for name in ("first", *(f"job-{number}" for number in range(JOBS)), "lost"):
        definition = json.dumps({"jobId": name, "note": "n" * 2_000}).encode()
        await store.commit(commit(name, document=state, definition=definition, revision=1))
    await store.close()
    with closing(sqlite3.connect(data / STATE_FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        with connection:
            connection.execute("UPDATE jobs SET sequence = ? WHERE job_id = 'first'", (LATER,))
            connection.execute("UPDATE jobs SET turn_state = x'c1c1' WHERE job_id = 'lost'")
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*-shm"))
    overwrite(copy / STATE_FILE, b"n" * 500)
    return copy


def rows(folder: Path) -> dict[str, int]:
    """The sequence of each job of a folder, by its state file alone."""
    with closing(sqlite3.connect(folder / STATE_FILE)) as connection:
        return dict(connection.execute("SELECT job_id, sequence FROM jobs ORDER BY job_id").fetchall())


def defined(folder: Path) -> set[str]:
    """The jobs of which a definition is kept in a file, whole or not."""
    texts = [place.read_text() for place in folder.glob("*.jobs-*.json")]
    return {name for name in ("first", "lost") if any(f'"{name}"' in text for text in texts)}


def sweep(damaged: Path, into: Path) -> list[Path]:
    """Copies of the folder, each left by a repair that was killed one point later; the last was not."""
    into.mkdir()
    command = [sys.executable, "-m", "tests.unit.maintenance.repairing", str(damaged), str(into)]
    subprocess.run(command, cwd=ROOT, check=True)
    return sorted(into.iterdir(), key=lambda place: int(place.name))


async def test_a_killed_repair_is_gone_on_with(damaged: Path, tmp_path: Path) -> None:
    """Killed at each of its steps: no service starts on a file without its log; the next repair ends it."""
    *killed, whole = sweep(damaged, tmp_path / "killed")
    assert len(killed) >= LEAST_POINTS
    expected = rows(whole)
    assert expected["first"] == LATER
    assert "lost" not in expected
    assert defined(whole) == {"lost"}
    for folder in killed:
        try:
            FolderLock.claim(folder).release()
        except FolderUnusable:
            assert find_folder_damage(folder, history(folder))
        else:  # a start would find the damaged file with its log, or the new one
            assert rows(folder)["first"] == LATER
        repair_folder(folder, history(folder), now=1_000)
        assert rows(folder) == expected
        assert find_folder_damage(folder, history(folder)) == []
        assert defined(folder) == {"lost"}
        kept = [place for place in folder.glob("*.damaged-*") if not place.name.endswith("-wal")]
        assert any(find_damage(place) for place in kept)
        assert list(folder.glob("*.repaired*")) == []
