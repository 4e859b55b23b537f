"""What is asked of a PostgreSQL server itself."""

from collections.abc import Iterator

import psycopg
import pytest

from scheduler_service.persistence.sql.postgres import PostgresDialect

TRIES = 1_000


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
