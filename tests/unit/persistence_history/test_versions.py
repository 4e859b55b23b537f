"""Migrations: the tables that they make are those of the schema, and a second run does nothing."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from scheduler_service.persistence.history.database import HistoryDatabase, inspect, migrate, open_engine
from scheduler_service.persistence.history.versions import HEAD, check, upgrade
from scheduler_service.ports import StoreUnavailable


def test_a_fresh_database_is_brought_to_the_head(tmp_path: Path) -> None:
    """`db check` says what is missing, `db migrate` makes it, and both may be repeated."""
    engine = open_engine(f"sqlite:///{tmp_path}/history.db")
    assert check(engine).current is None
    assert not check(engine).up_to_date
    upgrade(engine)
    upgrade(engine)
    assert check(engine).current == HEAD
    assert check(engine).differences == ()
    assert check(engine).up_to_date
    engine.dispose()


def test_a_table_that_differs_is_named(tmp_path: Path) -> None:
    """`db check` shows what somebody changed by hand."""
    engine = open_engine(f"sqlite:///{tmp_path}/history.db")
    upgrade(engine)
    with engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE executions ADD COLUMN surprise TEXT"))
    assert "surprise" in check(engine).differences[0]
    engine.dispose()


def test_the_head_is_the_last_migration() -> None:
    """Who adds a migration raises HEAD: else a fresh start would not run it."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", "scheduler_service.persistence.history:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Nothing half opened: StoreUnavailable says what to check."""
    with pytest.raises(StoreUnavailable, match="check its folder"):
        HistoryDatabase(url=f"sqlite:///{tmp_path}/missing/history.db")
    (tmp_path / "history.db").write_bytes(b"no database" * 1_000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        HistoryDatabase(url=f"sqlite:///{tmp_path}/history.db")
    with pytest.raises(StoreUnavailable, match="oracle"):
        HistoryDatabase(url="oracle://h/x")


def test_a_url_is_all_that_the_command_line_needs(tmp_path: Path) -> None:
    """`punctual db check` before and after `punctual db migrate`."""
    url = f"sqlite:///{tmp_path}/history.db"
    assert inspect(url=url).current is None
    assert migrate(url=url).up_to_date
    assert inspect(url=url).up_to_date
    with pytest.raises(StoreUnavailable):
        inspect(url=f"sqlite:///{tmp_path}/missing/history.db")


class Broken(Exception):
    """The process ends here."""


@pytest.mark.parametrize("statement", [5, 9, 14])
def test_a_migration_that_is_cut_off_is_done_again(tmp_path: Path, statement: int) -> None:
    """All or nothing: a process that dies over its first start leaves no half of the tables."""
    engine = open_engine(f"sqlite:///{tmp_path / 'history.db'}")
    left = iter(range(statement))

    def count(*_: object) -> None:
        if next(left, None) is None:
            raise Broken

    sa.event.listen(engine, "before_cursor_execute", count)
    with pytest.raises(Broken):
        upgrade(engine)
    sa.event.remove(engine, "before_cursor_execute", count)
    upgrade(engine)
    assert check(engine).up_to_date
    engine.dispose()
