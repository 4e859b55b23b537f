"""Turns in the journal: as durable and as visible as in the table, and brought there later."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.common.writes import Written
from scheduler_service.persistence.sqlite.catalogue import SqliteCatalogue
from scheduler_service.persistence.sqlite.commit_group import MAX_SPENT_PAGES, Fold, Group, Write
from scheduler_service.persistence.sqlite.journal import FOLD_BYTES, REPLACED_SHARE, Journal, unload
from scheduler_service.persistence.sqlite.journal_page import LostTurns, OnDamage
from scheduler_service.persistence.sqlite.reader import Reader
from scheduler_service.persistence.sqlite.rows import LARGE_BYTES
from scheduler_service.persistence.sqlite.schema import upgrade
from scheduler_service.persistence.sqlite.store import FOLDS_AWAITED, SqliteStateStore
from scheduler_service.ports.catalogue import CatalogueEntry, JobPage, JobQuery
from scheduler_service.ports.errors import StoreConflict, StoreDamaged, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Commit, StoredJob
from tests.unit.persistence.samples import batch, commit

pytestmark = pytest.mark.anyio

LARGEST = b"x" * LARGE_BYTES
"""The largest state of which the journal keeps turns."""


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


class Breaking:
    """Raises once, at one place, and counts."""

    def __init__(self, place: str = "") -> None:
        self.place: str | None = place
        self.folds = 0

    def before(self, point: str) -> None:
        self._break(f"before {point}")

    def after(self, point: str) -> None:
        self.folds += point == FaultPoint.FOLD
        self._break(f"after {point}")

    def _break(self, place: str) -> None:
        if place == self.place:
            self.place = None
            raise sqlite3.OperationalError("disk I/O error")


async def test_a_turn_survives_a_crash_before_it_is_in_the_table(folder: Path) -> None:
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


async def test_a_later_turn_past_the_journal_wins_after_a_crash(folder: Path) -> None:
    """A change of the definition is written at once; the older turn in the journal does not undo it."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit(), commit("other")])
    await store.commit_all([turn(), turn("other")])
    await store.commit(commit(expected=2, document=b"changed", definition=b"{}", revision=2))
    await store.commit(commit("other", expected=2, document=None))
    copy = image(folder)
    assert pages_of(copy) == 1
    other = await SqliteStateStore.open(folder=copy)
    stored, gone = await other.load("job"), await other.load("other")
    assert stored is not None
    assert gone is not None
    assert (stored.sequence, stored.document, gone.document) == (3, b"changed", None)
    await store.close()
    await other.close()


async def test_what_lies_in_the_journal_is_seen_by_every_read(folder: Path) -> None:
    """A read that begins after a commit sees it, whichever way the read goes."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit(next_fire=5))
    await store.commit(turn(next_fire=7, live=1))
    entry = await store.catalogue.get("job")
    assert entry is not None
    assert entry.next_fire == 7
    assert (await store.catalogue.some(["job"]))["job"].next_fire == 7
    assert await store.due_steady(100, 10) == []
    await store.commit(turn(over=2, next_fire=8, live=1))
    assert [one.job_id for one in await store.open_jobs("", 10, ())] == ["job"]
    await store.commit(turn(over=3, next_fire=9, live=1))
    assert [one.next_fire for one in (await store.catalogue.list(JobQuery(tenant=None))).items] == [9]
    await store.commit(turn(over=4, next_fire=10, live=1))
    assert [one.next_fire for one in await store.catalogue.upcoming(0, 100, 10)] == [10]
    await store.close()


async def list_beside(store: SqliteStateStore, *commits: Commit) -> list[object]:
    """What comes of a list of all jobs and of `commits`, which are asked for in one round of the loop."""

    async def write(one: Commit) -> None:
        await store.commit(one)

    calls = [store.catalogue.list(JobQuery(tenant=None)), *map(write, commits)]
    return await asyncio.gather(*calls, return_exceptions=True)


async def test_a_list_has_the_earlier_turns_of_jobs_that_move_on_meanwhile(folder: Path) -> None:
    """The turn that comes with the list stays in no journal while the row lacks the one before."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit("a"), commit("b")])
    await store.commit_all([turn("a"), turn("b")])
    page, *_ = await list_beside(store, turn("a", over=2), turn("b", over=2))
    assert isinstance(page, JobPage)
    assert min(one.execute_number for one in page.items) >= 1
    await store.close()


