"""Migrations: the tables that they make are those of the schema, and a second run does nothing."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.persistence.history.database import HistoryDatabase, inspect, migrate
from scheduler_service.persistence.history.schema import MIGRATIONS as HISTORY
from scheduler_service.persistence.job_store.job_store_schema import MIGRATIONS as CLUSTER
from scheduler_service.persistence.sql.database import open_dialect
from scheduler_service.persistence.sql.migrations import Migrations, check, upgrade
from scheduler_service.ports.errors import StoreUnavailable


def test_a_fresh_database_is_brought_to_the_head(bare_url: str) -> None:
    """`db check` says what is missing, `db migrate` makes it, and both may be repeated."""
    dialect = open_dialect(bare_url, subject="the history")
    engine = dialect.engine
    assert check(engine, HISTORY).current is None
    assert not check(engine, HISTORY).up_to_date
    upgrade(dialect, HISTORY)
    upgrade(dialect, HISTORY)
    assert check(engine, HISTORY).current == HISTORY.head
    assert check(engine, HISTORY).differences == ()
    assert check(engine, HISTORY).up_to_date
    engine.dispose()


BY_HAND = {
    "CREATE TABLE jobs (job_id TEXT); CREATE INDEX jobs_mine ON jobs (job_id)": set(),
    "ALTER TABLE executions ADD COLUMN surprise TEXT": {"the column executions.surprise is unknown"},
    "ALTER TABLE executions DROP COLUMN progress": {"the column executions.progress is missing"},
    "DROP TABLE alerts": {"the table alerts is missing"},
    "DROP INDEX firings_by_age": {"the index firings_by_age of the table firings is missing: it is of (at)"},
    "CREATE INDEX mine ON firings (reason)": {"the index mine of the table firings is unknown"},
    "DROP INDEX deliveries_newest; CREATE INDEX deliveries_newest ON deliveries (tenant)": {
        "the index deliveries_newest of the table deliveries is not (tenant, created_at) as this program "
        "makes it"
    },
    "DROP TABLE statistic_slots; CREATE TABLE statistic_slots (slot TEXT NOT NULL, tenant VARCHAR(128) "
    "NOT NULL, figure VARCHAR(16) NOT NULL, bucket BIGINT NOT NULL, executions BIGINT, CONSTRAINT once "
    "UNIQUE (executions), CONSTRAINT own FOREIGN KEY (tenant) REFERENCES alert_marks (name))": {
        "the column statistic_slots.slot has the type TEXT instead of BIGINT",
        "the column statistic_slots.executions may be NULL and must not",
        "the constraint once of the table statistic_slots of (executions) is unknown",
        "the constraint own of the table statistic_slots of (tenant) is unknown",
    },
}


IN_MARIADB = {
    "DROP INDEX firings_by_age": " ON firings",
    "DROP INDEX deliveries_newest": " ON deliveries",
    "CREATE TABLE statistic_slots": " CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
}
"""What such statements end with there."""
AS_IN_MARIADB = {
    "the constraint once of the table statistic_slots of (executions) is unknown": (
        "the index once of the table statistic_slots is unknown"
    )
}


@pytest.mark.parametrize("change", BY_HAND)
def test_what_was_changed_by_hand_is_told_in_words(bare_url: str, change: str) -> None:
    """Which table, column, index or constraint, and that no migration mends it; others' tables are theirs."""
    dialect = open_dialect(bare_url, subject="the history")
    engine = dialect.engine
    upgrade(dialect, HISTORY)
    with engine.begin() as connection:
        for statement in change.split("; "):
            more = next((end for start, end in IN_MARIADB.items() if statement.startswith(start)), "")
            connection.execute(sa.text(statement + (more if dialect.product == "MariaDB" else "")))
    found = check(engine, HISTORY)
    expected = {
        AS_IN_MARIADB.get(one, one) if dialect.product == "MariaDB" else one for one in BY_HAND[change]
    }
    assert set(found.differences) == expected
    assert found.up_to_date or "restore a backup" in found.remedy
    engine.dispose()


def test_a_new_reader_waits_for_nobody_who_writes(tmp_path: Path) -> None:
    """Its connection is prepared without the lock of a writer, who may take a while (a clean-up)."""
    database = HistoryDatabase(url=f"sqlite:///{tmp_path}/history.db")
    with database.writing() as writer:
        writer.exec_driver_sql("DELETE FROM executions")
        with database.reading() as reader:
            assert reader.exec_driver_sql("SELECT count(*) FROM executions").scalar() == 0
            assert reader.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2
    database.close()


@pytest.mark.parametrize(
    ("bare_url", "migrations"),
    [
        ("file", HISTORY), ("postgresql", HISTORY), ("mariadb", HISTORY), ("file", CLUSTER),
        ("postgresql", CLUSTER),
    ],
    indirect=["bare_url"],
)  # fmt: skip
def test_tables_of_a_newer_program_are_refused(bare_url: str, migrations: Migrations) -> None:
    """They are left as they are, and the message says what to do."""
    dialect = open_dialect(bare_url, subject=migrations.subject)
    upgrade(dialect, migrations)
    with dialect.engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {migrations.version_table} SET version_num = '0999'"))
    with pytest.raises(StoreUnavailable, match=r"has version 0999.*start the newer program"):
        upgrade(dialect, migrations)
    dialect.engine.dispose()


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Nothing half opened: StoreUnavailable says what to check."""
    with pytest.raises(StoreUnavailable, match="check its folder"):
        HistoryDatabase(url=f"sqlite:///{tmp_path}/missing/history.db")
    (tmp_path / "history.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        HistoryDatabase(url=f"sqlite:///{tmp_path}/history.db")
    with pytest.raises(StoreUnavailable, match="oracle"):
        HistoryDatabase(url="oracle://h/x")


def test_a_url_is_all_that_the_command_line_needs(tmp_path: Path, bare_url: str) -> None:
    """`punctual db check` before and after `punctual db migrate`."""
    assert inspect(url=bare_url).current is None
    assert migrate(url=bare_url).up_to_date
    assert inspect(url=bare_url).up_to_date
    with pytest.raises(StoreUnavailable):
        inspect(url=f"sqlite:///{tmp_path}/missing/history.db")


class Broken(Exception):
    """The process ends here."""


@pytest.mark.parametrize("statement", [5, 9, 14])
def test_a_migration_that_is_cut_off_is_done_again(bare_url: str, statement: int) -> None:
    """All or nothing: a process that dies over its first start leaves no half of the tables."""
    dialect = open_dialect(bare_url, subject="the history")
    engine = dialect.engine
    left = iter(range(statement))

    def count(*_: object) -> None:
        if next(left, None) is None:
            raise Broken

    sa.event.listen(engine, "before_cursor_execute", count)
    with pytest.raises(Broken):
        upgrade(dialect, HISTORY)
    sa.event.remove(engine, "before_cursor_execute", count)
    upgrade(dialect, HISTORY)
    assert check(engine, HISTORY).up_to_date
    engine.dispose()
