"""What the SQLite store promises when processes are killed and disks are full (SPEC section 8)."""

import asyncio
import signal
import sqlite3
from pathlib import Path

import pytest

from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from tests.fault_points import Breaking
from tests.present import present
from tests.unit.persistence.crashing import answered, changing_state, fork
from tests.unit.persistence.samples import batch, commit, delivery

pytestmark = pytest.mark.anyio
PATIENCE = 60.0
DISK_ERROR = sqlite3.OperationalError("disk I/O error")


async def check_whole(folder: Path, least: int, most: int) -> None:
    """The store holds `least` to `most` turns, each with all of its parts and nothing of a further one."""
    store = await SqliteStateStore.open(folder=folder)
    stored = await store.load("job")
    turns = stored.sequence if stored is not None else 0
    assert least <= turns <= most
    assert [item.sequence for item in await store.unwritten(("", 0), 100)] == list(range(1, turns + 1))
    assert len(await store.deliveries("", 100)) == turns
    assert len(await store.catalogue.revisions("uid-job")) == turns
    assert await store.due_wall(100, 10) == ([(turns - 1, "job")] if turns else [])
    assert store.boot == 2
    await store.close()


async def test_a_killed_process_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """After kill -9 at any moment every answered turn is there, whole (SPEC section 8)."""
    child = fork("turns", tmp_path, 0, 10_000)
    lines = [child.stdout.readline() for _ in range(20)]
    child.send_signal(signal.SIGKILL)
    lines += child.lines()
    assert child.wait(PATIENCE) == -signal.SIGKILL
    count = answered(lines)
    assert count >= 19
    store = await SqliteStateStore.open(folder=tmp_path)
    stored = present(await store.load("job"))
    assert stored.sequence in (count, count + 1)
    await store.close()


@pytest.mark.parametrize("passage", [3, 4])
async def test_a_kill_at_each_point_leaves_whole_turns(tmp_path: Path, passage: int) -> None:
    """Killed before or after the commit of the second turn, whole turns are left."""
    child = fork("turns", tmp_path, passage, 5)
    lines = child.lines()
    assert child.wait(PATIENCE) == -signal.SIGKILL
    assert answered(lines) == 1
    is_committed = passage == 4
    await check_whole(tmp_path, least=1 + is_committed, most=1 + is_committed)


@pytest.mark.parametrize("passage", range(2, 8))
async def test_a_kill_between_large_groups_leaves_the_first_ones(tmp_path: Path, passage: int) -> None:
    """What waits together and is large is committed in groups: whole ones, and all that were answered."""
    child = fork("large", tmp_path, passage, 4)
    lines = child.lines()
    assert child.wait(PATIENCE) == -signal.SIGKILL
    store = await SqliteStateStore.open(folder=tmp_path)
    there = [await store.load(f"job-{number}") is not None for number in range(1, 5)]
    assert there == sorted(there, reverse=True)
    assert answered(lines) <= sum(there) == passage // 2
    await store.close()


@pytest.mark.parametrize("passage", range(3, 13))
async def test_a_kill_while_states_grow_and_shrink_leaves_whole_turns(tmp_path: Path, passage: int) -> None:
    """A large state is written by a statement of its own, and so is a small one over it."""
    child = fork("changing", tmp_path, passage, 6)
    lines = child.lines()
    assert child.wait(PATIENCE) == -signal.SIGKILL
    turns = passage // 2
    assert answered(lines) == (passage - 1) // 2
    store = await SqliteStateStore.open(folder=tmp_path)
    stored = present(await store.load("job"))
    assert (stored.sequence, stored.document) == (turns, changing_state(turns))
    assert [item.sequence for item in await store.unwritten(("", 0), 100)] == list(range(1, turns + 1))
    await store.close()


async def test_a_log_that_cannot_grow_is_survived(tmp_path: Path) -> None:
    """A commit that the disk refuses is uncertain; what was written stays, and room brings the store back."""
    child = fork("fill", tmp_path)
    lines = " ".join(child.lines()).split()
    assert lines == ["StoreUncertain", "None", "written"]
    store = await SqliteStateStore.open(folder=tmp_path)
    found = [await store.load(name) is not None for name in ("before", "full", "after")]
    assert found == [True, False, True]
    await store.close()


async def test_a_full_file_refuses_the_group_and_goes_on_with_room(tmp_path: Path) -> None:
    """With no page left nothing is written and each write says so; later ones are tried afresh."""
    store = await SqliteStateStore.open(folder=tmp_path)
    assert store.files is not None
    connection = store.files.writing
    most = connection.execute("PRAGMA max_page_count").fetchall()[0][0]
    pages = connection.execute("PRAGMA page_count").fetchall()[0][0]
    connection.execute(f"PRAGMA max_page_count = {pages}").fetchall()
    heard: list[str] = []
    connection.set_trace_callback(heard.append)
    answers = [store.commit(commit(f"job-{i}", document=b"x" * 100_000)) for i in range(3)]
    for answer in answers:
        with pytest.raises(StoreUnavailable, match="full"):
            await answer
    connection.set_trace_callback(None)
    assert sum(one.startswith("BEGIN") for one in heard) == 1  # none is tried alone: no page is left for any
    connection.execute(f"PRAGMA max_page_count = {most}").fetchall()
    assert await store.load("job-0") is None
    await store.commit(commit("job-0", document=b"x" * 100_000))
    assert await store.load("job-0") is not None
    await store.close()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_failure_says_whether_anything_was_written(tmp_path: Path, when: str) -> None:
    """Before the commit has ended nothing was written; after it, the answer is: unknown."""
    store = await SqliteStateStore.open(
        folder=tmp_path, faults=Breaking(f"{when} {FaultPoint.COMMIT}", DISK_ERROR)
    )
    is_written = when == "after"
    with pytest.raises(StoreUncertain if is_written else StoreUnavailable):
        await store.commit(commit(batch=batch(), deliveries=(delivery(1),)))
    assert (await store.load("job") is not None) is is_written
    await store.commit(commit("next"))
    assert await store.load("next") is not None
    await store.close()


async def test_a_conflict_stays_a_conflict_where_the_group_fails(tmp_path: Path) -> None:
    """A late one gets its conflict, whatever became of the others."""
    store = await SqliteStateStore.open(
        folder=tmp_path, faults=Breaking(f"after {FaultPoint.COMMIT}", DISK_ERROR)
    )
    answers = [store.commit(commit("late", expected=9)), store.commit(commit("job"))]
    failures = await asyncio.gather(*answers, return_exceptions=True)
    assert isinstance(failures[0], StoreConflict)
    assert isinstance(failures[1], StoreError)
    await store.close()
