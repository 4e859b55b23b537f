"""What is MariaDB's own: packets, lost halves of migrations, locks that last, and what it is told."""

import contextlib
from collections.abc import Iterator
from itertools import count

import pytest
import sqlalchemy as sa

from scheduler_service.domain.records import Noted
from scheduler_service.persistence.history.database import HistoryDatabase, inspect
from scheduler_service.persistence.history.queries import ExecutionQuery
from scheduler_service.persistence.history.schema import MIGRATIONS
from scheduler_service.persistence.sql.database import open_dialect
from scheduler_service.persistence.sql.migrations import upgrade
from scheduler_service.persistence.tables.service_table import SqlServiceTable
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.persistence.history.conftest import Room
from tests.unit.persistence.history.samples import START, batch, execution
from tests.unit.persistence.servers import command
from tests.unit.persistence.tables.samples import PLAIN

pytestmark = pytest.mark.anyio
PACKET = 1 << 20
NEW_SINCE_0_1_0 = (
    "DROP TABLE alerts, alert_marks, pauses, statistic_cells, statistic_days, statistic_slots",
    "ALTER TABLE executions DROP INDEX executions_ended_badly, DROP INDEX executions_not_succeeded",
    "ALTER TABLE deliveries DROP COLUMN given_up_at",
    "UPDATE history_version SET version_num = '0002'",
)


@pytest.fixture
def small_packets(mariadb_server: str) -> Iterator[None]:
    """The server takes no packet of more than 1 MiB from who connects now."""
    command(mariadb_server, f"SET GLOBAL max_allowed_packet = {PACKET}")
    yield
    command(mariadb_server, "SET GLOBAL max_allowed_packet = 16777216")


