"""What the SQLite store promises beyond the port: groups, damage, doubt, and processes that share a file."""

import asyncio
import signal
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.leases import Claim
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.common.pagination import PAGE_BYTES
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.state_store import ServiceStart, owns_all
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import NOTHING, Commit, Remembered, Settlement
from tests.fault_points import Breaking, WriteGate
from tests.present import present
from tests.unit.persistence import damaged_deliveries
from tests.unit.persistence.crashing import answered, changing_state, fork
from tests.unit.persistence.queue_bench import Bench
from tests.unit.persistence.samples import batch, commit, delivery

pytestmark = pytest.mark.anyio


async def test_what_waits_is_written_as_one_group(tmp_path: Path) -> None:
    """Writes that wait share a commit, at most `size` of them."""
    gate = WriteGate()
    store = await SqliteStateStore.open(folder=tmp_path, faults=gate, size=50)
    first = asyncio.ensure_future(store.commit(commit("first")))
    assert await asyncio.to_thread(gate.reached.wait, 20)
    rest = [store.commit(commit(f"job-{i}")) for i in range(100)]
    gate.opened.set()
    await asyncio.gather(first, *rest)
    assert gate.passed.count(FaultPoint.COMMIT) == 3
    await store.close()


async def test_what_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    """The others of its group are written, by few commits."""
    gate = WriteGate()
    store = await SqliteStateStore.open(folder=tmp_path, faults=gate)
    gate.opened.set()
    writes = [store.commit(commit(f"job-{number}", execute_number=number)) for number in range(63)]
    writes.append(store.commit(commit("bad", execute_number=1 << 70)))
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(end) for end in ends] == [type(None)] * 63 + [StoreUnavailable]
    assert gate.passed.count(FaultPoint.COMMIT) == 6
    await store.close()


async def test_nobody_waits_for_a_list_but_lists(tmp_path: Path) -> None:
    """A list may search all jobs meanwhile: alarms, kept answers and queues are read beside it."""
    database = await JobDatabase.open(url=f"sqlite:///{tmp_path}/jobs.db")
    store = SqliteStateStore(database=database, started=ServiceStart(1, "n"), owns=owns_all, files=None)
    is_over = threading.Event()
    lists = [asyncio.ensure_future(database.read(lambda _: is_over.wait(60))) for _ in range(2)]
    assert await store.load("job") is None
    assert [await store.due_wall(9, 9), await store.deliveries("", 9), await store.clock_skew()] == [
        [],
        [],
        0,
    ]
    assert await store.recall("s", "k", 0) is None
    assert await store.queues.claimable([], 0) == []
    assert not any(one.done() for one in lists)
    is_over.set()
    await asyncio.gather(*lists)
    await store.close()


async def test_a_damaged_id_of_a_delivery_holds_up_none_behind_it(tmp_path: Path) -> None:
    """Neither in the row, where it may be no text any more, nor in its content; and reading ends."""
    store = await SqliteStateStore.open(folder=tmp_path)
    await store.commit(commit(deliveries=tuple(map(delivery, damaged_deliveries.ALL))))
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
        change = "UPDATE outbox SET delivery_id = CAST(? AS TEXT) WHERE delivery_id = ?"
        for new, old in ((b"a\xff", "d1"), (b"e3", "d3")):
            connection.execute(change, (new, old))
    for size in (1, 2, 500):
        found = await damaged_deliveries.read_all(store.deliveries, size)
        assert found == (["d2", "d4", "d5"], ["a\\xff", "e3"])
    await store.close()


async def test_after_a_doubt_the_table_is_asked_how_rows_stand(tmp_path: Path) -> None:
    """What memory knew of a row that was written in doubt would refuse the next turn."""
    faults = Breaking("", OSError("the disk went away"))
    store = await SqliteStateStore.open(folder=tmp_path, faults=faults)
    await store.commit(commit("job", expected=NOTHING, sequence=1, definition=b"1"))
    faults.place = f"after {FaultPoint.COMMIT}"
    with pytest.raises(StoreUncertain):
        await store.commit(commit("job", expected=1, sequence=2, definition=b"2", revision=2))
    found = present(await store.load("job"))
    assert found.sequence == 2
    await store.commit(commit("job", expected=2, sequence=3, revision=2))
    await store.close()


