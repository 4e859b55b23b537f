"""Several processes over one file: each has its own jobs, all see what any of them has written."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler_service.domain.leases import Claim
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.sqlite.folder import FolderLock
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.catalogue import JobQuery
from scheduler_service.ports.errors import StoreUnavailable
from scheduler_service.ports.state import Remembered
from tests.unit.persistence.queue_bench import Bench
from tests.unit.persistence.samples import batch, commit, delivery

pytestmark = pytest.mark.anyio
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
