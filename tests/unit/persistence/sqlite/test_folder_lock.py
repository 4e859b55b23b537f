"""The data folder: one service at a time, and what is in the way."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.persistence.sql.database import unopened
from scheduler_service.persistence.sql.sqlite import address_of
from scheduler_service.persistence.sqlite.database import open_writing
from scheduler_service.persistence.sqlite.folder_lock import (
    FolderLock,
    await_workers,
    files_of,
    has_own_jobs,
    is_divided,
    narrow_files,
)
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import FolderUnusable, StoreDamaged, StoreLocked
from tests.unit.persistence.crashing import start
from tests.unit.persistence.folders import divide

pytestmark = pytest.mark.anyio


async def test_a_second_service_is_refused(tmp_path: Path) -> None:
    """Of two services on one folder the second one refuses to start, naming folder and pid."""
    child = start("turns", tmp_path, 0, 10_000)
    assert child.stdout is not None
    child.stdout.readline()
    with pytest.raises(StoreLocked) as refused:
        await SqliteStateStore.open(folder=tmp_path)
    assert str(child.pid) in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    child.kill()
    child.communicate()
    store = await SqliteStateStore.open(folder=tmp_path)
    with pytest.raises(StoreLocked, match=str(os.getpid())):
        await SqliteStateStore.open(folder=tmp_path)
    await store.close()
    await (await SqliteStateStore.open(folder=tmp_path)).close()


async def test_a_refused_opening_leaves_the_folder_free(tmp_path: Path) -> None:
    """After a refusal the lock is gone: with the file put right the store opens."""
    (tmp_path / "state.db").write_bytes(b"not a database at all, but long enough to be read" * 100)
    with pytest.raises(StoreDamaged, match=r"state\.db"):
        await SqliteStateStore.open(folder=tmp_path)
    (tmp_path / "state.db").unlink()
    await (await SqliteStateStore.open(folder=tmp_path)).close()


@pytest.mark.parametrize("path", ["file", "file/below"])
async def test_a_file_in_the_way_is_named(tmp_path: Path, path: str) -> None:
    """A data folder that is a file, or is below one, is refused by name."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderUnusable, match=path):
        await SqliteStateStore.open(folder=tmp_path / path)


async def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    """A `state.db` that is a folder is refused by name."""
    (tmp_path / "state.db").mkdir()
    with pytest.raises(FolderUnusable, match=r"state\.db"):
        await SqliteStateStore.open(folder=tmp_path)


async def test_a_folder_without_rights_is_named(tmp_path: Path) -> None:
    """A folder that may not be written is refused by name."""
    tmp_path.chmod(0o500)
    user = os.geteuid()
    if user == 0:  # root may write everywhere: for a moment be nobody
        os.seteuid(65534)
    try:
        with pytest.raises(FolderUnusable, match=str(tmp_path)):
            await SqliteStateStore.open(folder=tmp_path)
    finally:
        os.seteuid(user)
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_first_file_that_is_missing_is_named(tmp_path: Path, is_empty: bool) -> None:
    """A new `state.db` beside `state-1.db` would serve a part of the jobs and say nothing."""
    divide(tmp_path, 2)
    (tmp_path / "state.db").unlink()
    if is_empty:  # as a copy leaves it that broke off
        (tmp_path / "state.db").touch()
    with pytest.raises(StoreDamaged, match=r"state-1\.db, and state\.db is missing or empty"):
        is_divided(tmp_path)
    assert not (tmp_path / "state.db").exists() or (tmp_path / "state.db").stat().st_size == 0


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_further_file_that_is_missing_is_named(tmp_path: Path, is_empty: bool) -> None:
    """It is not taken for a new one: its jobs would be lost silently."""
    divide(tmp_path, 3)
    (tmp_path / "state-1.db").unlink()
    if is_empty:
        (tmp_path / "state-1.db").touch()
    with pytest.raises(StoreDamaged, match=r"state-1\.db is missing or empty"):
        is_divided(tmp_path)


def holding(folder: Path) -> "subprocess.Popen[str]":
    """Another process that has the lock of a worker process, until it is killed."""
    child = start("hold", folder, 1)
    assert child.stdout is not None
    child.stdout.readline()
    return child


async def test_a_worker_process_that_ends_late_is_waited_for(tmp_path: Path) -> None:
    """One of a killed service ends within moments: the start does not fail over it, nor a worker process."""
    child = holding(tmp_path)
    waits = [
        asyncio.ensure_future(asyncio.to_thread(await_workers, tmp_path)),
        asyncio.ensure_future(asyncio.to_thread(FolderLock.claim_worker, tmp_path, 1)),
    ]
    await asyncio.wait(waits, timeout=0.05)
    assert not any(one.done() for one in waits)
    child.kill()
    child.communicate()
    done, _ = await asyncio.wait(waits, timeout=9, return_when=asyncio.FIRST_COMPLETED)
    assert done
    held = await waits[1]
    assert isinstance(held, FolderLock)
    held.release()
    await waits[0]


async def test_a_worker_process_that_stays_is_named(tmp_path: Path) -> None:
    """Beyond the patience the message names the process and the remedy."""
    child = holding(tmp_path)
    with pytest.raises(StoreLocked, match=rf"worker process 1 of an earlier service.*kill {child.pid}"):
        await_workers(tmp_path, lock_wait=0.1)
    child.kill()
    child.communicate()
    await_workers(tmp_path)


def test_a_file_that_another_process_removes_meanwhile_is_left_out(tmp_path: Path) -> None:
    """As the journal of a database that nodes share; a start does not fail for it."""
    for name in ("a.db", "state.db"):
        (tmp_path / name).touch(0o600)
    listed = files_of(tmp_path)
    assert next(listed)[0].name == "a.db"
    (tmp_path / "state.db").unlink()
    assert list(listed) == []
    has_ended = threading.Event()

    def write_journals() -> None:
        while not has_ended.is_set():
            (tmp_path / "history.db-journal").touch(0o600)
            (tmp_path / "history.db-journal").unlink()

    thread = threading.Thread(target=write_journals)
    thread.start()
    try:
        assert [narrow_files(tmp_path) for _ in range(300)] == [[]] * 300
    finally:
        has_ended.set()
        thread.join()


def test_a_look_at_a_file_that_is_open_leaves_its_locks(tmp_path: Path) -> None:
    """Closing a descriptor beside SQLite would end them: another process would take the log away (POSIX)."""
    place = tmp_path / "state.db"
    with closing(open_writing(str(place), durability="process")) as store:
        store.execute("SELECT count(*) FROM jobs").fetchone()
        assert not has_own_jobs(tmp_path)
        open_writing(str(place), durability="process").close()
        with unopened(address_of(place), subject="the jobs' state") as dialect, dialect.engine.connect():
            pass
        taking = f"sqlite3.connect({str(place)!r}, timeout=0).execute('PRAGMA journal_mode=DELETE')"
        command = [sys.executable, "-c", f"import sqlite3; {taking}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "database is locked" in done.stderr