async def test_a_list_ends_while_jobs_move_on(folder: Path) -> None:
    """However fast: what it waits for goes past the journal."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit("a"))
    await store.commit(turn("a"))
    listing = asyncio.create_task(store.catalogue.list(JobQuery(tenant=None)))
    over = 1
    while not listing.done() and over < 50:
        over += 1
        await store.commit(turn("a", over=over))
    assert over < 50
    await listing
    await store.close()


async def test_a_list_waits_for_few_folds_after_a_burst(folder: Path) -> None:
    """However many turns it left; and no commit waits for more than some of them at once."""
    breaking = Breaking()
    store = await SqliteStateStore.open(folder=folder, faults=breaking)
    names = [f"job-{number}" for number in range(4 * 600)]
    await store.commit_all([commit(name) for name in names])
    await store.commit_all([turn(name, batch=None) for name in names])
    page = await store.catalogue.list(JobQuery(tenant=None, limit=500))
    assert {one.execute_number for one in page.items} == {1}
    assert breaking.folds == FOLDS_AWAITED
    await store.close()


async def test_a_list_that_fails_costs_no_turn(folder: Path) -> None:
    """The turn that came with it is in the journal, as if nobody had waited for its row."""
    faults = Breaking()
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    await store.commit(commit("a"))
    await store.commit(turn("a"))
    faults.place = f"after {FaultPoint.WRITE}"
    listing, done = await list_beside(store, turn("a", over=2, batch=None))
    assert isinstance(listing, StoreUnavailable)
    assert done is None
    assert pages_of(folder) == 2
    assert [one.execute_number for one in (await store.catalogue.list(JobQuery(tenant=None))).items] == [2]
    await store.close()


async def test_jobs_of_some_ids_have_their_turns_while_a_fold_comes(folder: Path) -> None:
    """A turn that was in the journal when they were asked for may have left it when their rows are read."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit("a"))
    latest = turn("a")
    pending = {"a": StoredJob(latest.entry, latest.sequence, latest.document, latest.due)}

    class Folding(SqliteCatalogue):
        async def read_entries(self, *arguments: Any, **options: Any) -> list[CatalogueEntry]:
            pending.clear()
            return await super().read_entries(*arguments, **options)

    loop = asyncio.get_running_loop()
    reader = Reader(files=store.files, connection=store.files.listing, name="test", loop=loop)
    catalogue = Folding(reader=reader, catch_up=store.catalogue.catch_up, find=pending.get)
    assert (await catalogue.some(["a", "b"]))["a"].execute_number == 1
    await reader.close()
    await store.close()


