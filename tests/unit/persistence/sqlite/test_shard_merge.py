"""A folder whose jobs an earlier version divided: every row once, in `state.db`."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.sqlite import folder_lock
from scheduler_service.persistence.sqlite.database import open_reading
from scheduler_service.persistence.sqlite.folder_lock import is_divided
from scheduler_service.persistence.sqlite.schema import MIGRATIONS, upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import FolderUnusable, StoreRefused, StoreTooNew
from tests.fault_points import Breaking, EachPoint
from tests.unit.persistence.folders import (
    JOBS,
    TABLES,
    Place,
    check_gathered,
    contents,
    copy,
    divide,
    fill,
    gather_all,
    homes,
    owner_of,
    query,
    turn,
)
from tests.unit.persistence.samples import add_page, page_of_0_1_0

pytestmark = pytest.mark.anyio
BEFORE = f"before {FaultPoint.GATHER}"


class Camera(EachPoint):
    """Copies the folder before and after each commit."""

    def __init__(self, folder: Path, images: Path) -> None:
        self._folder = folder
        self._images = images
        images.mkdir()
        self.taken: list[Path] = []

    def at(self, place: str) -> None:
        image = self._images / str(len(self.taken))
        copy(self._folder, image)
        self.taken.append(image)


@pytest.fixture
async def crashed(tmp_path: Path) -> Path:
    """A folder with something in all tables, as a crash left it."""
    return await fill(tmp_path / "data")


@pytest.fixture
async def whole(crashed: Path, tmp_path: Path) -> list[Place]:
    """All its rows."""
    copy(crashed, tmp_path / "whole")
    await (await SqliteStateStore.open(folder=tmp_path / "whole")).close()
    return contents(tmp_path / "whole")["state.db"]


@pytest.mark.parametrize("count", [2, 3])
async def test_every_row_is_in_one_file(crashed: Path, whole: list[Place], count: int) -> None:
    """Nothing is lost, nothing twice, all as it was; the further files are gone, and the store opens."""
    assert {table for table, _ in whole} == set(TABLES)
    owned = Counter(owner_of(place) for place in whole)
    assert all(owned[job_id] == 7 for job_id in JOBS)
    divide(crashed, count)
    assert gather_all(crashed) == ["gathering", "gathered"]
    check_gathered(crashed, whole)
    assert [file.name for file in crashed.iterdir() if "-1" in file.name or "-2" in file.name] == []
    store = await SqliteStateStore.open(folder=crashed)
    # A job never begins below the sequences of the file that it comes from, nor on another steady line.
    assert (store.boot, await store.clock_skew()) == (10 * (count - 1) + 1, 77)
    await store.close()


async def test_turns_in_a_journal_go_with_their_job(crashed: Path) -> None:
    """What a worker process of 0.1.0 had only in its journal when it was killed is in the job's row."""
    job_id = next(job_id for job_id in JOBS if homes(2)(job_id) == 1)
    divide(crashed, 2)
    with closing(sqlite3.connect(crashed / "state-1.db")) as connection, connection:
        later = turn(job_id, 2)
        assert later.batch is not None
        add_page(connection, page_of_0_1_0([later], [later.batch]))
    gather_all(crashed)
    store = await SqliteStateStore.open(folder=crashed)
    stored = await store.load(job_id)
    assert stored is not None
    assert (stored.sequence, stored.entry.execute_number) == (3, 2)
    batches = await store.unwritten(("", 0), 100)
    assert [one.sequence for one in batches if one.job_id == job_id] == [1, 2, 3]
    await store.close()


async def test_a_crash_on_the_way_loses_nothing(crashed: Path, whole: list[Place], tmp_path: Path) -> None:
    """Killed before or after any of its commits, the next start brings together the rest."""
    divide(crashed, 3)
    camera = Camera(crashed, tmp_path / "images")
    gather_all(crashed, faults=camera)
    assert len(camera.taken) > 20
    for image in camera.taken:
        with closing(sqlite3.connect(image / "state.db")) as connection, pytest.raises(StoreTooNew):
            upgrade(connection, place="state.db", migrations=MIGRATIONS[:-1])  # as an older program does
        gather_all(image)
        check_gathered(image, whole)


@pytest.mark.parametrize("commit", [1, 4, 9])
async def test_a_full_disk_is_told_and_gone_on_from(crashed: Path, whole: list[Place], commit: int) -> None:
    """A failure on the way refuses the start with a message; the next start goes on."""
    full = sqlite3.OperationalError("database or disk is full")
    divide(crashed, 2)
    with pytest.raises(FolderUnusable, match="disk is full"):
        gather_all(crashed, faults=Breaking(BEFORE, full, passage=commit))
    gather_all(crashed)
    check_gathered(crashed, whole)


async def test_a_division_that_was_cut_off_is_gathered_too(crashed: Path, whole: list[Place]) -> None:
    """An older program was killed while it moved jobs to other files: one of them is in two, equal."""
    divide(crashed, 2)
    with (
        closing(sqlite3.connect(crashed / "state-1.db")) as other,
        closing(sqlite3.connect(crashed / "state.db")) as first,
        first,
    ):
        row = other.execute("SELECT * FROM jobs LIMIT 1").fetchone()
        first.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * len(row))})", row)
        first.execute("UPDATE meta SET value = 0 WHERE key = 'shares'")
    gather_all(crashed)
    check_gathered(crashed, whole)


async def test_a_folder_of_one_file_is_left_alone(crashed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No table of jobs is read, nothing written: whatever its size, it costs the same."""
    asked: list[str] = []

    def listen(place: str) -> sqlite3.Connection:
        connection = open_reading(place)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(folder_lock, "open_reading", listen)
    assert gather_all(crashed) == []
    assert [text for text in asked if "PRAGMA" not in text] == [
        "SELECT count(*) FROM sqlite_schema",
        "SELECT value FROM meta WHERE key = 'shares'",
    ]


async def test_a_divided_folder_is_not_opened_as_if_it_were_whole(crashed: Path) -> None:
    """Who opens it without bringing it together is refused, and the lock is free again."""
    divide(crashed, 3)
    with pytest.raises(StoreRefused, match="several files"):
        await SqliteStateStore.open(folder=crashed)
    assert is_divided(crashed)
    gather_all(crashed)
    await (await SqliteStateStore.open(folder=crashed)).close()
    assert query(crashed / "state.db", "SELECT count(*) FROM jobs") == [(len(JOBS),)]
