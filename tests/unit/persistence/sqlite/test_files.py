"""What a file of a store keeps, for whom, and when it is durable."""

import asyncio
from pathlib import Path

import pytest

from scheduler_service.persistence.sqlite.store import SqliteStateStore
from tests.unit.persistence.samples import commit
from tests.unit.persistence.sqlite.write_gate import Gate

pytestmark = pytest.mark.anyio


async def test_reads_never_wait_for_the_writer(tmp_path: Path) -> None:
    """While a group is being written, reads answer with what was committed before."""
    gate = Gate()
    store = await SqliteStateStore.open(folder=tmp_path, faults=gate)
    answer = asyncio.ensure_future(store.commit(commit()))
    assert await asyncio.to_thread(gate.reached.wait, 20)
    assert await store.load("job") is None
    assert await store.catalogue.get("job") is None
    assert not answer.done()
    gate.opened.set()
    await answer
    assert await store.load("job") is not None
    await store.close()


async def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    """The file holds the keys of feedback tokens: no other user may read it or its log."""
    store = await SqliteStateStore.open(folder=tmp_path / "new")
    await store.commit(commit())
    for name in ("state.db", "state.db-wal"):
        assert (tmp_path / "new" / name).stat().st_mode & 0o077 == 0
    await store.close()


FAST = 2
"""Of `secure_delete`: freed pages are not written for it."""


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("process", 1)])
async def test_durability_decides_what_a_commit_waits_for(
    tmp_path: Path, durability: str, synchronous: int
) -> None:
    """ "full" syncs the log at each commit, "process" leaves it to the system (SPEC section 8)."""
    store = await SqliteStateStore.open(folder=tmp_path, durability=durability)
    connection = store.files.writing
    assert connection.execute("PRAGMA synchronous").fetchall() == [(synchronous,)]
    assert connection.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    assert connection.execute("PRAGMA secure_delete").fetchall() == [(FAST,)]
    await store.close()


async def test_an_unknown_durability_is_refused(tmp_path: Path) -> None:
    """A word that means nothing is named with those that do, and leaves the folder free."""
    with pytest.raises(ValueError, match=r"'some'.*full, process"):
        await SqliteStateStore.open(folder=tmp_path, durability="some")
    await (await SqliteStateStore.open(folder=tmp_path)).close()