async def test_an_old_turn_is_refused_over_one_in_the_journal(folder: Path) -> None:
    """The journal's turn is what the next one has to follow."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit(commit())
    await store.commit(turn())
    with pytest.raises(StoreConflict):
        await store.commit(turn())
    await store.close()


async def test_a_doubt_about_a_page_ends_by_what_the_file_holds(folder: Path) -> None:
    """Where the end of a commit is unknown, the next load reads the file, and turns go on over it."""
    faults = Breaking()
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    await store.commit(commit())
    await store.commit(turn())
    faults.place = f"after {FaultPoint.COMMIT}"
    with pytest.raises(StoreUncertain):
        await store.commit(turn(over=2, document=b"doubted"))
    stored = await store.load("job")
    assert stored is not None
    assert (stored.sequence, stored.document) == (3, b"doubted")
    await store.commit(turn(over=3))
    await store.written([("u", 2)])
    assert [one.sequence for one in await store.unwritten(("", 0), 10)] == [3, 4]
    await store.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_fold_that_fails_costs_nothing(folder: Path, when: str) -> None:
    """The turns stay in the journal or are in the table; its caller may try again (SPEC section 8)."""
    faults = Breaking(f"{when} {FaultPoint.FOLD}")
    store = await SqliteStateStore.open(folder=folder, faults=faults)
    await store.commit(commit())
    await store.commit(turn())
    with pytest.raises((StoreUnavailable, StoreUncertain)):
        await store.due_wall(100, 10)
    copy = image(folder)
    for one in (store, await SqliteStateStore.open(folder=copy)):
        assert await one.due_wall(100, 10) == [(10, "job")]
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
    """What a crash leaves: the jobs `job` and `other`, whose second turns are in one page of the journal."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit("job", uid="one"), commit("other", uid="two")])
    await store.commit_all([turn("job", uid="one"), turn("other", uid="two", batch=batch(2, uid="two"))])
    copy = image(folder)
    await store.close()
    return copy


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
    """A state in memory whose journal is full with more than four turns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        upgrade(connection, place=":memory:")
        self.connection = connection
        self.journal = Journal(max_turns=4)

    def put(self, writes: Sequence[Write]) -> None:
        """Writes one group."""
        self.connection.execute("BEGIN")
        group = Group(connection=self.connection, journal=self.journal, writes=writes)
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


def test_a_full_journal_is_folded_as_turns_come(database: Database) -> None:
    """However many jobs move on, few wait in memory and on disk, those left alone longest go first."""
    database.put([commit(f"j{number}") for number in range(40)])
    for number in range(40):
        database.put([turn(f"j{number}", batch=None)])
    assert database.count("jobs WHERE execute_number = 1") >= 35
    assert database.count("jobs WHERE job_id = 'j39' AND execute_number = 0") == 1
    assert database.count("journal") <= 6


def test_a_fold_writes_few_bytes_at_once(database: Database) -> None:
    """What is written takes memory several times over."""
    database.journal = Journal()
    database.put([commit(f"j{number}") for number in range(80)])
    database.put([turn(f"j{number}", document=LARGEST, batch=None) for number in range(80)])
    for folded in (32, 64, 80):
        database.put([Fold()])
        assert database.count("jobs WHERE execute_number = 1") == folded


def test_a_fold_rids_few_rows_of_large_states_at_once(database: Database) -> None:
    """Each page of what they had is visited, and what others write waits meanwhile."""
    database.journal = Journal()
    database.put([commit(f"j{number}", document=b"x" * FOLD_BYTES) for number in range(10)])
    database.put([turn(f"j{number}", batch=None) for number in range(10)])
    for folded in (REPLACED_SHARE, 2 * REPLACED_SHARE, 10):
        database.put([Fold()])
        assert database.count("jobs WHERE execute_number = 1") == folded


def test_a_large_state_is_written_at_once(database: Database) -> None:
    """It takes no memory in the journal, and wins over the turn there, and over none that comes later."""
    database.put([commit("a"), commit("b")])
    database.put([turn("a"), turn("b")])
    database.put([turn("a", over=2, document=LARGEST + b"x")])
    assert database.count("jobs WHERE job_id = 'a' AND execute_number = 2") == 1
    assert [one.job.entry.job_id for one in database.journal.oldest(9)] == ["b"]
    database.put([turn("a", over=3)])
    assert database.count("jobs WHERE job_id = 'a' AND execute_number = 2") == 1
    unload(database.connection)
    assert database.count("jobs WHERE execute_number = 3 AND document = CAST('turned' AS BLOB)") == 1
    assert database.count("unwritten") == 3


def test_a_journal_with_too_many_bytes_is_folded_as_turns_come(database: Database) -> None:
    """By more than is added."""
    database.journal = journal = Journal(max_bytes=2 * FOLD_BYTES)
    database.put([commit(f"j{number}") for number in range(200)])
    most, kept = 2 * FOLD_BYTES // len(LARGEST) + 1, []
    for number in range(200):
        database.put([turn(f"j{number}", document=LARGEST, batch=None)])
        kept.append(len(journal.oldest(200, 20 * FOLD_BYTES)))
    assert kept[:most] == list(range(1, most + 1))
    assert max(kept) == most


def test_a_page_is_held_until_the_rows_have_its_turns(database: Database) -> None:
    """That a job moves on takes nothing into its row."""
    database.journal = journal = Journal()
    database.put([commit("a"), commit("b")])
    database.put([turn("a"), turn("b")])
    database.put([turn("a", over=2)])
    database.put([Fold(count=1)])
    assert database.count("jobs WHERE job_id = 'b' AND execute_number = 1") == 1
    assert journal.holds(1)
    database.put([Fold()])
    assert not journal.holds(1)


def test_who_waits_for_rows_gets_those_that_are_behind_for_longest(database: Database) -> None:
    """Others are folded when they have had no turn for longest."""
    database.journal = journal = Journal()
    database.put([commit(job_id) for job_id in ("a", "b", "c")])
    database.put([turn("a"), turn("b")])
    database.put([turn("b", over=2), turn("c"), turn("a", over=2)])
    database.put([Fold(count=1, is_awaited=True)])
    assert database.count("jobs WHERE job_id = 'a' AND execute_number = 2") == 1
    assert database.count("jobs WHERE execute_number > 0") == 1
    database.put([turn("b", over=3), Fold(count=1, is_awaited=True)])
    assert database.count("jobs WHERE job_id = 'b' AND execute_number = 3") == 1
    assert not journal.holds(journal.newest)


def test_who_waits_for_rows_gets_few_of_large_states_at_once(database: Database) -> None:
    """Also of jobs that move on with it."""
    database.journal = Journal()
    names = [f"j{number}" for number in range(10)]
    database.put([commit(name, document=b"x" * FOLD_BYTES) for name in names])
    database.put([turn(name, batch=None) for name in names])
    database.put([*(turn(name, over=2, batch=None) for name in names), Fold(is_awaited=True)])
    assert database.count("jobs WHERE execute_number = 2") == REPLACED_SHARE
    for folded in (2 * REPLACED_SHARE, 10):
        database.put([Fold(is_awaited=True)])
        assert database.count("jobs WHERE execute_number = 2") == folded


def test_after_a_doubt_all_rows_are_behind(database: Database) -> None:
    """The page that a reader waits for may have been deleted: its job had moved on."""
    database.journal = journal = Journal()
    database.put([commit("a")])
    database.put([turn("a", batch=None)])
    page = journal.newest
    database.put([turn("a", over=2, batch=None)])
    database.put([turn("a", over=3, batch=None)])
    assert database.count(f"journal WHERE page = {page}") == 0
    journal.doubt(())
    journal.reload(database.connection)
    assert journal.holds(page)


def test_a_page_goes_when_nothing_of_it_is_needed(database: Database) -> None:
    """Its jobs are in the table or have moved on, its records are confirmed."""
    database.put([commit("a"), commit("b")])
    database.put([turn("a"), turn("b", batch=batch(9))])
    database.put([turn("a", over=2)])
    database.put([Fold()])
    assert database.count("journal") == 2
    database.put([Written((("u", 2), ("u", 9)))])
    database.put([Fold()])
    assert database.count("journal") == 1
    database.put([Written((("u", 3),))])
    database.put([Fold(count=1)])
    assert database.count("journal") == 0


def test_confirmations_alone_write_nothing_until_there_are_many(database: Database) -> None:
    """The page of a confirmed record goes with the next group that writes something."""
    database.put([commit("a")])
    for number in range(MAX_SPENT_PAGES):
        database.put([turn("a", over=number + 1, batch=batch(number))])
    database.put([Fold()])
    for number in range(MAX_SPENT_PAGES):
        before = database.connection.total_changes
        database.put([Written((("u", number),))])
        assert database.connection.total_changes == before
    database.put([Written(())])
    assert database.count("journal") == 0


def test_states_are_brought_in_piece_by_piece(database: Database) -> None:
    """A start does not hold all of them in memory."""
    database.journal = Journal()
    database.put([commit(f"j{number}") for number in range(80)])
    for number in range(80):
        database.put([turn(f"j{number}", document=LARGEST, batch=None)])
    statements: list[str] = []
    database.connection.set_trace_callback(statements.append)
    unload(database.connection)
    database.connection.set_trace_callback(None)
    assert database.count("jobs WHERE execute_number = 1") == 80
    assert sum("document IS NULL" in statement for statement in statements) == 3


@pytest.mark.parametrize("batch_size", [1, 3, 100])
def test_a_long_journal_is_brought_in_piece_by_piece(database: Database, batch_size: int) -> None:
    """However much is in memory at a time, all last turns and all records come into the tables."""
    database.put([commit(f"j{number}") for number in range(4)])
    for over in range(1, 4):
        database.put([turn(f"j{number}", over=over, batch=batch(over * 10 + number)) for number in range(4)])
    unload(database.connection, batch_size=batch_size)
    assert database.count("jobs WHERE sequence = 4 AND execute_number = 3") == 4
    assert (database.count("unwritten"), database.count("journal")) == (12, 0)


async def test_what_no_table_can_hold_fails_alone_and_now(folder: Path) -> None:
    """Not later, when it is folded with others."""
    store = await SqliteStateStore.open(folder=folder)
    await store.commit_all([commit("good"), commit("bad")])
    answers = await store.commit_all([turn("good"), turn("bad", missed=1 << 63)])
    assert [type(answer) for answer in answers] == [type(None), StoreUnavailable]
    assert await store.due_wall(100, 10) == [(10, "good")]
    await store.close()
