"""A folder that is divided among worker processes: every row once, in the file of its job's shard."""

import asyncio
import fcntl
import sqlite3
import subprocess
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite import folder
from scheduler_service.persistence.sqlite.database import open_reading
from scheduler_service.persistence.sqlite.folder import FolderLock, count_shards
from scheduler_service.persistence.sqlite.schema import MIGRATIONS, upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import (
    FolderUnusable,
    StoreDamaged,
    StoreLocked,
    StoreRefused,
    StoreTooNew,
)
from scheduler_service.ports.state import Remembered
from tests.unit.persistence.crashing import start
from tests.unit.persistence.folders import (
    JOBS,
    TABLES,
    Place,
    check_division,
    contents,
    copy,
    fill,
    homes,
    owner_of,
    query,
    split,
    turn,
)
from tests.unit.persistence.samples import add_page, page_of_0_1_0

pytestmark = pytest.mark.anyio


class Camera:
    """Copies the folder before and after each commit."""

    def __init__(self, folder: Path, images: Path) -> None:
        self._folder = folder
        self._images = images
        images.mkdir()
        self.taken: list[Path] = []

    def before(self, point: str) -> None:
        self._take()

    def after(self, point: str) -> None:
        self._take()

    def _take(self) -> None:
        image = self._images / str(len(self.taken))
        copy(self._folder, image)
        self.taken.append(image)


class Failing:
    """Fails before the n-th commit, counted from 1."""

    def __init__(self, commit: int) -> None:
        self._left = commit

    def before(self, point: str) -> None:
        self._left -= 1
        if self._left == 0:
            raise sqlite3.OperationalError("database or disk is full")

    def after(self, point: str) -> None:
        return


@pytest.fixture
async def crashed(tmp_path: Path) -> Path:
    """A folder with something in all tables, turns in the journal too, that was never divided."""
    return await fill(tmp_path / "data")


@pytest.fixture
async def whole(crashed: Path, tmp_path: Path) -> list[Place]:
    """All its rows, as an opening brings them into the tables."""
    copy(crashed, tmp_path / "whole")
    await (await SqliteStateStore.open(folder=tmp_path / "whole")).close()
    return contents(tmp_path / "whole")["state.db"]


async def test_every_row_goes_where_its_job_lives(crashed: Path, whole: list[Place]) -> None:
    """1, 2, 3 and 1 shard again: what a job has is with it, nothing lost, nothing twice, all as it was."""
    assert {table for table, _ in whole} == set(TABLES)
    owned = Counter(owner_of(place) for place in whole)
    assert all(owned[job_id] == 7 for job_id in JOBS)
    for shards in (2, 3, 1):
        assert split(crashed, shards) == ["dividing", "divided"]
        check_division(crashed, shards, whole)
    assert [file.name for file in crashed.iterdir() if "-1" in file.name or "-2" in file.name] == []


async def test_turns_in_a_journal_go_with_their_job(crashed: Path) -> None:
    """What a worker process of 0.1.0 had only in its journal when it was killed is in the job's new file."""
    job_id = next(job_id for job_id in JOBS if homes(2)(job_id) == 1)
    split(crashed, 2)
    with closing(sqlite3.connect(crashed / "state-1.db")) as connection, connection:
        later = turn(job_id, 2)
        assert later.batch is not None
        add_page(connection, page_of_0_1_0([later], [later.batch]))
    split(crashed, 1)
    store = await SqliteStateStore.open(folder=crashed)
    stored = await store.load(job_id)
    assert stored is not None
    assert (stored.sequence, stored.entry.execute_number) == (3, 2)
    batches = await store.unwritten(("", 0), 100)
    assert [one.sequence for one in batches if one.job_id == job_id] == [1, 2, 3]
    await store.close()


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("again", [1, 2, 3])
@pytest.mark.parametrize(("before", "wanted"), [(1, 2), (3, 1), (2, 3)])
async def test_a_division_that_was_cut_off_is_gone_on_with(
    crashed: Path, whole: list[Place], tmp_path: Path, before: int, wanted: int, again: int, stride: int
) -> None:
    """Killed before or after any of its commits, then started with any number: all rows, each once.

    The usual run takes each kill with one of the three numbers, `--long` with all of them.
    """
    if before > 1:
        split(crashed, before)
    camera = Camera(crashed, tmp_path / "images")
    split(crashed, wanted, faults=camera, batch_size=100)
    assert len(camera.taken) > 20
    for image in camera.taken[1 + again % stride :: stride]:  # at the first one nothing was begun
        split(image, again, batch_size=100)
        check_division(image, again, whole)


