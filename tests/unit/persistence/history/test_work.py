"""What the history costs, in work and not in time: statements and bytes."""

import sqlite3
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from scheduler_service.domain.execution import FailureType, FiringOutcome
from scheduler_service.domain.records import FiringRecord
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.day_statistics import count_ended
from scheduler_service.persistence.history.row_merging import (
    CELLS,
    ENTRIES,
    EXECUTIONS,
    FIRINGS,
    SLOTS,
    coalesce,
    insert_rows,
    write_together,
)
from scheduler_service.persistence.sql.sqlite import IN_MEMORY, insert_many
from tests.unit.persistence.history.samples import START, attempt, batch, execution, turns_of


def write(database: HistoryDatabase, count: int) -> int:
    """Writes so many executions at once; how many statements that took, beside BEGIN and COMMIT."""
    rows = coalesce([one for number in range(count) for one in turns_of(number)])
    with database.writing() as connection:
        heard: list[str] = []
        raw = connection.connection.driver_connection
        raw.set_trace_callback(heard.append)
        insert_rows(database.dialect, connection, rows, write_executions=write_together)
        raw.set_trace_callback(None)
    return len(heard)


@pytest.mark.parametrize(("count", "statements"), [(1, 6), (64, 7), (256, 7), (255, 27), (1_000, 4 * 8)])
def test_a_load_takes_few_statements(count: int, statements: int) -> None:
    """One of each table for a power of two up to 256, at most eight and the full ones for any other size.

    What is counted of each job has a row more: the sum. Five minutes have few rows: a state,
    lateness, duration.
    """
    database = HistoryDatabase(url=IN_MEMORY)
    assert write(database, count) <= statements
    database.close()


def test_what_is_rarely_there_is_not_written_as_nothing() -> None:
    """Rows of executions that went well do not name the columns of failures; a mixed load is told apart."""
    database = HistoryDatabase(url=IN_MEMORY)
    failed = batch(2, execution(2, state="terminated", error="http_status", failure_type=FailureType.HTTP))
    rows = coalesce([*turns_of(1), *turns_of(2), failed])
    with database.writing() as connection:
        heard: list[str] = []
        raw = connection.connection.driver_connection
        raw.set_trace_callback(heard.append)
        insert_rows(database.dialect, connection, rows, write_executions=write_together)
        raw.set_trace_callback(None)
        kept = connection.exec_driver_sql("SELECT error,failure_type FROM executions ORDER BY error").all()
    named = ['"error"' in text.partition("VALUES")[0] for text in heard if "INTO executions" in text]
    assert named == [False, True]
    assert kept == [(None, None), (None, None), ("http_status", "http")]
    database.close()


def test_an_error_that_is_over_is_wiped_out() -> None:
    """A later row without the rare values takes those of the earlier one away."""
    database = HistoryDatabase(url=IN_MEMORY)
    for sequence, told in ((2, {"reason": "retry", "progress": "half"}), (3, {"state": "succeeded"})):
        with database.writing() as connection:
            rows = coalesce([batch(sequence, execution(**told))])
            insert_rows(database.dialect, connection, rows, write_executions=write_together)
            kept = connection.exec_driver_sql("SELECT state,reason,progress FROM executions").all()
    assert kept == [("succeeded", None, None)]
    database.close()


def test_a_value_is_taken_by_the_driver_as_it_is() -> None:
    """No row of an execution that went well has a value that the driver would want to adapt first."""
    whole = {"state": "succeeded", "started_at": START, "ended_at": START}
    fired = FiringRecord(planned_at=START, outcome=FiringOutcome.FIRED, execute_number=1)
    rows = coalesce([batch(2, fired, execution(**whole), *attempt(1, 1))])
    heard: list[object] = []

    class Hearing(sqlite3.Connection):
        def execute(self, _: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
            heard.extend(values)
            return super().execute("SELECT 1")

    connection = sqlite3.connect(":memory:", factory=Hearing)
    cells, slots = count_ended(rows.executions, ())
    for upsert, found in (
        (EXECUTIONS, rows.executions), (ENTRIES, rows.entries), (FIRINGS, rows.firings), (CELLS, cells),
        (SLOTS, slots),
    ):  # fmt: skip
        insert_many(connection, upsert, found)
    assert {type(value) for value in heard} == {int, str, bytearray}


def test_a_short_execution_is_small() -> None:
    """Its row, its detail with both bodies, its entry in the ledger and what is counted, with all indexes."""
    database = HistoryDatabase(url=IN_MEMORY)
    with database.writing() as connection:
        before = size_of(connection)
    write(database, 2_000)
    with database.writing() as connection:
        assert (size_of(connection) - before) / 2_000 < 1_150
    database.close()


def size_of(connection: sa.Connection) -> int:
    """Bytes of all pages."""
    pages: int = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    size: int = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return pages * size
