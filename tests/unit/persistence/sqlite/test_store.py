"""What the SQLite store promises beyond the port: groups, damage, doubt, and processes that share a file."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from scheduler_service.domain.leases import Claim
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.common.pagination import PAGE_BYTES
from scheduler_service.persistence.job_store.database import JobDatabase
from scheduler_service.persistence.job_store.state_store import ServiceStart, owns_all
from scheduler_service.persistence.sqlite.folder_lock import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import NOTHING, Remembered
from tests.fault_points import Breaking, WriteGate
from tests.present import present
from tests.unit.persistence import damaged_deliveries
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


async def test_a_damaged_delivery_holds_up_none_behind_it(tmp_path: Path) -> None:
    """A bit of a row that the disk has changed stops one notification."""
    store = await SqliteStateStore.open(folder=tmp_path)
    await store.commit(commit(deliveries=tuple(map(delivery, damaged_deliveries.ALL))))
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
        for name in damaged_deliveries.DAMAGED:
            values = (damaged_deliveries.TORN, name)
            connection.execute("UPDATE outbox SET content = ? WHERE delivery_id = ?", values)
    await damaged_deliveries.check(store.deliveries)
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
