"""What is asked of a PostgreSQL server itself."""

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa

from scheduler_service.persistence.history.database import (
    HistoryDatabase,
    count_executions,
    inspect,
    migrate,
)
from scheduler_service.persistence.job_store.schema import MIGRATIONS as CLUSTER
from scheduler_service.persistence.sql.database import Database, read_report
from scheduler_service.persistence.sql.postgres import PostgresDialect
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.servers import make_database

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
        lambda: count_executions(url=url),
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
