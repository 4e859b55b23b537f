"""What of the history is PostgreSQL's own; what all servers have in common is in `test_servers`."""

import contextlib

import psycopg
import pytest

from scheduler_service.domain.records import Noted
from scheduler_service.persistence.history.coalesce import coalesce, insert_rows, write_together
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.history.conftest import MakeRoom
from tests.unit.persistence.history.samples import START, batch, execution, turns_of

pytestmark = pytest.mark.anyio
EVERYTHING = ExecutionQuery(tenant="default", limit=500)


@pytest.mark.parametrize("count", [1, 255, 1_000])
def test_a_load_takes_a_statement_of_each_table(postgres_url: str, count: int) -> None:
    """Executions, detail, ledger, counts of days and of minutes: one of each for up to a thousand rows."""
    rows = coalesce([one for number in range(count) for one in turns_of(number)])
    heard: list[object] = []

    class Counting(psycopg.Cursor[tuple[object, ...]]):
        def execute(self, query: object, *rest: object, **options: object) -> "Counting":
            heard.append(query)
            return super().execute(query, *rest, **options)  # type: ignore[arg-type]

    # Closed whatever happens: a connection that a failure left open would be told in another test.
    with contextlib.closing(HistoryDatabase(url=postgres_url)) as database, database.writing() as connection:
        raw = connection.connection.driver_connection
        raw.cursor_factory = Counting
        insert_rows(database.dialect, connection, rows, write_executions=write_together)
        raw.cursor_factory = psycopg.Cursor
        found = connection.exec_driver_sql("SELECT count(*), sum(sequence) FROM executions").one()
    assert found == (count, 3 * count)
    # What is counted of each job has a row more: the sum.
    assert len(heard) == (5 if count < 1_000 else 6)


async def test_what_no_text_may_hold_is_written_as_a_mark(make_room: MakeRoom, postgres_url: str) -> None:
    """PostgreSQL has no NUL in texts: U+FFFD stands for it, and a search for it is no error."""
    room = make_room(postgres_url)
    record = execution(1, "terminated", error="a\0b")
    room.writer.append(batch(1, record, Noted(1, START, "note", "c\0d")), durable=True)
    await room.writer.flush()
    page = await room.reads.executions(ExecutionQuery(tenant="default", error="a\0b"))
    assert [item["error"] for item in page.items] == ["a\ufffdb"]
    log = await room.reads.log("default", "u1-1")
    assert log is not None
    assert log.items[0]["text"] == "c\0d"
    assert room.troubles == []


def test_a_database_or_user_that_is_missing_is_named(postgres_server: str) -> None:
    """As the server itself says it."""
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        HistoryDatabase(url=f"{postgres_server}/nowhere")
    with pytest.raises(StoreUnavailable, match='role "nobody" does not exist'):
        HistoryDatabase(url=f"{postgres_server}/postgres".replace("postgres@", "nobody:secret@"))


def test_indexes_of_the_unusual_are_partial(postgres_url: str) -> None:
    """The conditions of its indexes reach PostgreSQL, though SQLite does not import its dialect for them."""
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute(
            "SELECT indexname FROM pg_indexes WHERE indexdef LIKE '% WHERE %'"
        ).fetchall()
    assert {
        "executions_by_state",
        "executions_not_succeeded",
        "executions_ended_badly",
        "deliveries_given_up",
    } <= {name for (name,) in found}