async def test_a_read_has_all_that_was_answered_and_waits_for_no_writer(tmp_path: Path) -> None:
    """Whatever stands before the writer: nobody has been told of it yet (SPEC section 10)."""
    gate = WriteGate()
    gate.opened.set()
    store = await SqliteStateStore.open(folder=tmp_path, faults=gate)
    await store.commit(commit("job", expected=NOTHING, sequence=1, next_fire=5))
    gate.opened.clear()
    under_way = store.commit(commit("job", expected=1, sequence=2, next_fire=6, live=1))
    assert [one.next_fire for one in (await store.catalogue.list(JobQuery(tenant=None))).items] == [5]
    gate.opened.set()
    await under_way
    entry = present(await store.catalogue.get("job"))
    found = [entry, *(await store.catalogue.list(JobQuery(tenant=None))).items]
    found += await store.catalogue.upcoming(0, 100, 10)
    assert [one.next_fire for one in found] == [6, 6, 6]
    assert [one.job_id for one in await store.open_jobs("", 10, ())] == ["job"]
    await store.close()


async def test_a_waiter_that_gives_up_leaves_its_write(tmp_path: Path) -> None:
    """Cancelling who waits for a commit does not cancel the commit, nor disturb its group."""
    store = await SqliteStateStore.open(folder=tmp_path)
    first, second = store.commit(commit("a")), store.commit(commit("b"))
    asyncio.ensure_future(first).cancel()
    await second
    assert await store.load("a") is not None
    await store.close()


