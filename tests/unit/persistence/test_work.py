"""What the state costs, in work and not in time: statements, commits and bytes.

Each statement of the writer's thread has to win the interpreter back from a busy event loop, each commit
waits for the disk, and each page is written to the log and then to the file.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from scheduler_service.domain.moments import MINUTE, Due
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.sql.sqlite import SqliteDialect
from scheduler_service.persistence.sqlite.commit_group import BatchKey, CommitGroup, ConfirmedBatches, Write
from scheduler_service.persistence.sqlite.row_versions import RowVersions
from scheduler_service.persistence.sqlite.rows import MAX_PREFETCHED_BYTES
from scheduler_service.persistence.sqlite.schema import upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.state import NOTHING, Commit
from tests.unit.persistence.samples import batch, commit

pytestmark = pytest.mark.anyio
START = 1_790_000_000_000
DEFINITION = b"d" * 250
DOCUMENT = b"s" * 230


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """An empty state in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        upgrade(connection, place=":memory:")
        yield connection


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


class Known:
    """What a writer knows of its file."""

    def __init__(self) -> None:
        self.confirmed: set[BatchKey] = set()
        self.row_versions = RowVersions()


def put(connection: sqlite3.Connection, writes: list[Write], known: Known | None = None) -> int:
    """Writes a group; how many statements that took."""
    known = Known() if known is None else known
    heard: list[str] = []
    dialect = SqliteDialect.over(connection, subject="a test")
    with dialect.engine.connect() as statements:
        connection.set_trace_callback(heard.append)
        connection.execute("BEGIN IMMEDIATE")
        group = CommitGroup(
            connection=connection,
            statements=statements,
            dialect=dialect,
            confirmed=known.confirmed,
            row_versions=known.row_versions,
            writes=writes,
        )
        assert [verdict for verdict in map(group.take, writes) if verdict] == []
        group.flush()
        connection.execute("COMMIT")
    group.settle()
    connection.set_trace_callback(None)
    return len(heard)


@pytest.mark.parametrize("count", [1, 16, 256])
def test_a_group_takes_the_same_statements_whatever_its_size(
    database: sqlite3.Connection, count: int
) -> None:
    """BEGIN, one search, one statement for each kind of row, COMMIT; what is confirmed can wait."""
    known = Known()
    assert put(database, [creation(number) for number in range(count)], known) == 5
    known.row_versions.clear()
    assert put(database, [firing(number, 1) for number in range(count)], known) == 5
    keys = tuple((f"{START:012x}{number:020x}", 2) for number in range(count))
    assert put(database, [ConfirmedBatches(keys)], known) == 2


def test_how_a_job_stands_is_not_asked_where_it_was_written(database: sqlite3.Connection) -> None:
    """BEGIN, the rows, their records, COMMIT: memory knows a row from when it was written."""
    known = Known()
    put(database, [creation(number) for number in range(16)], known)
    assert put(database, [firing(number, 1) for number in range(16)], known) == 4
    assert put(database, [firing(number, 2) for number in range(16)], known) == 4


def test_a_group_of_an_odd_size_takes_few_statements_more(database: sqlite3.Connection) -> None:
    """One for up to 256 rows of a kind."""
    assert put(database, [creation(number) for number in range(255)]) == 3 + 2
    assert put(database, [creation(1_000 + number) for number in range(1_000)]) == 3 + 2 * 4


class Gate:
    """Counts commits; the first one waits until it is opened."""

    def __init__(self) -> None:
        self.commits = 0
        self.is_open = threading.Event()

    def before(self, point: str) -> None:
        if point == FaultPoint.BEGIN:
            assert self.is_open.wait(30)

    def after(self, point: str) -> None:
        self.commits += point == FaultPoint.COMMIT


async def test_what_waits_together_is_committed_together(tmp_path: Path) -> None:
    """One commit, and with it one wait for the disk, for all that came while the disk was busy."""
    gate = Gate()
    store = await SqliteStateStore.open(folder=tmp_path, faults=gate)
    first = store.commit(creation(0))
    rest = [store.commit(creation(number)) for number in range(1, 200)]
    gate.is_open.set()
    await first
    for one in rest:
        await one
    assert gate.commits <= 2
    before = gate.commits
    await store.commit_all([creation(number) for number in range(1_000, 2_000)])
    assert gate.commits == before + 1
    await store.close()


def test_a_waiting_job_is_small_on_disk(database: sqlite3.Connection) -> None:
    """A row, its definition and the places in the indexes: 1,000,000 jobs fit on any disk."""
    before = size_of(database)
    for start in range(0, 4_000, 1_000):
        put(database, [creation(number) for number in range(start, start + 1_000)])
    assert (size_of(database) - before) / 4_000 < 1_100


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
        self.files.reading.set_trace_callback(heard.append)
        return heard


async def test_a_job_is_loaded_with_its_definition(tmp_path: Path) -> None:
    """One trip to the reader's thread and one statement for jobs that are loaded together."""
    store = await Asked.open(folder=tmp_path)
    await store.commit_all([creation(number) for number in range(20)])
    heard = store.hear()
    loaded = await asyncio.gather(*(store.load(f"job-{number}") for number in range(20)))
    for job in loaded:
        assert job is not None
        assert await store.definition(job.entry.uid, job.entry.revision) == DEFINITION
    assert len(heard) == 1
    assert await store.definition(loaded[0].entry.uid, 1) == DEFINITION  # type: ignore[union-attr]
    assert len(heard) == 2
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
    assert len(heard) == 2
    await store.close()


async def test_definitions_that_nobody_asks_for_do_not_gather(tmp_path: Path) -> None:
    """A bounded number waits to be asked for; the others are read when they are."""
    store = await Asked.open(folder=tmp_path)
    await store.commit_all([creation(number) for number in range(600)])
    loaded = await asyncio.gather(*(store.load(f"job-{number}") for number in range(600)))
    heard = store.hear()
    for job in loaded:
        assert job is not None
        assert await store.definition(job.entry.uid, 1) == DEFINITION
    assert len(heard) >= len(loaded) - 256
    await store.close()
