"""What a transaction tells PostgreSQL, and which connections it takes for it."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sql.postgres_connections import driver_of
from scheduler_service.ports.errors import StoreUnavailable
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
