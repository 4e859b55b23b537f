"""What the state costs, in work and not in time: statements, commits and bytes.

Each statement of the writer's thread has to win the interpreter back from a busy event loop, each commit
waits for the disk, and each page is written to the log and then to the file.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from scheduler_service.domain.moments import MINUTE, Due
from scheduler_service.persistence.job_store.turn_store import MAX_PREFETCHED_BYTES
from scheduler_service.persistence.sql.sqlite import STATEMENT_BYTES
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.state import NOTHING, Commit
from tests.unit.persistence.samples import batch, commit

pytestmark = pytest.mark.anyio
START = 1_790_000_000_000
DEFINITION = b"d" * 250
DOCUMENT = b"s" * 230


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStateStore]:
    """An empty store in a file."""
    opened = await SqliteStateStore.open(folder=tmp_path)
    yield opened
    await opened.close()


def creation(number: int) -> Commit:
    """The first turn of a job that waits."""
    return commit(
        f"job-{number}",
        uid=f"{START:012x}{number:020x}",
        expected=NOTHING,
        sequence=1,
        document=DOCUMENT,
        due=Due(wall=START + number),
        definition=DEFINITION,
        next_fire=START + number,
    )


def firing(number: int, sequence: int) -> Commit:
    """A turn that starts an execution, over `sequence`."""
    return commit(
        f"job-{number}",
        uid=f"{START:012x}{number:020x}",
        expected=sequence,
        sequence=sequence + 1,
        document=DOCUMENT,
        due=Due(wall=START + number + sequence * MINUTE, steady=5_000),
        next_fire=START + number + sequence * MINUTE,
        live=1,
        batch=batch(sequence + 1, uid=f"{START:012x}{number:020x}"),
    )


def writing(store: SqliteStateStore) -> sqlite3.Connection:
    """The connection that writes."""
    assert store.files is not None
    return store.files.writing


async def put(store: SqliteStateStore, turns: list[Commit]) -> list[str]:
    """Writes a group; the statements that it takes."""
    heard: list[str] = []
    writing(store).set_trace_callback(heard.append)
    assert not any(await store.commit_all(turns))
    writing(store).set_trace_callback(None)
    return heard


@pytest.mark.parametrize("count", [1, 2, 16, 255, 256])
async def test_a_group_takes_the_same_statements_whatever_its_size(
    store: SqliteStateStore, count: int
) -> None:
    """BEGIN, one statement for each kind of row, COMMIT; how a job stands is not asked."""
    assert len(await put(store, [creation(number) for number in range(count)])) == (5 if count == 1 else 4)
    for sequence in (1, 2):
        assert len(await put(store, [firing(number, sequence) for number in range(count)])) == 4


async def test_rows_that_are_not_known_are_written_whole(store: SqliteStateStore, tmp_path: Path) -> None:
    """By one statement as well: those of another start, that nobody has loaded."""
    await put(store, [creation(number) for number in range(16)])
    await store.close()
    again = await SqliteStateStore.open(folder=tmp_path)
    heard = await put(again, [firing(number, 1) for number in range(16)])
    assert len(heard) == 4
    assert '"job_name"=' in heard[1]
    await again.close()


async def test_a_group_of_many_takes_few_statements_more(store: SqliteStateStore) -> None:
    """One for up to 256 rows of a kind."""
    heard = await put(store, [creation(1_000 + number) for number in range(1_000)])
    assert len(heard) == 2 + 2 * 4


@pytest.mark.parametrize(
    ("turn", "named"),
    [
        (firing(1, 1), ('"due_wall"=',)),
        (replace(firing(1, 1), due=creation(1).due, entry=creation(1).entry), ()),
    ],
)
async def test_columns_that_stay_are_not_written(
    store: SqliteStateStore, turn: Commit, named: tuple[str, ...]
) -> None:
    """A turn changes counts, and moments where they move: other columns and their indexes stay."""
    await store.commit(creation(1))
    update = next(one for one in await put(store, [turn]) if one.startswith("UPDATE jobs"))
    assert [one for one in ('"due_wall"=', '"job_name"=', '"state"=') if one in update] == list(named)


async def test_what_is_large_is_written_alone_and_not_kept(store: SqliteStateStore) -> None:
    """A statement keeps its values until it is given others, and an update keeps what it replaces."""
    large = b"x" * (STATEMENT_BYTES + 1)
    await store.commit_all([creation(number) for number in range(3)])
    heard = await put(store, [replace(firing(number, 1), document=large) for number in range(3)])
    updates = [one for one in heard if one.startswith("UPDATE jobs")]
    assert [len(one) > STATEMENT_BYTES for one in updates] == [True, False] * 3
    heard = await put(store, [firing(number, 2) for number in range(3)])
    assert len([one for one in heard if one.startswith("UPDATE jobs")]) == 3


async def test_a_waiting_job_is_small_on_disk(store: SqliteStateStore) -> None:
    """A row, its definition and the places in the indexes: 1,000,000 jobs fit on any disk."""
    before = size_of(writing(store))
    for start in range(0, 4_000, 1_000):
        await put(store, [creation(number) for number in range(start, start + 1_000)])
    assert (size_of(writing(store)) - before) / 4_000 < 1_120


async def test_an_execution_writes_few_pages(tmp_path: Path) -> None:
    """In groups of 100 over 1,000 jobs: what two turns and the history's answer write into the log."""
    store = await SqliteStateStore.open(folder=tmp_path)
    await store.commit_all([creation(number) for number in range(1_000)])
    log = tmp_path / "state.db-wal"
    before = log.stat().st_size
    for start in range(0, 200, 100):
        numbers = range(start, start + 100)
        assert not any(await store.commit_all([firing(number, 1) for number in numbers]))
        assert not any(await store.commit_all([firing(number, 2) for number in numbers]))
        await store.written(
            [(f"{START:012x}{number:020x}", sequence) for number in numbers for sequence in (2, 3)]
        )
    assert (log.stat().st_size - before) / 200 < 2_900
    await store.close()


