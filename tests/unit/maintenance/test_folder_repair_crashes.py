"""A repair that is killed at any moment loses nothing that it could have saved, and is gone on with."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.app.data_folder import STATE_FILE, history_address
from scheduler_service.engine.snapshot import encode
from scheduler_service.maintenance.folder_formats import migrate_folder
from scheduler_service.maintenance.folder_repair import find_folder_damage, repair_folder
from scheduler_service.persistence.sqlite.damage import find_damage
from scheduler_service.persistence.sqlite.folder import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import FolderUnusable
from scheduler_service.settings import Settings
from tests.unit.engine.rig import Rig
from tests.unit.persistence.samples import commit

ROOT = Path(__file__).resolve().parents[3]
PAGE = 4_096
JOBS = 60
LATER = 7
LEAST_POINTS = 20


def history(folder: Path) -> str:
    return history_address(Settings(), folder)


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
    document = Rig(qos=1).create().document
    assert document is not None
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
