"""Groups of any size take few statements, and what is large none that keeps it."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from scheduler_service.persistence.sqlite.schema import upgrade
from scheduler_service.persistence.sqlite.statements import (
    PUT_BATCHES,
    PUT_DEFINITIONS,
    PUT_DELIVERIES,
    PUT_REMEMBERED,
    STATEMENT_BYTES,
    Shape,
    put_row,
    put_rows,
)

LARGE = bytearray(STATEMENT_BYTES + 1)
ROWS = {
    "deliveries": (PUT_DELIVERIES, ("id", LARGE)),
    "unwritten": (PUT_BATCHES, ("u", 1, "job", "t", 5, LARGE)),
    "remembered": (PUT_REMEMBERED, ("scope", "key", 1, b"digest", LARGE, "job")),
    "definitions": (PUT_DEFINITIONS, ("u", 1, "job", 5, LARGE)),
}


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """An empty state in memory."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        upgrade(connection, place=":memory:")
        yield connection


def heard(connection: sqlite3.Connection, shape: Shape, rows: list[tuple[object, ...]]) -> list[str]:
    """Writes the rows; the statements that it took, with their values."""
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    put_rows(connection, shape, rows)
    connection.set_trace_callback(None)
    return statements


def deliveries(sizes: list[int]) -> list[tuple[object, ...]]:
    """Rows of `deliveries` with contents of these sizes."""
    return [(f"d{place}", bytearray(size)) for place, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "statements"),
    [
        ([], 0),
        ([10] * 256, 1),
        ([10] * 300, 2),
        ([10] * 301, 2),  # 256 and 48, of which three are the last one again
        ([STATEMENT_BYTES // 8] * 32, 4),
        ([STATEMENT_BYTES] * 3, 3),
        ([10, 10, STATEMENT_BYTES + 1, 10], 4),  # two, the large one, which is then forgotten, and one
    ],
)
def test_a_statement_has_a_bounded_number_of_bytes(
    database: sqlite3.Connection, sizes: list[int], statements: int
) -> None:
    """All rows are written, in as few statements as that allows."""
    assert len(heard(database, PUT_DELIVERIES, deliveries(sizes))) == statements
    found = database.execute("SELECT delivery_id, length(content) FROM deliveries ORDER BY rowid").fetchall()
    assert found == [(f"d{place}", size) for place, size in enumerate(sizes)]


@pytest.mark.parametrize("table", ROWS)
def test_a_large_row_is_written_as_others_are_and_then_forgotten(
    database: sqlite3.Connection, table: str
) -> None:
    """The statement, which Python keeps, has none of its values afterwards, and did nothing with none."""
    shape, row = ROWS[table]
    put_row(database, shape, row)
    alone = database.execute(f"SELECT * FROM {table}").fetchall()
    database.execute(f"DELETE FROM {table}")
    written, forgotten = heard(database, shape, [row])
    assert database.execute(f"SELECT * FROM {table}").fetchall() == alone
    assert len(alone) == 1
    assert len(written) > STATEMENT_BYTES
    assert "NULL" in forgotten
    assert len(forgotten) < 500
    database.execute(f"DELETE FROM {table}")
    small = (*(LARGE[:9] if value is LARGE else value for value in row),)
    put_rows(database, shape, [small])
    assert database.execute(f"SELECT count(*) FROM {table}").fetchall() == [(1,)]