async def test_large_documents_are_loaded_some_at_a_time(tmp_path: Path) -> None:
    """Those that are too much for one read are read behind others; small ones are read at once."""
    store = await SqliteStateStore.open(folder=tmp_path)
    sizes = [PAGE_BYTES // 2 + number if number % 2 else number for number in range(12)]
    job_ids = [f"job-{number:02}" for number in range(len(sizes))]
    for job_id, size in zip(job_ids, sizes, strict=True):
        await store.commit(commit(job_id, document=b"x" * size))
    order: list[str] = []

    async def load(job_id: str) -> int:
        found = await store.load(job_id)
        order.append(job_id)
        return -1 if found is None else len(found.document or b"")

    assert await asyncio.gather(*map(load, job_ids)) == sizes
    assert {"job-05", "job-07", "job-09", "job-11"} == set(order[-4:])
    await store.close()


async def test_definitions_are_read_some_at_a_time(tmp_path: Path) -> None:
    """Of each job the revision that is asked for and no other; large ones behind others."""
    store = await SqliteStateStore.open(folder=tmp_path)
    for revision in (1, 2):
        texts = [b"%d" % revision * (PAGE_BYTES // 2 + 1 if number % 2 else 9) for number in range(8)]
        changes = {"expected": revision - 1, "revision": revision}
        turns = (commit(f"job-{n}", **changes, definition=text) for n, text in enumerate(texts))
        await asyncio.gather(*map(store.commit, turns))
    order: list[int] = []

    async def read(number: int) -> tuple[int, bytes]:
        text = await store.definition(f"uid-job-{number}", 1 + number // 2 % 2)
        order.append(number)
        assert text is not None
        return len(text), text[:1]

    found = await asyncio.gather(*map(read, range(8)))
    assert [size for size, _ in found] == [9, PAGE_BYTES // 2 + 1] * 4
    assert b"".join(first for _, first in found) == b"11221122"
    assert {5, 7} == set(order[-2:])
    await store.close()


COUNT = 12


def is_even(job_id: str) -> bool:
    return int(job_id.removeprefix("job-")) % 2 == 0


def is_odd(job_id: str) -> bool:
    return not is_even(job_id)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[SqliteStateStore, SqliteStateStore]]:
    """The service's own process, which has the even jobs, and a worker process."""
    first = await SqliteStateStore.open(folder=tmp_path, owns=is_even)
    lock = FolderLock.claim_worker(tmp_path, 1)
    second = await SqliteStateStore.open(folder=tmp_path, lock=lock, owns=is_odd)
    yield first, second
    await second.close()
    await first.close()


async def fill(pair: tuple[SqliteStateStore, SqliteStateStore]) -> None:
    """Jobs that wait, run, and have something to be sent and recorded; each written by its process."""
    for number in range(COUNT):
        job_id = f"job-{number}"
        await pair[number % 2].commit(
            commit(
                job_id,
                due=Due(wall=1_000, steady=2_000 + number),
                live=1,
                document=b"marked" if number < COUNT / 2 else b"plain",
                batch=batch(number, uid=f"u{number:02}"),
                deliveries=(delivery(number, job_id=job_id),),
            )
        )


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_a_start_takes_up_its_own_jobs_alone(
    pair: tuple[SqliteStateStore, SqliteStateStore], limit: int
) -> None:
    """Alarms, also many of one moment; open jobs; deliveries and records: page by page, all of them."""
    await fill(pair)
    for parity, store in enumerate(pair):
        own = sorted(f"job-{number}" for number in range(parity, COUNT, 2))
        assert await store.due_wall(1_000, limit) == [(1_000, job_id) for job_id in own][:limit]
        steady = [(2_000 + number, f"job-{number}") for number in range(parity, COUNT, 2)]
        assert await store.due_steady(2_005, limit) == [one for one in steady if one[0] <= 2_005][:limit]
        assert (
            await store.due_steady(9_000, limit, 2_003) == [one for one in steady if one[0] > 2_003][:limit]
        )
        found, after = [], ""
        while page := await store.open_jobs(after, limit, [b"marked"]):
            found += page
            after = page[-1].job_id
        assert [one.job_id for one in found] == own
        assert {one.job_id for one in found if one.is_marked} == {f"job-{n}" for n in range(parity, 6, 2)}


async def test_what_waits_to_be_sent_and_recorded_has_one_process(
    pair: tuple[SqliteStateStore, SqliteStateStore],
) -> None:
    """Each delivery and each record is taken up by the process of its job."""
    await fill(pair)
    for parity, store in enumerate(pair):
        assert {one.ordinal % 2 for one in await store.deliveries("", 2)} == {parity}
        assert len(await store.deliveries("", 100)) == COUNT // 2


async def test_all_processes_see_and_write_the_rest(pair: tuple[SqliteStateStore, SqliteStateStore]) -> None:
    """Lists, definitions, kept answers and queues are those of one store; each start has a number."""
    first, second = pair
    await second.commit(
        commit("job-1", definition=b"{1}", remembered=Remembered("s", "k", b"d", b"a", 5, "job-1"))
    )
    page = await first.catalogue.list(JobQuery())
    assert [one.job_id for one in page.items] == ["job-1"]
    assert await first.definition("uid-job-1", 1) == b"{1}"
    assert (await first.recall("s", "k", 0)) is not None
    assert not await first.remember_first(Remembered("s", "k", b"d", b"other", 6), 0)
    await Bench(second).publish()
    leases = await first.queues.claim(Claim("default", "work", "a", ("lease",), 0))
    assert [one.lease for one in leases] == ["lease"]
    assert await second.queues.renew("lease", 1) is not None
    assert (first.boot, second.boot) == (1, 2)


async def test_a_writer_that_does_not_end_is_an_answer(
    pair: tuple[SqliteStateStore, SqliteStateStore],
) -> None:
    """Nothing was written, and the next try is one of its own."""
    first, second = pair
    second.files.writing.execute("PRAGMA busy_timeout = 20")
    first.files.writing.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        await second.commit(commit("job-1"))
    first.files.writing.execute("ROLLBACK")
    await second.commit(commit("job-1"))
    assert await first.load("job-1") is not None


UIDS = {"a": ["u", "v"], "b": ["w", "x"]}
"""The uids of two lives of each job."""
Write = Callable[[SqliteStateStore], Awaitable[object]]
jobs = st.sampled_from(sorted(UIDS))
numbers = st.integers(0, 3)


@st.composite
def turns(draw: st.DrawFn) -> Commit:
    """A turn that may or may not be expected, with any of its parts."""
    job_id, is_last, number = draw(jobs), draw(st.booleans()), draw(numbers)
    remembered = Remembered(
        "s", draw(st.sampled_from("kl")), b"", str(number).encode(), number, draw(st.sampled_from(["", "a"]))
    )
    states = st.sampled_from([JobState.ACTIVE, JobState.FINISHED])
    return commit(
        job_id,
        expected=draw(st.sampled_from([0, 0, 1, 1, 2, 3, -1])),
        sequence=draw(st.integers(1, 4)),
        uid=draw(st.sampled_from(UIDS[job_id])),
        state=JobState.DESTROYED if is_last else draw(states),
        document=None if is_last else str(number).encode(),
        due=Due(wall=draw(st.sampled_from([None, 5])), steady=draw(st.sampled_from([None, 5]))),
        next_fire=draw(st.sampled_from([None, 7])),
        job_name=draw(st.sampled_from(["x", "y"])),
        labels=draw(st.sampled_from([{}, {"a": "1"}])),
        revision=draw(st.integers(1, 2)),
        definition=draw(st.sampled_from([None, b"{1}", b"{2}"])),
        batch=draw(st.sampled_from([None, batch(1), batch(2)])),
        deliveries=draw(st.sampled_from([(), (delivery(1),), (delivery(2), delivery(3))])),
        remembered=draw(st.sampled_from([None, remembered])),
    )


def _commit(turn: Commit) -> Write:
    return lambda store: store.commit(turn)


def _settle(number: int, tries: int, done: bool) -> Write:
    return lambda store: store.settle([Settlement(delivery(number, tries=tries), done=done)])


def _forget(job_id: str) -> Write:
    return lambda store: store.forget(job_id)


def _save(number: int) -> Write:
    return lambda store: store.save_clock_skew(number)


writes = st.one_of(
    turns().map(_commit),
    turns().map(_commit),
    st.builds(_settle, numbers, numbers, st.booleans()),
    jobs.map(_forget),
    numbers.map(_save),
)
groups = st.lists(writes, max_size=12)


async def run(store: SqliteStateStore, group: Sequence[Write]) -> list[object]:
    """Writes one group; a refusal is returned by its type."""
    answers = await asyncio.gather(*(write(store) for write in group), return_exceptions=True)
    assert all(isinstance(one, StoreConflict) for one in answers if isinstance(one, Exception))
    return [type(one) if isinstance(one, Exception) else one for one in answers]


async def read_all(store: SqliteStateStore) -> list[object]:
    """All that the port shows."""
    found: list[object] = [await store.load(job_id) for job_id in UIDS]
    found += [await store.catalogue.get(job_id) for job_id in UIDS]
    found += [await store.definition(uid, revision) for uid in "uvwx" for revision in (1, 2)]
    found += [await store.recall("s", key, 0) for key in "kl"]
    found += [await store.due_wall(9, 9), await store.due_steady(9, 9), await store.clock_skew()]
    return [*found, await store.deliveries("", 9), await store.unwritten(("", 0), 9)]


async def compare(before: Sequence[Write], together: Sequence[Write]) -> None:
    """Writes `together` as one group and one by one, over the same start."""
    grouped, single = [await SqliteStateStore.open(folder=None) for _ in range(2)]
    for write in before:
        assert await run(grouped, [write]) == await run(single, [write])
    answers = await run(grouped, together)
    assert answers == [answer for write in together for answer in await run(single, [write])]
    assert await read_all(grouped) == await read_all(single)
    await grouped.close()
    await single.close()


@settings(deadline=None, max_examples=8)
@given(before=st.lists(writes, max_size=6), together=groups)
def test_a_group_is_its_writes_one_after_the_other(before: list[Write], together: list[Write]) -> None:
    """Grouping, and what is known of rows, change neither an answer nor what is kept."""
    asyncio.run(compare(before, together))


@pytest.mark.long
@settings(deadline=None, max_examples=1_000)
@given(before=st.lists(writes, max_size=6), together=groups)
def test_many_groups_are_their_writes_one_after_the_other(before: list[Write], together: list[Write]) -> None:
    """The same, over so many groups that rare meetings are among them."""
    asyncio.run(compare(before, together))


async def _write_over_a_lost_turn() -> str:
    store = await SqliteStateStore.open(folder=None)
    await store.commit(commit(sequence=1, job_name="of the row"))
    both = [commit(expected=number, sequence=number + 1, job_name="new") for number in (0, 1)]
    await run(store, list(map(_commit, both)))
    found = await store.load("job")
    await store.close()
    assert found is not None
    return found.entry.job_name


def test_a_lost_turn_is_not_taken_for_the_row() -> None:
    """It has the sequence of the row, and columns that the next turn of its group would not write again."""
    assert asyncio.run(_write_over_a_lost_turn()) == "new"


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