def size_of(connection: sqlite3.Connection) -> int:
    """Bytes of all pages."""
    pages: int = connection.execute("PRAGMA page_count").fetchall()[0][0]
    size: int = connection.execute("PRAGMA page_size").fetchall()[0][0]
    return pages * size


class Asked(SqliteStateStore):
    """Records the statements of its readers."""

    def hear(self) -> list[str]:
        """The statements from now on."""
        heard: list[str] = []
        readers = self._dialect.readers  # type: ignore[attr-defined]
        sa.event.listen(readers, "before_cursor_execute", lambda *given: heard.append(given[2]))
        return heard


def _selects(statements: list[str]) -> int:
    return sum(one != "BEGIN" for one in statements)


async def test_a_job_is_loaded_with_its_definition(tmp_path: Path) -> None:
    """One trip to the reader's thread and one statement for jobs that are loaded together."""
    store = await Asked.open(folder=tmp_path)
    await store.commit_all([creation(number) for number in range(20)])
    heard = store.hear()
    loaded = await asyncio.gather(*(store.load(f"job-{number}") for number in range(20)))
    for job in loaded:
        assert job is not None
        assert await store.definition(job.entry.uid, job.entry.revision) == DEFINITION
    assert _selects(heard) == 1
    assert await store.definition(loaded[0].entry.uid, 1) == DEFINITION  # type: ignore[union-attr]
    assert _selects(heard) == 2
    assert await store.definition(loaded[0].entry.uid, 9) is None  # type: ignore[union-attr]
    await store.close()


async def test_a_long_definition_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    """What many loads bring along has a bound."""
    store = await Asked.open(folder=tmp_path)
    long = b"d" * (MAX_PREFETCHED_BYTES + 1)
    await store.commit(replace(creation(1), definition=long))
    heard = store.hear()
    loaded = await store.load("job-1")
    assert loaded is not None
    assert await store.definition(loaded.entry.uid, 1) == long
    assert _selects(heard) == 2
    await store.close()


async def test_definitions_that_nobody_asks_for_do_not_gather(tmp_path: Path) -> None:
    """A bounded number waits to be asked for; the others are read when they are."""
    store = await Asked.open(folder=tmp_path)
    await store.commit_all([creation(number) for number in range(300)])
    loaded = await asyncio.gather(*(store.load(f"job-{number}") for number in range(300)))
    heard = store.hear()
    for job in loaded:
        assert job is not None
        assert await store.definition(job.entry.uid, 1) == DEFINITION
    assert _selects(heard) >= len(loaded) - 256
    await store.close()
