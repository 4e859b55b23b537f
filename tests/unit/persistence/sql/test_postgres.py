"""What is asked of a PostgreSQL server itself."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from scheduler_service.persistence.history.database import (
    HistoryDatabase,
    count_traces_of_jobs,
    inspect,
    migrate,
)
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS as CLUSTER
from scheduler_service.persistence.sql import postgres_arrays
from scheduler_service.persistence.sql.database import Database, read_report
from scheduler_service.persistence.sql.postgres import PostgresDialect
from scheduler_service.persistence.sql.postgres_arrays import byte_strings, numbers, texts
from scheduler_service.persistence.sql.postgres_connections import driver_of
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.servers import command, make_database

TRIES = 1_000
ASCII, LATIN = (f"ENCODING '{one}' TEMPLATE template0 LOCALE 'C'" for one in ("SQL_ASCII", "LATIN1"))


@pytest.mark.parametrize(("kind", "named"), [(ASCII, "SQL_ASCII"), (LATIN, "LATIN1")])
def test_a_database_in_which_not_every_text_fits_is_refused(
    postgres_server: str, kind: str, named: str
) -> None:
    """With its name, its encoding and the remedy: by a service and by all that `punctual db` does."""
    url = make_database(postgres_server, kind)
    said = rf"{url.rpartition('/')[2]}', whose encoding is {named}: .*ENCODING 'UTF8'.*database\.url"
    for reads in (
        lambda: HistoryDatabase(url=url),
        lambda: inspect(url=url),
        lambda: migrate(url=url),
        lambda: count_traces_of_jobs(url=url),
        lambda: read_report(url=url, subject="a test"),
        lambda: Database(url=url, migrations=CLUSTER),
    ):
        with pytest.raises(StoreUnavailable, match=said):
            reads()


def test_texts_do_not_depend_on_what_other_clients_are_told(
    bare_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PGCLIENTENCODING is for programs that show texts to people."""
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    dialect = PostgresDialect(url=f"{bare_postgres_url}?client_encoding=latin1", subject="a test")
    try:
        with dialect.reading() as connection:
            assert connection.scalar(sa.select(sa.literal("作业 é"))) == "作业 é"
    finally:
        dialect.engine.dispose()


@pytest.fixture(params=["on", "off"])
def fsync(postgres_server: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The server with this setting."""
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET fsync = {request.param}")  # type: ignore[arg-type]
        try:
            connection.execute("SELECT pg_reload_conf()")
            seen = (connection.execute("SHOW fsync").fetchone() for _ in range(TRIES))
            assert (request.param,) in seen, "the server has not read its settings anew"
            yield request.param
        finally:
            connection.execute("ALTER SYSTEM RESET fsync")
            connection.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("synchronous", ["on", "local", "off"])
def test_whether_what_is_committed_is_kept_through_a_power_loss(
    postgres_server: str, fsync: str, synchronous: str
) -> None:
    """Only with both settings: one lets it reach the disk, the other does so before the answer."""
    dialect = PostgresDialect(url=f"{postgres_server}/postgres", subject="a test")
    try:
        with dialect.reading() as connection:
            connection.exec_driver_sql(f"SET LOCAL synchronous_commit TO {synchronous}")
            assert connection.exec_driver_sql("SHOW fsync").scalar_one() == fsync
            assert dialect.syncs(connection) == ("off" not in (fsync, synchronous))
    finally:
        dialect.engine.dispose()


def test_only_what_was_certainly_taken_back_is_done_again(postgres_server: str) -> None:
    """Where a server does not know whether a transaction ended (40003), doing it again could do it twice."""
    dialect = PostgresDialect(url=f"{postgres_server}/postgres", subject="a test")
    collide = [code for code in ("40001", "40P01", "40003", "08006") if dialect.is_collision(_error(code))]
    assert collide == ["40001", "40P01"]
    dialect.engine.dispose()


def _error(code: str) -> psycopg.Error:
    return psycopg.errors.lookup(code)()


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


OTHERS = "pg_stat_activity WHERE application_name = 'punctual' AND datname = '%s'"
# With a time, PostgreSQL answers when they are gone; without one, when they have been told.
END_OTHERS = f"SELECT pg_terminate_backend(pid, 30000) FROM {OTHERS}"


@pytest.mark.parametrize(("kind", "trips"), [("writing", 3), ("writing_once", 1)])
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_single_statement_is_one_way_to_the_server_and_back(
    url: str, tmp_path: Path, kind: str, trips: int
) -> None:
    """Others have their begin and commit beside it; none asks first whether the server is there."""
    database = HistoryDatabase(url=url)
    place = tmp_path / "trace"
    with place.open("w") as file:
        with database.writing() as connection:
            pgconn = driver_of(connection).pgconn
            pgconn.trace(file.fileno())
        with getattr(database, kind)() as connection:
            assert driver_of(connection).pgconn is pgconn
            driver_of(connection).execute("SELECT 1")
        pgconn.untrace()
    ready = [line for line in place.read_text().splitlines() if "ReadyForQuery" in line]
    database.close()
    assert len(ready) == trips


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_connection_that_the_server_has_ended_is_replaced(url: str) -> None:
    """Before it is used: whoever reads or writes next does not notice."""
    database = HistoryDatabase(url=url)
    server, _, name = url.rpartition("/")
    for open_one in (database.reading, database.writing, database.writing_once):
        with open_one() as connection:
            before = connection.scalar(sa.text("SELECT pg_backend_pid()"))
        command(server, END_OTHERS % name)
        with open_one() as connection:
            assert connection.scalar(sa.text("SELECT pg_backend_pid()")) != before
    database.close()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_single_statements_keep_their_connection(url: str) -> None:
    """None is borrowed for each; an error gives it back, and so does the end."""
    database = HistoryDatabase(url=url)
    pool, borrowed = database.dialect.engine.pool, []
    sa.event.listen(pool, "checkout", lambda *_: borrowed.append(1))

    def ask(text: str) -> None:
        with database.writing_once() as connection:
            driver_of(connection).execute(text.encode())

    for _ in range(3):
        ask("SELECT 1")
    assert len(borrowed) == 1
    with pytest.raises(StoreUnavailable):
        ask("SELECT * FROM nowhere")
    assert pool.status().count("Current Checked out connections: 0")
    for _ in range(2):
        ask("SELECT 1")
    assert len(borrowed) == 2
    database.close()
    assert pool.status().count("Current Checked out connections: 0")
    ask("SELECT 1")
    assert pool.status().count("Current Checked out connections: 0"), "what is used late is not kept"
