"""Databases that 0.1.0 made (its commit 8eb9e4e) open and go on: history, cluster, and a whole data folder.

The files of `of_0_1_0` are dumps of what it wrote: tables, indexes and a few rows.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.app.data_folder import history_address
from scheduler_service.domain.leases import Claim, EndedPart
from scheduler_service.domain.moments import Due
from scheduler_service.domain.step_parts import PartEnd
from scheduler_service.maintenance.folder_formats import check_folder, migrate_folder
from scheduler_service.persistence.cluster.nodes import Nodes
from scheduler_service.persistence.history.database import HistoryDatabase, inspect
from scheduler_service.persistence.history.history_reads import HistoryReads
from scheduler_service.persistence.history.queries import DeliveryQuery, ExecutionQuery, FiringQuery
from scheduler_service.persistence.history.schema import statistic_cells
from scheduler_service.persistence.history.writer import HistoryWriter
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS as CLUSTER
from scheduler_service.persistence.job_store.turn_store import TurnStore
from scheduler_service.persistence.queues.queue_tables import queue_completions, queue_parts
from scheduler_service.persistence.sql.database import open_dialect
from scheduler_service.persistence.sql.migrations import check, upgrade
from scheduler_service.persistence.sqlite.schema import upgrade as migrate_state
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.persistence.tables.service_table import SqlServiceTable
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.settings import Settings
from tests.present import present
from tests.unit.persistence.history.samples import START, batch, execution
from tests.unit.persistence.queue_bench import DONE
from tests.unit.persistence.samples import claim, commit

pytestmark = pytest.mark.anyio
DUMPS = Path(__file__).parent.parent / "of_0_1_0"
QUEUE_TABLES = "('queue_parts', 'queue_completions')"
Old = Callable[[str], str]


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    """Makes an old database from its dump; its address."""

    def make(name: str) -> str:
        if request.param == "sqlite":
            restore_file(tmp_path / "old.db", f"{name}.sqlite.sql")
            return f"sqlite:///{tmp_path}/old.db"
        import psycopg

        url: str = request.getfixturevalue("bare_postgres_url")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute((DUMPS / f"{name}.postgresql.sql").read_bytes())
        return url

    return make


def restore_file(place: Path, dump: str) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript((DUMPS / dump).read_text(encoding="utf-8"))


async def check_history(url: str) -> None:
    """What 0.1.0 wrote is read; what is new is written beside it, and over what has not ended."""
    database = HistoryDatabase(url=url)
    reads = HistoryReads(database=database)
    writer = HistoryWriter(database=database, on_written=lambda _: None, on_trouble=lambda _: None)
    services = SqlServiceTable(database=database)
    before = present(await reads.execution("default", "u1-2"))
    assert [len(one["steps"]) for one in before["attempts"]] == [1]  # type: ignore[attr-defined]
    assert [one["event"] for one in before["notifications"]] == ["succeed"]  # type: ignore[attr-defined]
    assert len((await reads.firings(FiringQuery(uid="u1"))).items) == 2
    assert [one.name for one in await services.services()] == ["billing"]
    assert await services.owner("default", "job", "u1") == "billing"
    for number in (2, 3):
        writer.append(batch(9, execution(number, "terminated")), durable=False)
    await writer.flush()
    page = await reads.executions(ExecutionQuery(tenant="default"))
    assert [(one["executeNumber"], one["state"]) for one in page.items] == [
        (3, "terminated"), (2, "succeeded"), (1, "succeeded"),
    ]  # fmt: skip
    assert len((await reads.deliveries(DeliveryQuery(tenant="default"))).items) == 2
    await services.close()
    await writer.close()
    await reads.close()
    database.close()


async def test_a_history_goes_on(old: Old) -> None:
    """It is migrated when it is opened, and then differs in nothing from one that is made now."""
    url = old("history")
    found = inspect(url=url)
    assert found.remedy == "run 'punctual db migrate'"
    assert {
        "the table alerts is missing",
        "the column deliveries.given_up_at is missing",
        "the index executions_ended_badly of the table executions is missing: it is of (ended_at)",
    } < set(found.differences), found.differences
    await check_history(url)
    assert inspect(url=url).up_to_date


async def test_executions_of_an_old_history_are_counted_from_now_on(old: Old) -> None:
    """What had ended before is in no statistics, also where its turns are written again (decision 35)."""
    database = HistoryDatabase(url=old("history"))
    writer = HistoryWriter(database=database, on_written=lambda _: None, on_trouble=lambda _: None)
    for number in (2, 3):
        ended = execution(number, "terminated", ended_at=START)
        writer.append(batch(9, ended), durable=False)
    await writer.flush()
    with database.reading() as connection:
        counted = connection.execute(sa.select(statistic_cells.c.job_id, statistic_cells.c.executions)).all()
    assert sorted(map(tuple, counted)) == [("", 1), ("job", 1)]
    await writer.close()
    database.close()


async def test_a_cluster_goes_on(old: Old) -> None:
    """Its tables had no version: they get one, and differ in nothing from those that are made now."""
    url = old("cluster")
    for _ in range(2):
        database = await JobDatabase.open(url=url)
        shared = TurnStore(database=database)
        catalogue = shared.catalogue
        assert [one.job_id for one in (await catalogue.list(JobQuery())).items] == ["job"]
        assert [one.text for one in await catalogue.revisions("uid-job")] == [b"{}"]
        assert [one.delivery_id for one in await shared.deliveries("", 10)] == ["d1"]
        await database.close()
    dialect = open_dialect(url, subject="the shared database")
    assert check(dialect.engine, CLUSTER).up_to_date
    dialect.engine.dispose()
    database = await JobDatabase.open(url=url)
    shared, nodes = TurnStore(database=database), Nodes(database=database)
    assert [(one.node_id, one.format) for one in await nodes.list()] == [("one", "")]
    assert await nodes.next_epoch() == 2
    assert await nodes.keep_app_id("another") == "punctual"
    await shared.claim(claim(missed=3, expected=1))
    found = present(await shared.load("job"))
    assert (found.sequence, found.entry.missed) == (2, 3)
    await database.close()


def test_its_indexes_become_those_that_are_made_now(old: Old, tmp_path: Path) -> None:
    """Also the conditions of partial ones, at which a comparison of the tables does not look."""
    url = old("cluster")
    dialect = open_dialect(url, subject="the shared database")
    upgrade(dialect, CLUSTER)
    migrated = indexes_of(dialect.engine)
    with dialect.engine.begin() as connection:
        for table in (*CLUSTER.tables, CLUSTER.version_table):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    upgrade(dialect, CLUSTER)
    assert migrated == indexes_of(dialect.engine)
    assert len([one for one in migrated if "NULL" in one]) >= 4
    dialect.engine.dispose()


def indexes_of(engine: sa.Engine, tables: str = "('jobs', 'outbox')") -> list[str]:
    """How the indexes of `tables` are defined, without the spaces."""
    text = f"SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN {tables} AND sql <> ''"
    if engine.dialect.name == "postgresql":
        text = f"SELECT indexdef FROM pg_indexes WHERE tablename IN {tables}"
    with engine.connect() as connection:
        return sorted(" ".join(one.split()) for one in connection.exec_driver_sql(text).scalars())


async def test_the_queues_of_a_data_folder_go_on(tmp_path: Path) -> None:
    """A completion may be repeated, a lease goes on, what was withdrawn is, what is free is claimed."""
    restore_file(tmp_path / "state.db", "state.sqlite.sql")
    store = await SqliteStateStore.open(folder=tmp_path)
    queues = store.queues
    assert [(one.name.execute_number, one.end.body) for one in await queues.ended("", 9)] == [(1, b"1")]
    found = [
        await queues.complete("lease-1", DONE, 20),
        await queues.complete("lease-3", PartEnd(body=b"3"), 20),
    ]
    assert found == [True, True]  # the part of the second one is gone: `completions` alone knows it
    withdrawn, held = await queues.renew("lease-2", 20), await queues.renew("lease-4", 20)
    assert withdrawn is not None
    assert held is not None
    assert (withdrawn.cancelled, held.cancelled, held.until) == (True, False, 60_020)
    (claimed,) = await queues.claim(Claim("default", "work", "b", ("lease-5", "lease-6"), 20))
    assert (claimed.part.name.execute_number, claimed.part.request.body) == (5, b"{}")
    assert [one.name.execute_number for one in await queues.changed("", 9)] == [5]
    ended = await queues.complete("lease-4", DONE, 30)
    assert isinstance(ended, EndedPart)
    assert (ended.job_id, ended.end.instance, ended.changes) == ("job", "a", ())
    await store.close()


def test_the_queues_of_a_file_are_those_of_a_cluster(tmp_path: Path) -> None:
    """After all steps from 0.1.0, and in a new one: columns and indexes are the same."""
    restore_file(tmp_path / "old.db", "state.sqlite.sql")
    wanted = sa.create_engine("sqlite://")
    tables = (queue_parts, queue_completions)
    queue_parts.metadata.create_all(wanted, tables)
    for name in ("old.db", "new.db"):
        with closing(sqlite3.connect(tmp_path / name, isolation_level=None)) as connection:
            migrate_state(connection, place=name)
        made = sa.create_engine(f"sqlite:///{tmp_path / name}")
        for table in tables:
            assert columns_of(made, table.name) == columns_of(wanted, table.name)
        assert indexes_of(made, QUEUE_TABLES) == indexes_of(wanted, QUEUE_TABLES)
        made.dispose()
    wanted.dispose()


def columns_of(engine: sa.Engine, table: str) -> list[tuple[str, bool]]:
    """The names of the columns, and whether they may be NULL."""
    found = sa.inspect(engine)
    return [(one["name"], one["nullable"] and not one["primary_key"]) for one in found.get_columns(table)]


async def test_a_data_folder_goes_on(tmp_path: Path) -> None:
    """`state.db` and `history.db` have this version's formats, and both are read and written."""
    for name in ("state", "history"):
        restore_file(tmp_path / f"{name}.db", f"{name}.sqlite.sql")
    history = history_address(Settings(), tmp_path)
    migrate_folder(tmp_path, history)
    assert check_folder(tmp_path, history) == []
    store = await SqliteStateStore.open(folder=tmp_path)
    assert (store.node_id, store.boot) == ("node-one", 2)
    stored = present(await store.load("job"))
    assert (stored.document, stored.due) == (b"doc", Due(wall=5_000))
    assert await store.definition("uid-job", 1) == b"{1}"
    await store.commit(commit("job", expected=1, missed=7))
    await store.commit(commit("new"))
    page = await store.catalogue.list(JobQuery())
    assert [(one.job_id, one.missed) for one in page.items] == [("job", 7), ("new", 0), ("other", 0)]
    assert [one.job_id for one in (await store.catalogue.list(JobQuery(labels=(("team", "x"),)))).items] == [
        "other"
    ]
    await store.close()
    await check_history(history)
