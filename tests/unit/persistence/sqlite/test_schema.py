"""The formats of a store's file."""

import sqlite3
from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite.schema import MIGRATIONS, upgrade
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreDamaged, StoreTooNew
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """A file of a newer program is left alone and named."""
    await (await SqliteStateStore.open(folder=tmp_path)).close()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(StoreTooNew, match="999"):
        await SqliteStateStore.open(folder=tmp_path)


async def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    """A database that is not ours is not touched."""
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    content = (tmp_path / "state.db").read_bytes()
    with pytest.raises(StoreDamaged, match="another program"):
        await SqliteStateStore.open(folder=tmp_path)
    assert (tmp_path / "state.db").read_bytes() == content


async def test_an_older_format_is_upgraded_step_by_step(tmp_path: Path) -> None:
    """Each missing step is taken in a transaction; one that fails changes nothing."""
    store = await SqliteStateStore.open(folder=tmp_path)
    await store.commit(commit())
    await store.close()
    connection = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    further = ("ALTER TABLE jobs ADD COLUMN note TEXT", "UPDATE jobs SET note = 'new'")
    with pytest.raises(sqlite3.OperationalError):
        upgrade(connection, place="state.db", migrations=(*MIGRATIONS, (*further, "NONSENSE")))
    assert connection.execute("PRAGMA user_version").fetchall() == [(len(MIGRATIONS),)]
    upgrade(connection, place="state.db", migrations=(*MIGRATIONS, further))
    assert connection.execute("SELECT job_id, note FROM jobs").fetchall() == [("job", "new")]
    assert connection.execute("PRAGMA user_version").fetchall() == [(len(MIGRATIONS) + 1,)]
    connection.close()
