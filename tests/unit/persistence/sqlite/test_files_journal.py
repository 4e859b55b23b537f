"""Records that the history has not confirmed; and what earlier versions left in the journal."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import chain
from pathlib import Path
from random import Random
from types import NoneType

import msgspec
import pytest

from scheduler_service.domain.moments import Due
from scheduler_service.domain.records import Noted
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.job_store.record_groups import GROUP_UID, MOST_BATCHES, MOST_BYTES
from scheduler_service.persistence.job_store.state_store import CONFIRMED_SECONDS, MAX_CONFIRMED, owns_all
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreDamaged, StoreUnavailable, StoreUncertain
from scheduler_service.ports.history import Batch
from scheduler_service.ports.state import Commit
from tests.fault_points import Breaking
from tests.simulation.disk import Disk
from tests.simulation.faults import KillingPoints, Risks, StoreTrouble, Troubles
from tests.simulation.loop import SimulatedProcess, VirtualLoop, run_virtually
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
