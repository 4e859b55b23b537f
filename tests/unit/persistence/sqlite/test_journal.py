"""Records in pages of the journal: as durable as rows; and turns that version 0.1.0 left there."""

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.common.writes import Written
from scheduler_service.persistence.sqlite.commit_group import MAX_SPENT_PAGES, Group, Write
from scheduler_service.persistence.sqlite.journal import UNLOAD_BYTES, RecordPages, unload
from scheduler_service.persistence.sqlite.journal_page import LostTurns, OnDamage
from scheduler_service.persistence.sqlite.row_versions import RowVersions
from scheduler_service.persistence.sqlite.schema import upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreDamaged, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Commit
from tests.unit.persistence.crashing import Breaking
from tests.unit.persistence.samples import add_page, batch, commit, page_of_0_1_0

pytestmark = pytest.mark.anyio


def turn(job_id: str = "job", *, over: int = 1, **changes: object) -> Commit:
    """A turn that only moves a job on, with a record."""
    document = changes.pop("document", b"turned")
    records = changes.pop("batch", batch(over + 1))
    return commit(
        job_id, expected=over, document=document, due=Due(wall=over * 10), batch=records,
        execute_number=over, **changes,
    )  # fmt: skip


def pages_of(folder: Path) -> int:
    """How many pages the journal of the file has."""
    with closing(sqlite3.connect(folder / "state.db")) as connection:
        count: int = connection.execute("SELECT count(*) FROM journal").fetchall()[0][0]
        return count


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


async def test_records_survive_a_crash(folder: Path) -> None:
    """What was answered is there after a crash: the job, its alarm, its records (SPEC section 8)."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit())
    await store.commit(turn(over=1))
    await store.commit(turn(over=2, document=b"latest"))
    copy = image(folder)
    assert pages_of(copy) == 2
    other = await SqliteStateStore.open(folder=copy)
    stored = await other.load("job")
    assert stored is not None
    assert (stored.sequence, stored.document, stored.entry.execute_number) == (3, b"latest", 2)
    assert await other.due_wall(100, 10) == [(20, "job")]
    assert [one.sequence for one in await other.unwritten(("", 0), 10)] == [2, 3]
    assert pages_of(copy) == 0
    await store.close()
    await other.close()


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
    faults = Breaking("")
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
        kept = {found.sequence for found in await one.unwritten(("", 0), 10)} - {2}  # it may be there twice
        assert kept == ({3, 4} if when == "after" else {3})
        await one.close()


async def test_confirmations_in_doubt_are_no_leak(folder: Path) -> None:
    """The history has these records, whatever became of the commit that was to delete them."""
    faults = Breaking("")
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    await store.commit(commit())
    await store.commit(turn())
    faults.place = f"after {FaultPoint.COMMIT}"
    with pytest.raises(StoreUncertain):
        await store.written([("u", 2)])
    await store.commit(turn(over=2))
    assert pages_of(image(folder)) == 1
    await store.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_unload_that_fails_loses_no_record(folder: Path, when: str) -> None:
    """They are in their page or in the table; its caller may try again (SPEC section 8)."""
    faults = Breaking(f"{when} {FaultPoint.UNLOAD}")
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    await store.commit(commit())
    await store.commit(turn())
    with pytest.raises(StoreUnavailable):
        await store.unwritten(("", 0), 10)
    copy = image(folder)
    for one in (store, await SqliteStateStore.open(folder=copy)):
        assert [found.sequence for found in await one.unwritten(("", 0), 10)] == [2]
        await one.close()


async def test_a_close_leaves_an_empty_journal(folder: Path) -> None:
    """What an older program finds in the tables is all there is."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit())
    await store.commit(turn())
    await store.close()
    assert pages_of(folder) == 0


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


def is_intact(document: bytes) -> bool:
    """Whether a document of these tests is as it was written."""
    return document in (b"doc", b"turned")


async def test_a_damaged_page_is_refused_by_default(folder: Path) -> None:
    """It is an error, and nothing is skipped."""
    copy = await leave_page(folder)
    damage(copy, lambda _: b"\xc1")
    with pytest.raises(StoreDamaged, match="journal"):
        await SqliteStateStore.open(folder=copy)


async def test_a_damaged_turn_stops_one_job(folder: Path) -> None:
    """The other jobs have their turns; it is said which one has not, and the page is kept beside the file."""
    copy = await leave_page(folder)
    damaged: list[bytes] = []

    def change(content: bytes) -> bytes:
        # The state of `other`, whose letters are no state any more.
        head, _, tail = content.rpartition(b"active")
        damaged.append(head + b"actiwe" + tail)
        return damaged[0]

    damage(copy, change)
    lost: list[LostTurns] = []
    store = await SqliteStateStore.open(folder=copy, on_damage=OnDamage(is_intact, lost.append))
    assert [(one.job_ids, one.records, one.is_whole) for one in lost] == [(("other",), 0, False)]
    assert lost[0].copy.read_bytes() == damaged[0]
    assert lost[0].copy.stat().st_mode & 0o777 == 0o600
    found = [await store.load(job_id) for job_id in ("job", "other")]
    assert [one and one.sequence for one in found] == [2, 1]
    assert [one.sequence for one in await store.unwritten(("", 0), 10) if one.sequence > 1] == [2, 2]
    await store.close()
    await (await SqliteStateStore.open(folder=copy)).close()


