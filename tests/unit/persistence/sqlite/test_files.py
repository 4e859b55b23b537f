"""What a file of a store keeps, for whom, and when it is durable."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from itertools import chain
from pathlib import Path
from random import Random
from types import NoneType
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import Noted
from scheduler_service.domain.wire import Holder
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.job_store.record_groups import (
    GROUP_UID,
    MOST_BATCHES,
    MOST_BYTES,
    RecordGroups,
)
from scheduler_service.persistence.job_store.state_store import CONFIRMED_SECONDS, MAX_CONFIRMED, owns_all
from scheduler_service.persistence.sqlite.database import open_beside, open_writing
from scheduler_service.persistence.sqlite.files import MANY_BYTES, Checkpoints
from scheduler_service.persistence.sqlite.schema import MIGRATIONS, upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreDamaged, StoreTooNew, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit
from tests.fault_points import Breaking, WriteGate
from tests.simulation.disk import Disk
from tests.simulation.faults import KillingPoints, Risks, StoreTrouble, Troubles
from tests.simulation.loop import SimulatedProcess, VirtualLoop, run_virtually
from tests.unit.persistence.samples import add_page, batch, commit, page_of_0_1_0

pytestmark = pytest.mark.anyio


async def test_reads_never_wait_for_the_writer(tmp_path: Path) -> None:
    """While a group is being written, reads answer with what was committed before."""
    gate = WriteGate()
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
    # The file holds the keys of feedback tokens: no other user may read it or its log
    store = await SqliteStateStore.open(folder=tmp_path / "new")
    await store.commit(commit())
    for name in ("state.db", "state.db-wal"):
        assert (tmp_path / "new" / name).stat().st_mode & 0o077 == 0
    await store.close()


FAST = 2
"""Of `secure_delete`: freed pages are not written for it."""


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("process", 1)])
async def test_durability_decides_what_a_commit_waits_for(
    tmp_path: Path, durability: str, synchronous: int
) -> None:
    """ "full" syncs the log at each commit, "process" leaves it to the system (SPEC section 8)."""
    store = await SqliteStateStore.open(folder=tmp_path, durability=durability)
    connection = store.files.writing
    assert connection.execute("PRAGMA synchronous").fetchall() == [(synchronous,)]
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert connection.execute("PRAGMA secure_delete").fetchall() == [(FAST,)]
    await store.close()


async def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """A word that means nothing is named with those that do, and leaves the folder free."""
    with pytest.raises(ValueError, match=r"'some'.*full, process"):
        await SqliteStateStore.open(folder=tmp_path, durability="some")
    await (await SqliteStateStore.open(folder=tmp_path)).close()


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
    # Where nothing is written the thread sleeps; `close` ends it
    writing = open_logged(tmp_path)
    statements: list[str] = []
    beside = open_beside(str(tmp_path / "state.db"))
    beside.set_trace_callback(statements.append)
    Checkpoints(connection=beside, pause=0.0).close()
    assert statements == []
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


def test_a_new_file_has_all_that_the_steps_lead_to() -> None:
    """Though it is a copy, made in one transaction."""
    found = []
    for migrations in (MIGRATIONS, [*MIGRATIONS]):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            upgrade(connection, place=":memory:", migrations=migrations)
            version = connection.execute("PRAGMA user_version").fetchall()
            owner = connection.execute("PRAGMA application_id").fetchall()
            found.append([version, owner, *connection.iterdump()])
    assert found[0] == found[1]
    assert len(found[0]) > 10


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


def turn(job_id: str = "job", *, over: int = 1, **changes: object) -> Commit:
    """A turn that only moves a job on, with a record."""
    document = changes.pop("document", b"turned")
    records = changes.pop("batch", batch(over + 1))
    return commit(
        job_id, expected=over, document=document, due=Due(wall=over * 10), batch=records,
        execute_number=over, **changes,
    )  # fmt: skip


def rows_of(folder: Path) -> list[list[int]]:
    """The sequences of the records in each row of the file."""
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        rows = connection.execute("SELECT uid, content FROM untold ORDER BY uid, sequence").fetchall()
    decode = msgspec.msgpack.decode
    batches = [decode(content) if uid == GROUP_UID else [decode(content)] for uid, content in rows]
    return [[one[3] for one in some] for some in batches]


def records_of(folder: Path) -> list[int]:
    """The sequences of the records that are in the file."""
    return sorted(chain.from_iterable(rows_of(folder)))


def image(folder: Path) -> Path:
    """The files as a crash would leave them now."""
    copy = folder.parent / "image"
    copy.mkdir()
    for file in ("state.db", "state.db-wal"):
        shutil.copy(folder / file, copy / file)
    return copy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty data folder."""
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


