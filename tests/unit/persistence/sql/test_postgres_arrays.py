"""Columns of rows as PostgreSQL reads them."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from scheduler_service.persistence.sql import postgres_arrays
from scheduler_service.persistence.sql.postgres_arrays import byte_strings, numbers, texts

LEAST, MOST = -(2**63), 2**63 - 1
PREPARED = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT count(*) FROM unnest%'"


@pytest.fixture
def connection(postgres_server: str) -> Iterator[psycopg.Connection[Any]]:
    """One that knows the arrays."""
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as one:
        postgres_arrays.register(one.adapters)
        yield one


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (numbers, [0]),
        (numbers, [1, None, LEAST, MOST, True]),
        (numbers, [None]),
        (texts, ["", "a", None, "größe 中 \U0001f600", "{\"',}", "NULL"]),
        (texts, [None, None]),
        (byte_strings, [b"", b"\0\xff\xff\xff\xff", None]),
    ],
)
def test_the_server_reads_the_values(
    connection: psycopg.Connection[Any], make: postgres_arrays.ArrayOf, values: Sequence[Any]
) -> None:
    found = connection.execute(b"SELECT * FROM unnest(%b)", [make(values)]).fetchall()
    assert [value for (value,) in found] == values


def test_a_nul_becomes_what_postgresql_can_hold(connection: psycopg.Connection[Any]) -> None:
    (found,) = connection.execute(b"SELECT (%b)[1]", [texts(["a\0b"])]).fetchone() or ()
    assert found == "a\ufffdb"


@pytest.mark.parametrize("value", [MOST + 1, LEAST - 1, "1", 1.5])
def test_what_is_no_number_of_64_bits_is_an_error_of_its_value(value: Any) -> None:
    with pytest.raises(psycopg.DataError, match="column of whole numbers"):
        numbers([1, value])


def test_the_server_plans_a_statement_once_whatever_the_values(connection: psycopg.Connection[Any]) -> None:
    """Of numbers the driver makes arrays of two, four or eight bytes, of NULL alone an array of texts."""
    connection.prepare_threshold = 0
    for values in ([1], [1 << 20], [1 << 40], [None], [None, 1]):
        connection.execute(b"SELECT count(*) FROM unnest(%b::bigint[])", [numbers(values)])
    assert (connection.execute(PREPARED).fetchone() or ())[0] == 1
