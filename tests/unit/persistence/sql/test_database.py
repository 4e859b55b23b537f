"""An open database: what is read at one moment, who collides, and what is left of it once it is closed."""

import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from scheduler_service.pacing.interpreter import SWITCH_SECONDS
from scheduler_service.persistence.history.database import HistoryDatabase
from scheduler_service.persistence.sql.database import DatabaseThreads


@pytest.mark.parametrize("kind", ["reading", "writing_once"])
@pytest.mark.parametrize("url", ["file", "postgresql", "mariadb"], indirect=True)
def test_what_is_in_use_is_closed_when_it_is_given_back(url: str, kind: str) -> None:
    """What another thread does may outlive the database, as where a server stands still: nobody waits for it,
    and no connection is left to the collector."""
    database = HistoryDatabase(url=url)
    with getattr(database, kind)() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        database.close()
        database.close()
    with pytest.raises((sqlite3.Error, psycopg.Error, pymysql.Error)):
        raw.cursor().execute("SELECT 1")


@pytest.mark.parametrize("url", ["file", "postgresql", "mariadb"], indirect=True)
def test_a_reader_sees_one_moment(url: str) -> None:
    """Whatever others write meanwhile, and it keeps none of them waiting."""
    database = HistoryDatabase(url=url)
    counted = sa.text("SELECT count(*) FROM alert_marks")
    for number in range(2):  # the second time on a connection that was written with
        put = sa.text(f"INSERT INTO alert_marks VALUES ('m{number}', 1)")
        with database.reading() as reader:
            assert reader.scalar(counted) == number
            with database.writing() as writer:
                writer.execute(put)
            assert reader.scalar(counted) == number
    database.close()


@pytest.mark.parametrize("url", ["postgresql", "mariadb"], indirect=True)
def test_of_two_that_wait_for_each_other_both_are_written(url: str) -> None:
    """The server takes one of them back, which is done again; neither counts twice."""
    database = HistoryDatabase(url=url)
    both = threading.Barrier(2)
    tries: list[str] = []
    put = "INSERT INTO alert_marks VALUES ('a', 0), ('b', 0)"
    database.write(lambda connection: connection.execute(sa.text(put)).rowcount)

    def add(names: str) -> None:
        def work(connection: sa.Connection) -> None:
            tries.append(names)
            for place, name in enumerate(names):
                add_one = f"UPDATE alert_marks SET moment = moment + 1 WHERE name = '{name}'"
                connection.execute(sa.text(add_one))
                if place == 0 and tries.count(names) == 1:
                    both.wait(20)

        database.write(work)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(add, ("ab", "ba")))
    with database.reading() as connection:
        found = connection.execute(sa.text("SELECT moment FROM alert_marks")).scalars().all()
    assert list(found) == [2, 2]
    assert len(tries) >= 3, "a busy server may take both back"
    database.close()


async def test_threads_beside_the_loop_leave_it_the_interpreter_soon() -> None:
    """Those that read and those that write; afterwards it is as it was."""
    usual, seen = sys.getswitchinterval(), list[float]()
    database = HistoryDatabase(url="sqlite://")
    threads = DatabaseThreads(database, name="beside")
    for use in (threads.read, threads.write):
        await use(lambda _: seen.append(sys.getswitchinterval()))
    await threads.close()
    database.close()
    assert seen == [pytest.approx(SWITCH_SECONDS)] * 2
    assert sys.getswitchinterval() == pytest.approx(usual)
