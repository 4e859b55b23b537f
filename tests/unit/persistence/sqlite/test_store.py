"""What the SQLite store promises beyond the port: groups, starts, locks, formats, durability."""

import asyncio
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.sqlite.schema import MIGRATIONS, upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import (
    FolderUnusable,
    StoreDamaged,
    StoreLocked,
    StoreTooNew,
    StoreUncertain,
)
from scheduler_service.ports.state import NOTHING
from tests.unit.persistence.crashing import start
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


class Gate:
    """Holds the writer before its commit until it is let through."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.passed: list[str] = []

    def before(self, point: str) -> None:
        if point == FaultPoint.COMMIT:
            self.reached.set()
            assert self.opened.wait(20)

    def after(self, point: str) -> None:
        self.passed.append(point)


async def test_reads_never_wait_for_the_writer(tmp_path: Path) -> None:
    """While a group is being written, reads answer with what was committed before."""
    gate = Gate()
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


async def test_what_waits_is_written_as_one_group(tmp_path: Path) -> None:
    """Writes that wait share a commit, at most `size` of them."""
    gate = Gate()
    store = await SqliteStateStore.open(folder=tmp_path, faults=gate, size=50)
    first = asyncio.ensure_future(store.commit(commit("first")))
    assert await asyncio.to_thread(gate.reached.wait, 20)
    rest = [store.commit(commit(f"job-{i}")) for i in range(100)]
    gate.opened.set()
    await asyncio.gather(first, *rest)
    assert gate.passed.count(FaultPoint.COMMIT) == 3
    await store.close()


class Break:
    """Raises once after a commit, when `is_set`: what the file has is unknown."""

    is_set = False

    def before(self, point: str) -> None:
        """Nothing happens."""

    def after(self, point: str) -> None:
        if self.is_set and point == FaultPoint.COMMIT:
            self.is_set = False
            raise OSError("the disk went away")


async def test_after_a_doubt_the_table_is_asked_how_rows_stand(tmp_path: Path) -> None:
    """What memory knew of a row that was written in doubt would refuse the next turn."""
    faults = Break()
    store = await SqliteStateStore.open(folder=tmp_path, faults=faults)
    await store.commit(commit("job", expected=NOTHING, sequence=1, definition=b"1"))
    faults.is_set = True
    with pytest.raises(StoreUncertain):
        await store.commit(commit("job", expected=1, sequence=2, definition=b"2", revision=2))
    found = await store.load("job")
    assert found is not None
    assert found.sequence == 2
    await store.commit(commit("job", expected=2, sequence=3, revision=2))
    await store.close()


async def test_after_an_unload_the_table_is_asked_how_rows_stand(tmp_path: Path) -> None:
    """The rows were updated without a group that could update the cache."""
    store = await SqliteStateStore.open(folder=tmp_path)
    await store.commit(commit("job", expected=NOTHING, sequence=1, definition=b"1"))
    await store.commit(commit("job", expected=1, sequence=2))
    await store.unwritten(("", 0), 10)
    await store.commit(commit("job", expected=2, sequence=3))
    await store.close()


async def test_starts_are_counted_and_the_name_is_kept(tmp_path: Path) -> None:
    """`boot` grows with each opening; the node keeps its name unless it is given another one."""
    names = []
    for boot in (1, 2, 3):
        store = await SqliteStateStore.open(folder=tmp_path, node_id="given" if boot == 3 else "")
        assert store.boot == boot
        names.append(store.node_id)
        await store.save_clock_skew(await store.clock_skew() + 5)
        await store.close()
    assert names[0] == names[1] != names[2] == "given"
    store = await SqliteStateStore.open(folder=tmp_path)
    assert (store.boot, store.node_id, await store.clock_skew()) == (4, "given", 15)
    await store.close()


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


async def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    """The file holds the keys of feedback tokens: no other user may read it or its log."""
    store = await SqliteStateStore.open(folder=tmp_path / "new")
    await store.commit(commit())
    for name in ("state.db", "state.db-wal"):
        assert (tmp_path / "new" / name).stat().st_mode & 0o077 == 0
    await store.close()


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("process", 1)])
async def test_durability_decides_what_a_commit_waits_for(
    tmp_path: Path, durability: str, synchronous: int
) -> None:
    """ "full" syncs the log at each commit, "process" leaves it to the system (SPEC section 8)."""
    store = await SqliteStateStore.open(folder=tmp_path, durability=durability)
    connection = store.files.writing
    assert connection.execute("PRAGMA synchronous").fetchall() == [(synchronous,)]
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    await store.close()


async def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """A word that means nothing is named with those that do, and leaves the folder free."""
    with pytest.raises(ValueError, match=r"'some'.*full, process"):
        await SqliteStateStore.open(folder=tmp_path, durability="some")
    await (await SqliteStateStore.open(folder=tmp_path)).close()


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


async def test_a_waiter_that_gives_up_leaves_its_write(tmp_path: Path) -> None:
    """Cancelling who waits for a commit does not cancel the commit, nor disturb its group."""
    store = await SqliteStateStore.open(folder=tmp_path)
    first, second = store.commit(commit("a")), store.commit(commit("b"))
    asyncio.ensure_future(first).cancel()
    await second
    assert await store.load("a") is not None
    await store.close()