async def test_a_later_row_wins_over_a_turn_of_0_1_0(folder: Path) -> None:
    """A change of the definition went past the journal of 0.1.0: the older turn there does not undo it."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit(), commit("other"), commit("third"), commit("gone")])
    left = [turn(job_id) for job_id in ("job", "other", "third")] + [
        turn("never"),
        turn("gone", uid="before"),
    ]
    await store.commit(commit(expected=1, sequence=3, document=b"changed", definition=b"{}", revision=2))
    await store.commit(commit("other", expected=1, sequence=3, document=None))
    await store.close()
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        add_page(connection, page_of_0_1_0(left, [batch(2)]))
    store = await SqliteStateStore.open(folder=folder)
    ids = ("job", "other", "third", "never", "gone")
    found = [await store.load(job_id) for job_id in ids]
    assert [one and (one.sequence, one.document) for one in found] == [
        (3, b"changed"), (3, None), (2, b"turned"), None, (1, b"doc"),
    ]  # fmt: skip
    assert [one.sequence for one in await store.unwritten(("", 0), 10)] == [2]
    await store.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_records_of_a_commit_in_doubt_are_kept(folder: Path, when: str) -> None:
    """Where the end of a commit is unknown, the file decides; records go when the history has them."""
    faults = Breaking("", sqlite3.OperationalError("disk I/O error"))
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    await store.commit(commit())
    await store.commit(turn())
    faults.place = f"{when} {FaultPoint.COMMIT}"
    with pytest.raises(StoreUncertain if when == "after" else StoreUnavailable):
        await store.commit(turn(over=2, document=b"doubted"))
    stored = await store.load("job")
    assert stored is not None
    assert (stored.sequence, stored.document) == ((3, b"doubted") if when == "after" else (2, b"turned"))
    await store.commit(turn(over=stored.sequence))
    await store.written([("u", 2)])
    copy = image(folder)
    for one in (store, await SqliteStateStore.open(folder=copy)):
        kept = {found.sequence for found in await one.unwritten(("", 0), 10)} - {2}  # it goes with the next
        assert kept == ({3, 4} if when == "after" else {3})
        await one.close()


async def test_confirmed_records_go_many_at_a_time(folder: Path) -> None:
    """A confirmation is no write of its own until there are many; a close leaves none behind."""
    store = await SqliteStateStore.open(folder=folder)
    left = [MAX_CONFIRMED, MAX_CONFIRMED + 1]
    await store.commit_all([commit(f"j{number}", batch=batch(number)) for number in range(left[-1] + 1)])
    await store.written([("u", number) for number in range(MAX_CONFIRMED - 1)])
    assert len(records_of(folder)) == MAX_CONFIRMED + 2
    await store.written([("u", MAX_CONFIRMED - 1)])
    assert records_of(folder) == left
    await store.commit(commit("next", batch=batch(5_000)))
    await store.written([("u", 5_000)])
    assert records_of(folder) == [*left, 5_000]
    await store.close()
    assert records_of(folder) == left


async def test_the_row_of_a_group_goes_with_its_last_record(folder: Path) -> None:
    """Turns that are written together are one row, whole until the history has all of them."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit(f"j{number}", batch=batch(number)) for number in range(MOST_BATCHES + 3)])
    await store.commit(commit("alone", batch=batch(5_000)))
    parts = [list(range(MOST_BATCHES)), list(range(MOST_BATCHES, MOST_BATCHES + 3))]
    assert rows_of(folder) == [*parts, [5_000]]
    await store.written([("u", number) for number in (*parts[0], *parts[1][1:])])
    await store.close()
    assert rows_of(folder) == [parts[1], [5_000]]


async def test_what_is_large_is_no_part_of_a_group(folder: Path) -> None:
    """A row is read as a whole."""
    large = (Noted(1, 1, "note", "x" * MOST_BYTES),)
    store = await SqliteStateStore.open(folder=folder)
    turns = [commit(f"j{number}", batch=batch(number, records=large * (number == 2))) for number in range(4)]
    await store.commit_all(turns)
    assert rows_of(folder) == [[0, 1], [2], [3]]
    await store.written([("u", number) for number in range(4)])
    await store.close()
    assert rows_of(folder) == []


async def test_a_group_with_a_turn_that_cannot_be_written(folder: Path) -> None:
    """The others are tried again in parts: their rows are the parts', and go like any other."""
    store = await SqliteStateStore.open(folder=folder)
    turns = [commit(f"j{number}", batch=batch(number)) for number in range(5)]
    turns[3] = commit("j3", batch=batch(3), object_id="\ud800")
    verdicts = await store.commit_all(turns)
    assert [type(one) for one in verdicts] == [NoneType] * 3 + [StoreUnavailable, NoneType]
    assert records_of(folder) == [0, 1, 2, 4]
    await store.written([("u", number) for number in (0, 1, 2, 4)])
    await store.close()
    assert rows_of(folder) == []


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_group_in_doubt(folder: Path, when: str) -> None:
    """Where the end of its commit is unknown, its row goes with the last record all the same."""
    faults = Breaking("", sqlite3.OperationalError("disk I/O error"))
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    faults.place = f"{when} {FaultPoint.COMMIT}"
    await store.commit_all([commit(f"j{number}", batch=batch(number)) for number in range(2)])
    is_there = when == "after"
    assert rows_of(folder) == ([[0, 1]] if is_there else [])
    await store.written([("u", 0), ("u", 1)] if is_there else [])
    await store.close()
    assert rows_of(folder) == []


