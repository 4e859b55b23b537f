"""The history on servers: several nodes write one, and what its server does is told in words."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from scheduler_service.domain.records import Noted
from scheduler_service.persistence.history.database import HistoryDatabase, inspect
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.persistence.history.row_merging import coalesce, insert_rows, write_together
from scheduler_service.persistence.tables.service_table import SqlServiceTable
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.history import Batch
from tests.present import present
from tests.unit.persistence.history.conftest import MakeRoom, Room
from tests.unit.persistence.history.samples import START, attempt, batch, execution, turns_of
from tests.unit.persistence.servers import DatabaseServer, make_database
from tests.unit.persistence.tables.samples import FULL, PLAIN

pytestmark = pytest.mark.anyio
EVERYTHING = ExecutionQuery(tenant="default", limit=500)
KINDS = ("postgresql", "mariadb")


async def states(room: Room) -> list[tuple[object, object]]:
    found = await room.reads.executions(EVERYTHING)
    return [(item["executeNumber"], item["state"]) for item in found.items]


async def test_of_two_nodes_the_highest_sequence_wins(rooms: tuple[Room, Room]) -> None:
    """Whoever writes first, and whatever each of them merged: the row is that of the last turn."""
    turns = ((1, "enqueued"), (2, "processing"), (3, "succeeded"))
    for number, order in enumerate(permutations(turns), 1):
        for place, (sequence, state) in enumerate(order):
            room = rooms[place % 2]
            room.writer.append(batch(sequence, execution(number, state), uid=f"u{number}"), durable=True)
            await room.writer.flush()
    for room in rooms:
        assert await states(room) == [(number, "succeeded") for number in range(6, 0, -1)]


async def test_nodes_that_write_the_same_at_once_write_it_once(rooms: tuple[Room, Room]) -> None:
    """Repetition by (uid, sequence) does nothing, also where two nodes merge the same turns differently."""

    def turns(number: int) -> list[Batch]:
        started, step, ended = attempt(number, number)
        life = {"uid": f"u{number:03}", "job_id": f"job-{number}"}
        return [
            batch(1, execution(number), started, **life),
            batch(2, execution(number, "succeeded"), step, ended, **life),
        ]

    for number in range(1, 101):
        for one in turns(number):
            rooms[0].writer.append(one, durable=True)
        for one in turns(101 - number):
            rooms[1].writer.append(one, durable=True)
    await asyncio.gather(*(room.writer.flush() for room in rooms))
    assert await states(rooms[0]) == [(number, "succeeded") for number in range(100, 0, -1)]
    full = present(await rooms[1].reads.execution("default", "u007-7"))
    assert [len(one["steps"]) for one in full["attempts"]] == [1]  # type: ignore[attr-defined]
    assert [len(room.confirmed) for room in rooms] == [200, 200]


@pytest.mark.parametrize("bare_url", KINDS, indirect=True)
def test_nodes_that_start_at_once_make_the_tables_once(bare_url: str) -> None:
    """One migrates, the others wait and find nothing to do."""
    with ThreadPoolExecutor(4) as threads:
        opened = list(threads.map(lambda _: HistoryDatabase(url=bare_url), range(4)))
    for database in opened:
        database.close()
    assert inspect(url=bare_url).up_to_date


async def test_nodes_that_put_one_service_at_once_both_can(rooms: tuple[Room, Room]) -> None:
    """The last one wins, and nobody is refused for having been second."""
    tables = [SqlServiceTable(database=room.database) for room in rooms]
    await asyncio.gather(*(table.put(one) for one in (FULL, PLAIN) for table in tables for _ in range(5)))
    assert await tables[0].services() == [PLAIN, FULL]
    for table in tables:
        await table.close()


@pytest.mark.parametrize("port", ["1", "port"])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql", "mariadb"])
def test_a_server_that_is_not_there_is_named_without_its_password(scheme: str, port: str) -> None:
    """The message says where it looked and what to look at (CONTRIBUTING: errors)."""
    with pytest.raises(StoreUnavailable) as found:
        HistoryDatabase(url=f"{scheme}://punctual:secret@127.0.0.1:{port}/history")
    text = str(found.value)
    assert "secret" not in text
    assert "127.0.0.1:1 " in text if port == "1" else f"{scheme}://USER" in text
    assert "database.url" in text


async def test_a_restarted_server_finds_everything_written(fragile_server: DatabaseServer) -> None:
    """What could not be written is told, kept and tried again; connections that are gone are replaced."""
    room = Room(make_database(fragile_server.url))
    table = SqlServiceTable(database=room.database)
    room.writer.append(batch(1, execution(1)), durable=True)
    await room.writer.flush()
    fragile_server.stop()
    room.writer.append(batch(2, execution(2)), durable=True)
    room.writer.append(batch(3, execution(3)), durable=False)
    with pytest.raises(StoreUnavailable, match="check that the server runs"):
        await room.writer.flush()
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1"):
        await room.reads.executions(EVERYTHING)
    assert room.confirmed == [("u1", 1)]
    fragile_server.start()
    await flush_at_last(room)
    assert [number for number, _ in await states(room)] == [3, 2, 1]
    assert room.confirmed == [("u1", 1), ("u1", 2)]
    assert room.troubles[-1] is None
    await table.put(PLAIN)
    assert await table.services() == [PLAIN]
    await table.close()
    await room.close()


async def flush_at_last(room: Room) -> None:
    """A try that began while the server was away may still fail; the next ones do not."""
    for _ in range(50):
        with contextlib.suppress(StoreUnavailable):
            return await room.writer.flush()
    raise AssertionError(room.troubles[-1])


async def test_a_connection_that_breaks_in_a_transaction_loses_nothing(
    make_room: MakeRoom, server_url: str
) -> None:
    """The server ends the connection between the rows and their commit: they are written again."""
    room = make_room(server_url)
    with pytest.raises(StoreUnavailable, match=r"terminating connection|was killed|Lost connection"):
        await room.writer.perform(_end_own_connection)
    room.writer.append(batch(1, execution(1)), durable=True)
    await room.writer.flush()
    assert await states(room) == [(1, "processing")]


@pytest.mark.parametrize("kind", ["reading", "writing", "writing_once"])
async def test_a_server_that_says_nothing_more_is_given_up(
    make_room: MakeRoom, server_url: str, kind: str
) -> None:
    """In the midst of a statement, where the kernel notices nothing; who asks next has another connection."""
    room = make_room(server_url)
    with (
        pytest.raises(StoreUnavailable, match=r"no answer within 0\.5 s|timed out"),
        getattr(room.database, kind)() as connection,
    ):
        _fall_silent(room.database.dialect, connection)
    room.writer.append(batch(1, execution(1)), durable=True)
    await room.writer.flush()
    assert await states(room) == [(1, "processing")]


def _fall_silent(dialect: Any, connection: sa.Connection) -> None:
    """Nothing comes from the server for a minute; so long it is not waited for."""
    dialect.wait_for_answers(connection, 0.5)
    is_postgres = connection.dialect.name == "postgresql"
    connection.exec_driver_sql("SELECT pg_sleep(60)" if is_postgres else "SELECT SLEEP(60)")


def _end_own_connection(connection: sa.Connection) -> None:
    connection.exec_driver_sql("DELETE FROM executions")
    is_postgres = connection.dialect.name == "postgresql"
    own = "SELECT pg_terminate_backend(pg_backend_pid())" if is_postgres else "KILL CONNECTION_ID()"
    connection.exec_driver_sql(own)


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
    log = present(await room.reads.log("default", "u1-1"))
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
