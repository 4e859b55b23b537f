"""What the history costs, in work and not in time: statements and bytes (DESIGN section 6)."""

import sqlite3

import pytest

from scheduler_service.domain.execution import FiringOutcome
from scheduler_service.domain.records import FiringRecord
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.insertion import insert_rows
from scheduler_service.persistence.history.merging import merge
from scheduler_service.persistence.history.sqlite import IN_MEMORY
from scheduler_service.ports import Batch
from tests.unit.persistence_history.samples import START, attempt, batch, execution


def turns_of(number: int) -> list[Batch]:
    """The two turns of a short execution that its timer started, of a job of its own."""
    began, step, ended = attempt(1, 1)
    life = {"uid": f"{START:012x}{number:020x}", "job_id": f"job-{number}"}
    fired = FiringRecord(planned_at=START, outcome=FiringOutcome.FIRED, execute_number=1)
    return [
        batch(2, fired, execution(), began, **life),
        batch(3, execution(state="succeeded"), step, ended, **life),
    ]


def write(database: HistoryDatabase, count: int) -> int:
    """Writes so many executions at once; how many statements that took, beside BEGIN and COMMIT."""
    rows = merge([one for number in range(count) for one in turns_of(number)])
    with database.writing() as connection:
        heard: list[str] = []
        connection.set_trace_callback(heard.append)
        insert_rows(connection, rows)
        connection.set_trace_callback(None)
    return len(heard)


@pytest.mark.parametrize(("count", "statements"), [(1, 3), (64, 3), (256, 3), (255, 24), (1_000, 3 * 8)])
def test_a_load_takes_few_statements(count: int, statements: int) -> None:
    """One of each table for a power of two up to 256, at most eight and the full ones for any other size."""
    database = HistoryDatabase(url=IN_MEMORY)
    assert write(database, count) <= statements
    database.close()


def test_a_short_execution_is_small() -> None:
    """Its row, its detail with both bodies and its entry in the ledger, with all indexes."""
    database = HistoryDatabase(url=IN_MEMORY)
    with database.writing() as connection:
        before = size_of(connection)
    write(database, 2_000)
    with database.writing() as connection:
        assert (size_of(connection) - before) / 2_000 < 1_150
    database.close()


def size_of(connection: sqlite3.Connection) -> int:
    """Bytes of all pages."""
    pages: int = connection.execute("PRAGMA page_count").fetchall()[0][0]
    size: int = connection.execute("PRAGMA page_size").fetchall()[0][0]
    return pages * size