def test_a_turn_of_a_group_in_doubt_that_is_taken_again_alone() -> None:
    """On a server it is unknown whether the first row is there; the second one goes when it is confirmed."""
    groups, holder = RecordGroups(boot=1), Holder("", "")
    for turns in ([batch(0), batch(1)], [batch(0)]):
        groups.begin()
        rows = groups.rows_of(turns, holder)
        groups.settle()
    assert groups.confirm([("u", 0)]) == [row[:2] for row in rows] == [("u", 0)]


async def test_a_start_divides_the_groups_that_it_finds(folder: Path) -> None:
    """Each process reads the records of its own jobs; what a living one has written is left to it."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit(f"j{number}", batch=job_batch(number)) for number in range(50)])
    await store.commit_all([commit(f"k{number}", batch=job_batch(number, "k")) for number in range(2)])
    copy = image(folder)
    await store.close()
    one = await SqliteStateStore.open(folder=copy, owns=lambda job_id: job_id in ("j1", "j3"))
    await one.commit_all([commit(f"m{number}", batch=job_batch(number, "m")) for number in range(2)])
    assert [found.job_id for found in await one.unwritten(("", 0), 1)] == ["j1"]
    assert [found.job_id for found in await one.unwritten(("u", 1), 10)] == ["j3"]
    assert rows_of(copy) == [[0, 1], [0, 1], *([number] for number in range(50))]
    await one.written([("u", 1), ("u", 3)])
    await one.close()
    assert len(rows_of(copy)) == 50
    whole = await SqliteStateStore.open(folder=copy)
    assert len(await whole.unwritten(("", 0), 100)) == 52
    await whole.close()


def job_batch(number: int, kind: str = "j") -> Batch:
    """Records of a job."""
    return batch(number, uid="u" if kind == "j" else kind, job_id=f"{kind}{number}")


async def test_confirmations_in_doubt_are_no_leak(folder: Path) -> None:
    """The history has these records, whatever became of the commit that was to delete them."""
    faults = Breaking("", sqlite3.OperationalError("disk I/O error"))
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    await store.commit_all([commit(f"j{number}", batch=batch(number)) for number in range(MAX_CONFIRMED)])
    faults.place = f"before {FaultPoint.COMMIT}"
    with pytest.raises(StoreUnavailable):
        await store.written([("u", number) for number in range(MAX_CONFIRMED)])
    await store.written([])
    assert records_of(folder) == []
    await store.close()


def test_deletions_that_failed_are_made_later() -> None:
    """Also where nothing more is confirmed: else a kill tells the history again what it may have removed."""

    async def live(loop: VirtualLoop) -> None:
        trouble = StoreTrouble(0, 0, "refused", 100)
        chance = Random(1)
        troubles, disk = Troubles(chance), Disk()
        process = SimulatedProcess(loop, "one")
        risks = Risks(process, chance, troubles, KillingPoints((), lambda *_: None))
        store = disk.open(risks, owns_all)
        await store.commit(turn(over=0))
        troubles.begin(trouble)
        await store.written([("u", 1)])
        await asyncio.sleep(CONFIRMED_SECONDS + 1)
        assert len(await disk.reader.unwritten(("", 0), 10)) == 1
        troubles.end(trouble)
        await asyncio.sleep(CONFIRMED_SECONDS)
        assert not await disk.reader.unwritten(("", 0), 10)
        await store.close()

    run_virtually(live)


def damage(folder: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes the one page of the journal."""
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        ((number, content),) = connection.execute("SELECT page, content FROM journal").fetchall()
        connection.execute("UPDATE journal SET content = ? WHERE page = ?", (change(content), number))


async def leave_page(folder: Path) -> Path:
    """What a crash of version 0.1.0 leaves: `job` and `other`, whose second turns are in one page alone."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit("job", uid="one"), commit("other", uid="two")])
    await store.close()
    turns = [turn("job", uid="one"), turn("other", uid="two")]
    with closing(sqlite3.connect(folder / "state.db")) as connection, connection:
        add_page(connection, page_of_0_1_0(turns, [batch(2), batch(2, uid="two")]))
    return folder


async def test_a_damaged_page_is_refused_by_default(folder: Path) -> None:
    """It is an error, and nothing is skipped."""
    copy = await leave_page(folder)
    damage(copy, lambda _: b"\xc1")
    with pytest.raises(StoreDamaged, match="journal"):
        await SqliteStateStore.open(folder=copy)


async def test_a_page_that_cannot_be_read_stops_no_start(folder: Path) -> None:
    """Jobs go on from their rows; the page is kept beside the file, and does not come again."""
    copy = await leave_page(folder)
    damage(copy, lambda content: content[: len(content) // 2])
    kept: list[Path] = []
    store = await SqliteStateStore.open(folder=copy, on_damaged_page=kept.append)
    assert [page.name for page in kept] == ["state.db-page-900.damaged"]
    assert kept[0].stat().st_mode & 0o777 == 0o600
    assert [one and one.sequence for one in [await store.load("job"), await store.load("other")]] == [1, 1]
    await store.close()
    await (await SqliteStateStore.open(folder=copy)).close()
