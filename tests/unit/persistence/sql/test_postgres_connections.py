"""What a transaction tells PostgreSQL, and which connections it takes for it."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sql.postgres_connections import driver_of
from tests.unit.persistence.servers import command

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
