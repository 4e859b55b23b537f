"""What is asked of a PostgreSQL server itself."""

import pytest

from scheduler_service.persistence.sql.postgres import PostgresDialect


@pytest.mark.parametrize("synchronous", ["on", "local", "off"])
def test_whether_what_is_committed_is_kept_through_a_power_loss(
    postgres_server: str, synchronous: str
) -> None:
    """Only with both settings: one syncs a commit before its answer, the other lets it reach the disk."""
    dialect = PostgresDialect(url=f"{postgres_server}/postgres", subject="a test")
    try:
        with dialect.reading() as connection:
            connection.exec_driver_sql(f"SET LOCAL synchronous_commit TO {synchronous}")
            fsync = connection.exec_driver_sql("SHOW fsync").scalar_one()
            assert dialect.syncs(connection) == (fsync == "on" and synchronous != "off")
    finally:
        dialect.engine.dispose()