async def test_a_damaged_document_in_a_page_leaves_the_row_as_it_was(folder: Path) -> None:
    """The page decodes: its bytes are bytes, whatever they are. The older state is the better one."""
    copy = await leave_page(folder)
    damage(copy, lambda content: b"turmed".join(content.rsplit(b"turned", 1)))
    lost: list[LostTurns] = []
    store = await SqliteStateStore.open(folder=copy, on_damage=OnDamage(is_intact, lost.append))
    assert [one.job_ids for one in lost] == [("other",)]
    assert b"turmed" in lost[0].copy.read_bytes()
    found = [await store.load(job_id) for job_id in ("job", "other")]
    assert [one and (one.sequence, one.document) for one in found] == [(2, b"turned"), (1, b"doc")]
    await store.close()


async def test_a_page_of_which_nothing_can_be_read_stops_no_start(folder: Path) -> None:
    """All jobs go on from their rows, and it is said that any of them may have lost a turn."""
    copy = await leave_page(folder)
    damage(copy, lambda content: content[: len(content) // 2])
    lost: list[LostTurns] = []
    store = await SqliteStateStore.open(folder=copy, on_damage=OnDamage(is_intact, lost.append))
    assert [(one.job_ids, one.is_whole) for one in lost] == [((), True)]
    assert [one and one.sequence for one in [await store.load("job"), await store.load("other")]] == [1, 1]
    await store.close()


class Database:
    """A state in memory."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        upgrade(connection, place=":memory:")
        self.connection = connection
        self._pages, self._row_versions = RecordPages(), RowVersions()

    def put(self, writes: Sequence[Write]) -> None:
        """Writes one group."""
        self.connection.execute("BEGIN")
        group = Group(
            connection=self.connection, pages=self._pages, row_versions=self._row_versions, writes=writes
        )
        assert [verdict for verdict in map(group.take, writes) if verdict] == []
        group.flush()
        self.connection.execute("COMMIT")
        group.settle()

    def count(self, condition: str) -> int:
        """How many rows `condition` names."""
        count: int = self.connection.execute(f"SELECT count(*) FROM {condition}").fetchall()[0][0]
        return count


@pytest.fixture
def database() -> object:
    """An empty state in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield Database(connection)


def test_a_page_goes_when_the_history_has_its_records(database: Database) -> None:
    """All of them; it goes with the next group."""
    database.put([commit("a"), commit("b")])
    database.put([turn("a"), turn("b", batch=batch(9))])
    database.put([turn("a", over=2)])
    assert database.count("journal") == 2
    database.put([Written((("u", 2),))])
    database.put([turn("b", over=2, batch=batch(10))])
    assert database.count("journal") == 3
    database.put([Written((("u", 9), ("u", 3)))])
    database.put([turn("b", over=3, batch=None), turn("a", over=3)])
    assert database.count("journal") == 2


def test_confirmations_alone_write_nothing_until_there_are_many(database: Database) -> None:
    """The page of a confirmed record goes with the next group that writes something."""
    database.put([commit("a")])
    for number in range(MAX_SPENT_PAGES):
        database.put([turn("a", over=number + 1, batch=batch(number))])
    for number in range(MAX_SPENT_PAGES):
        before = database.connection.total_changes
        database.put([Written((("u", number),))])
        assert database.connection.total_changes == before
    database.put([Written(())])
    assert database.count("journal") == 0


def test_a_long_journal_of_0_1_0_is_brought_in_piece_by_piece(database: Database) -> None:
    """A start does not hold all of it in memory; all last turns and all records come into the tables."""
    large = b"x" * (UNLOAD_BYTES // 32)
    database.put([commit(f"j{number}") for number in range(40)])
    for over in (1, 2):
        for number in range(40):
            one = turn(f"j{number}", over=over, document=large)
            page = page_of_0_1_0([one], [batch(100 * over + number)])
            add_page(database.connection, page, 100 * over + number)
    statements: list[str] = []
    database.connection.set_trace_callback(statements.append)
    unload(database.connection)
    database.connection.set_trace_callback(None)
    assert database.count("jobs WHERE sequence = 3 AND execute_number = 2") == 40
    assert (database.count("unwritten"), database.count("journal")) == (80, 0)
    assert sum("document IS NULL" in statement for statement in statements) == 3


async def test_what_no_table_can_hold_fails_alone(folder: Path) -> None:
    """The others of its group are written."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit("good"), commit("bad")])
    answers = await store.commit_all([turn("good"), turn("bad", missed=1 << 63)])
    assert [type(answer) for answer in answers] == [type(None), StoreUnavailable]
    assert await store.due_wall(100, 10) == [(10, "good")]
    await store.close()