@pytest.mark.usefixtures("small_packets")
async def test_a_row_that_fits_into_no_packet_costs_its_detail_alone(mariadb_url: str) -> None:
    """The message names the setting; all others of its load are written, in more than one packet."""
    room = Room(mariadb_url)
    room.writer.append(batch(1, execution(1), Noted(1, START, "note", "'" * PACKET)), durable=True)
    for number in range(2, 12):
        room.writer.append(
            batch(number, execution(number), Noted(number, START, "n", "'" * (PACKET // 8))), durable=True
        )
    await room.writer.flush()
    page = await room.reads.executions(ExecutionQuery(tenant="default"))
    assert [item["executeNumber"] for item in page.items] == list(range(11, 0, -1))
    log = await room.reads.log("default", "u1-9")
    assert log is not None
    assert "n" in [line["kind"] for line in log.items]
    (changed,) = room.changed
    assert "max_allowed_packet is 1048576: set it higher" in changed
    assert len(room.confirmed) == 11
    await room.close()


@pytest.mark.usefixtures("small_packets")
async def test_a_declaration_that_fits_into_no_packet_is_refused(mariadb_url: str) -> None:
    """Whole, with the setting by name; the next one is kept."""
    database = HistoryDatabase(url=mariadb_url)
    table = SqlServiceTable(database=database)
    with pytest.raises(StoreUnavailable, match="max_allowed_packet is 1048576"):
        await table.put(PLAIN, b"[" + b" " * PACKET + b"]")
    await table.put(PLAIN, b"[1]")
    assert await table.timers(PLAIN.tenant, PLAIN.name) == b"[1]"
    await table.close()
    database.close()


async def test_a_page_sorts_no_more_rows_than_it_has(mariadb_url: str) -> None:
    """However many there are: an index leads to the newest, and the others are not put in order."""
    room = Room(mariadb_url)
    for number in range(1, 301):
        room.writer.append(batch(number, execution(number)), durable=True)
    await room.writer.flush()
    sorted_rows = (
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'SORT_ROWS'"
    )

    def count_sorted() -> int:
        with room.database.reading() as connection:
            return int(connection.exec_driver_sql(sorted_rows).scalar_one())

    before = count_sorted()
    page = await room.reads.executions(ExecutionQuery(tenant="default", limit=10))
    more = await room.reads.executions(ExecutionQuery(tenant="default", limit=10, cursor=page.next_cursor))
    assert [item["executeNumber"] for item in more.items] == list(range(290, 280, -1))
    assert count_sorted() - before < 50
    await room.close()


class Cut(Exception):
    """The process ends here."""


@pytest.mark.parametrize(
    "is_old", [pytest.param(False, marks=pytest.mark.long), True], ids=["fresh", "of 0.1.0"]
)
def test_tables_are_made_to_their_end_however_often_that_is_cut_off(
    bare_mariadb_url: str, is_old: bool
) -> None:
    """MariaDB takes no change of a table back: each start goes on where the one before it ended."""
    if is_old:
        HistoryDatabase(url=bare_mariadb_url).close()
        command(bare_mariadb_url, *NEW_SINCE_0_1_0)
    starts = count(1)
    while True:
        dialect = open_dialect(bare_mariadb_url, subject="the history")
        changes = count()

        def cut_second(*given: object, changes: Iterator[int] = changes) -> None:
            if str(given[2]).split()[0] in ("CREATE", "ALTER") and next(changes) == 1:
                raise Cut

        sa.event.listen(dialect.engine, "before_cursor_execute", cut_second)
        with contextlib.suppress(Cut):
            upgrade(dialect, MIGRATIONS)
            break
        next(starts)
        dialect.engine.dispose()
    dialect.engine.dispose()
    assert next(starts) > (8 if is_old else 25)
    assert inspect(url=bare_mariadb_url).differences == ()


def test_tables_of_others_are_left_alone(bare_mariadb_url: str) -> None:
    """A table of the same name is neither taken over nor filled up, however often the service starts."""
    command(bare_mariadb_url, "CREATE TABLE executions (id INT)")
    for _ in range(2):
        with pytest.raises(
            StoreUnavailable, match=r"of the same names \(executions\); name another database"
        ):
            HistoryDatabase(url=bare_mariadb_url)


def test_writers_lock_no_gaps(mariadb_url: str) -> None:
    """Between two rows that one has changed another adds one, and neither waits."""
    database = HistoryDatabase(url=mariadb_url)
    put = "INSERT INTO alert_marks VALUES ('a', 1), ('c', 1)"
    database.write(lambda connection: connection.exec_driver_sql(put).rowcount)
    with database.writing() as one, database.writing() as other:
        one.exec_driver_sql("UPDATE alert_marks SET moment = 2 WHERE name BETWEEN 'a' AND 'c'")
        other.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 1")
        other.exec_driver_sql("INSERT INTO alert_marks VALUES ('b', 1)")
    with database.reading() as connection:
        assert connection.exec_driver_sql("SELECT sum(moment) FROM alert_marks").scalar_one() == 5
    database.close()


def test_who_waits_too_long_for_a_row_is_told(mariadb_url: str) -> None:
    """Nothing is written; the transaction is over, and the connection goes on."""
    database = HistoryDatabase(url=mariadb_url)

    def wait_for_a_second(connection: sa.Connection) -> None:
        connection.exec_driver_sql("SET SESSION innodb_lock_wait_timeout = 1")
        connection.exec_driver_sql("INSERT INTO alert_marks VALUES ('two', 2)")
        connection.exec_driver_sql("INSERT INTO alert_marks VALUES ('one', 3)")

    with database.writing() as holder:
        holder.exec_driver_sql("INSERT INTO alert_marks VALUES ('one', 1)")
        with pytest.raises(StoreUnavailable, match=r"Lock wait timeout.*\(1205\)"):
            database.write(wait_for_a_second)
    with database.writing() as connection:
        assert connection.exec_driver_sql("SELECT * FROM alert_marks").all() == [("one", 1)]
    database.close()


def test_a_turn_ends_with_its_transaction(mariadb_url: str) -> None:
    """Whether it was written or taken back: the lock is the connection's, which goes on."""
    one, other = HistoryDatabase(url=mariadb_url), HistoryDatabase(url=mariadb_url)
    for end in (None, Cut):
        with contextlib.suppress(Cut), one.writing() as connection:
            one.dialect.take_turns(connection, 7)
            if end is not None:
                raise end
        with other.writing() as connection:
            other.dialect.take_turns(connection, 7)
    one.close()
    other.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://root@127.0.0.1:1", "names no database"),
        ("mysql://root@127.0.0.1:1/", "names no database"),
        ("mysql://root:s3cret@127.0.0.1:1/x?nosuch=1", "unknown parameter 'nosuch'"),
        ("mysql://root@127.0.0.1:1/x?connect_timeout=abc", "unknown parameter 'connect_timeout'"),
        ("mysql://root@127.0.0.1:1/x?ssl_ca=/nosuch", "ssl_ca names '/nosuch', which is not a file"),
    ],
)
def test_a_wrong_address_is_refused_in_words(url: str, said: str) -> None:
    """Before anything is asked for, and without its password."""
    with pytest.raises(StoreUnavailable, match=said) as found:
        HistoryDatabase(url=url)
    assert "s3cret" not in str(found.value)


def test_a_wrong_password_is_not_repeated(mariadb_server: str) -> None:
    """The server's words and the address; of a database that is missing its name."""
    with pytest.raises(StoreUnavailable, match=r"Access denied for user 'nobody'.*\(1045\)") as found:
        HistoryDatabase(url=f"{mariadb_server}/x".replace("root@", "nobody:s3cret@"))
    assert "s3cret" not in str(found.value)
    with pytest.raises(StoreUnavailable, match="Unknown database 'nowhere'"):
        HistoryDatabase(url=f"{mariadb_server}/nowhere".replace("mysql:", "mariadb:"))