async def test_a_second_crash_does_no_more_harm_than_the_first(
    crashed: Path, whole: list[Place], tmp_path: Path
) -> None:
    """Cut off on the way to 2, cut off again on the way to 3, then started with 2."""
    first = Camera(crashed, tmp_path / "first")
    split(crashed, 2, faults=first, batch_size=100)
    middle = first.taken[len(first.taken) // 2]
    second = Camera(middle, tmp_path / "second")
    split(middle, 3, faults=second, batch_size=100)
    for image in second.taken[::3]:
        split(image, 2, batch_size=100)
        check_division(image, 2, whole)


@pytest.mark.parametrize("commit", [1, 4, 9])
async def test_a_full_disk_is_told_and_gone_on_from(crashed: Path, whole: list[Place], commit: int) -> None:
    """A failure on the way refuses the start with a message; the next start finishes the resharding."""
    with pytest.raises(FolderUnusable, match="disk is full"):
        split(crashed, 2, faults=Failing(commit))
    split(crashed, 2)
    check_division(crashed, 2, whole)


@pytest.mark.parametrize("shards", [1, 3])
async def test_a_folder_that_is_divided_rightly_is_left_alone(
    crashed: Path, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No table of jobs is read, no home asked for, nothing written: whatever its size, it costs the same."""
    if shards > 1:
        split(crashed, shards)
    asked: list[str] = []

    def listen(place: str) -> sqlite3.Connection:
        connection = open_reading(place)
        connection.set_trace_callback(asked.append)
        return connection

    monkeypatch.setattr(folder, "open_reading", listen)
    assert split(crashed, shards) == []
    assert len(asked) == 4
    assert [text for text in asked if "PRAGMA" not in text] == [
        "SELECT count(*) FROM sqlite_schema",
        "SELECT value FROM meta WHERE key = 'shares'",
    ]


async def test_a_new_folder_is_divided_too(tmp_path: Path) -> None:
    """A first start with workers makes all files; one without makes none before the store does."""
    assert split(tmp_path / "one", 1) == []
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["lock"]
    split(tmp_path / "three", 3)
    check_division(tmp_path / "three", 3, [])
    store = await SqliteStateStore.open(folder=tmp_path / "three", shards=3)
    assert store.boot == 1
    await store.close()


async def test_starts_are_counted_on_from_the_highest(tmp_path: Path) -> None:
    """A job never begins below the sequences of the file that it comes from, nor on another steady line."""
    for _ in range(4):
        store = await SqliteStateStore.open(folder=tmp_path)
        await store.save_clock_skew(77)
        await store.close()
    split(tmp_path, 2)
    for boot in (5, 6, 7):
        store = await SqliteStateStore.open(folder=tmp_path, shard=1)
        assert (store.boot, await store.clock_skew()) == (boot, 77)
        await store.close()
    split(tmp_path, 1)
    store = await SqliteStateStore.open(folder=tmp_path)
    assert (store.boot, await store.clock_skew()) == (8, 77)
    await store.close()


async def test_of_two_answers_under_one_key_the_later_stays(tmp_path: Path) -> None:
    """As it is in one file: the last answer is repeated (SPEC section 10)."""
    ids = [next(job_id for job_id in JOBS if homes(2)(job_id) == shard) for shard in (0, 1)]
    for later in (0, 1):
        folder = tmp_path / str(later)
        split(folder, 2)
        for shard in (0, 1):
            store = await SqliteStateStore.open(folder=folder, shard=shard, shards=2)
            at = 2_000 if shard == later else 1_000
            await store.remember(Remembered("scope", "key", b"d", b"a", at, ids[shard]))
            await store.close()
        split(folder, 1)
        assert query(folder / "state.db", "SELECT job_id FROM remembered") == [(ids[later],)]


async def test_a_divided_folder_is_not_opened_as_if_it_were_whole(crashed: Path) -> None:
    """Who opens shard 0 alone, or as one of another number, is refused; the lock is free again."""
    split(crashed, 3)
    for shards in (1, 2):
        with pytest.raises(StoreRefused, match=f"divided into 3 shards, not {shards}"):
            await SqliteStateStore.open(folder=crashed, shards=shards)
    await (await SqliteStateStore.open(folder=crashed, shards=3)).close()
    with pytest.raises(FolderUnusable):
        split(crashed, 2, faults=Failing(3))
    assert count_shards(crashed) == 0
    with pytest.raises(StoreRefused, match="being divided"):
        await SqliteStateStore.open(folder=crashed, shards=3)


async def test_a_program_of_before_refuses_the_folder(tmp_path: Path) -> None:
    """It knows nothing of shards, and would not see the jobs of the others."""
    split(tmp_path, 2)
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection, pytest.raises(StoreTooNew):
        upgrade(connection, place="state.db", migrations=MIGRATIONS[:-1])


async def test_a_missing_file_is_named(crashed: Path) -> None:
    """A shard whose file is missing is not created again without its jobs."""
    split(crashed, 3)
    (crashed / "state-2.db").rename(crashed / "away")
    for shards in (3, 2):
        with pytest.raises(StoreDamaged, match=r"state-2\.db is missing"):
            split(crashed, shards)
    (crashed / "away").rename(crashed / "state-2.db")
    assert split(crashed, 3) == []


async def test_a_row_that_cannot_be_read_is_told_with_its_file(crashed: Path) -> None:
    """A resharding stops at damage, rather than guess the owner of the row."""
    split(crashed, 2)
    with closing(sqlite3.connect(crashed / "state-1.db")) as connection, connection:
        connection.execute("INSERT INTO deliveries VALUES ('x', x'c1')")
    with pytest.raises(StoreDamaged, match=r"state-1\.db.*a row of deliveries"):
        split(crashed, 1)


def holding(folder: Path, shard: int) -> "subprocess.Popen[str]":
    """Another process that has the lock of a shard, until it is killed."""
    child = start("hold", folder, shard)
    assert child.stdout is not None
    child.stdout.readline()
    return child


async def test_a_share_that_is_let_go_of_late_is_waited_for(crashed: Path) -> None:
    """A worker process of a killed service ends within moments: the start does not fail over it."""
    split(crashed, 2)
    child = holding(crashed, 1)
    begun = threading.Event()
    waiting = asyncio.ensure_future(asyncio.to_thread(split, crashed, 1, begun=begun))
    assert await asyncio.to_thread(begun.wait, 20)
    assert count_shards(crashed) == 2
    assert not waiting.done()
    child.kill()
    assert await waiting == ["dividing", "divided"]
    child.communicate()


async def test_opening_a_share_waits_too(tmp_path: Path) -> None:
    """So does the opening by the new worker process."""
    child = holding(tmp_path, 1)
    opening = asyncio.ensure_future(SqliteStateStore.open(folder=tmp_path, shard=1))
    await asyncio.wait([opening], timeout=0.05)
    assert not opening.done()
    child.kill()
    await (await opening).close()
    child.communicate()


async def test_a_share_that_stays_held_is_refused(crashed: Path) -> None:
    """Beyond the patience the message names the process and the remedy; the folder is as it was."""
    split(crashed, 2)
    child = holding(crashed, 1)
    with pytest.raises(StoreLocked, match=rf"worker process of an earlier service.*kill {child.pid}"):
        await SqliteStateStore.open(folder=crashed, shard=1, lock_wait=0.1)
    with pytest.raises(StoreLocked, match=str(child.pid)):
        split(crashed, 1, lock_wait=0.1)
    assert count_shards(crashed) == 2
    child.kill()
    child.communicate()
    split(crashed, 1)


async def test_shares_of_a_folder_are_open_together(crashed: Path) -> None:
    """Each has a lock of its own; the folder's lock may have been claimed before."""
    split(crashed, 2)
    lock = FolderLock.claim(crashed)
    first = await SqliteStateStore.open(folder=crashed, shards=2, lock=lock)
    second = await SqliteStateStore.open(folder=crashed, shard=1)
    with pytest.raises(StoreLocked):
        FolderLock.claim(crashed)
    for job_id in JOBS:
        found = [await store.load(job_id) is not None for store in (first, second)]
        assert found == [homes(2)(job_id) == 0, homes(2)(job_id) == 1]
    await first.close()
    FolderLock.claim(crashed).release()
    await second.close()


async def test_a_lock_whose_file_was_taken_away_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for a shard that a resharding removes gets the lock of the new file, or none."""
    locked: list[int] = []

    def remove_first(descriptor: int, operation: int) -> None:
        if not locked:
            (tmp_path / "lock-1").unlink()
        locked.append(descriptor)
        flock(descriptor, operation)

    flock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", remove_first)
    held = FolderLock.claim_shard(tmp_path, 1)
    assert len(locked) == 2
    with pytest.raises(StoreLocked):
        FolderLock.claim_shard(tmp_path, 1, lock_wait=0.0)
    held.release()
