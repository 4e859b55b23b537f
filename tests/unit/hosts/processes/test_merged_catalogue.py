"""The catalogues of several shards answer as one (SPEC section 10): lists, pages, figures, and errors."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Now
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.catalogue import Catalogue, JobPage, JobQuery, JobSort
from scheduler_service.ports.errors import StoreUnavailable
from tests.unit.hosts.processes.memory_shards import MemoryShards
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


MOMENTS = st.integers(0, 3)
IDS = ["a", "B", "b.c", "b-c", "b:c", "b_c", "d", "d1", "e", "f"]
# Characters whose order differs between UTF-8, UTF-16 and a locale.
NAMES = st.text(alphabet="aBb é\ud7ff\ue000\uffee\U0001f600", max_size=2)
JOBS = st.fixed_dictionaries(
    {
        "job_name": NAMES,
        "created_at": MOMENTS,
        "updated_at": MOMENTS,
        "next_fire": st.sampled_from([None, 0, 1, 1, 2, 3]),
        "tenant": st.sampled_from(["default", "other"]),
        "state": st.sampled_from([JobState.ACTIVE, JobState.PAUSED, JobState.FINISHED]),
        "object_id": st.none() | NAMES,
        "labels": st.sampled_from([{}, {"team": "x"}, {"team": "y"}]),
        "parent_job": st.sampled_from([None, "a", "z"]),
        "parent_execution": st.sampled_from([None, 1, 2]),
        "live": st.integers(0, 2),
        "waiting": st.integers(0, 2),
        "system": st.sampled_from([False, False, False, True]),
    }
)
QUERIES = st.builds(
    JobQuery,
    tenant=st.sampled_from([None, "default"]),
    states=st.sampled_from([(), (JobState.ACTIVE,), (JobState.ACTIVE, JobState.FINISHED)]),
    labels=st.sampled_from([(), (("team", "x"),)]),
    parent_job=st.sampled_from([None, None, "a"]),
    text=st.sampled_from([None, None, "b"]),
    system=st.sampled_from([None, None, False, True]),
    sort=st.sampled_from(JobSort),
    descending=st.booleans(),
    limit=st.integers(1, 4),
)
HOMES = st.fixed_dictionaries({job_id: st.integers(0, 2) for job_id in IDS})


async def pages(catalogue: Catalogue, query: JobQuery) -> list[JobPage]:
    """All pages, cursors too, each asked for with the cursor of the one before."""
    found = [await catalogue.list(query)]
    while (cursor := found[-1].next_cursor) is not None:
        values = {name: getattr(query, name) for name in query.__struct_fields__}
        found.append(await catalogue.list(JobQuery(**{**values, "cursor": cursor})))
    return found


async def read_more(catalogue: Catalogue, query: JobQuery) -> list[object]:
    """What else is asked of many jobs."""
    limit, tenant = query.limit, query.tenant
    return [
        await catalogue.children("a", None, after="b", limit=limit),
        await catalogue.children("a", 1, after="", limit=limit),
        await catalogue.upcoming(0, 2, limit, tenant=tenant),
        await catalogue.counts(Now(wall=1, steady=0), tenant=tenant),
        await catalogue.tally(query),
        await catalogue.definitions(IDS),
    ]


async def compare(jobs: dict[str, dict[str, Any]], homes: dict[str, int], queries: list[JobQuery]) -> None:
    """One store and three shards, with the same jobs."""
    alone, shards = await SqliteStateStore.open(folder=None), await MemoryShards.open()
    shards.pinned = homes
    try:
        for job_id, values in jobs.items():
            for store in (alone, shards):
                await store.commit(commit(job_id, definition=b"{}", **values))
        one, merged = alone.catalogue, shards.catalogue
        for query in queries:
            assert await pages(merged, query) == await pages(one, query)
            assert await read_more(merged, query) == await read_more(one, query)
        for job_id in IDS:
            uid = f"uid-{job_id}"
            assert await merged.get(job_id) == await one.get(job_id)
            assert await merged.find(uid) == await one.find(uid)
            revisions = [await it.revisions(uid, after=0, limit=9) for it in (merged, one)]
            assert revisions[0] == revisions[1]
        assert await merged.some(IDS) == await one.some(IDS)
    finally:
        await alone.close()
        await shards.close()


@settings(deadline=None, max_examples=25)
@given(
    jobs=st.dictionaries(st.sampled_from(IDS), JOBS, min_size=3),
    homes=HOMES,
    queries=st.lists(QUERIES, min_size=3, max_size=6),
)
def test_shards_answer_as_one_store_does(
    jobs: dict[str, dict[str, Any]], homes: dict[str, int], queries: list[JobQuery]
) -> None:
    """Every kind of question, page by page, whatever jobs there are and wherever they live."""
    asyncio.run(compare(jobs, homes, queries))


async def test_equal_moments_follow_by_id(store: MemoryShards) -> None:
    """Whichever shard they live in, and where the list is cut."""
    store.pinned = {"a": 2, "b": 1, "c": 0, "d": 1}
    for job_id, moment in (("c", 5), ("b", 5), ("a", 5), ("d", 4)):
        await store.commit(commit(job_id, next_fire=moment))
    for limit, wanted in ((4, "dabc"), (3, "dab"), (2, "da")):
        found = await store.catalogue.upcoming(0, 9, limit)
        assert [entry.job_id for entry in found] == list(wanted)


async def test_a_shard_whose_page_ends_early_hides_no_job(store: MemoryShards) -> None:
    """Where its labels fill a page: what it has behind it comes before later jobs of other shards."""
    store.pinned = {"a": 0, "b": 0, "c": 0, "d": 1, "e": 0}
    for job_id in store.pinned:
        labels = {} if job_id == "d" else {"team": "x" * 3_000_000}
        await store.commit(commit(job_id, labels=labels))
    found = await pages(store.catalogue, JobQuery())
    assert [[one.job_id for one in page.items] for page in found] == [["a"], ["b"], ["c"], ["d", "e"]]


async def test_a_shard_that_is_away_makes_a_list_fail(store: MemoryShards) -> None:
    """Never a part of a list that looks like the whole; what lives in another shard is still found."""
    store.pinned = {"a": 0, "b": 1, "c": 2}
    for job_id in store.pinned:
        await store.commit(commit(job_id, definition=b"{}", parent_job="a"))
    await store.stores[1].close()
    merged = store.catalogue
    for call in (
        merged.list(JobQuery()),
        merged.children("a"),
        merged.upcoming(0, 9_000, 9),
        merged.tally(JobQuery()),
        merged.some(["a", "b", "c"]),
        merged.get("b"),
        merged.find("uid-b"),
        merged.revisions("uid-b"),
    ):
        with pytest.raises(StoreUnavailable):
            await call
    assert sorted(await merged.some(["a", "c"])) == ["a", "c"]
    found = await merged.find("uid-c")
    assert found is not None
    assert found.job_id == "c"
    assert len(await merged.revisions("uid-c")) == 1


async def test_figures_without_a_shard_name_it(store: MemoryShards) -> None:
    """Whoever looks while a process stands still sees the figures of the others, and whose are missing."""
    store.pinned = {"a": 0, "b": 1, "c": 2}
    for job_id in store.pinned:
        await store.commit(commit(job_id, definition=b"{}"))
    assert (await store.catalogue.counts(Now(wall=1, steady=0))).missing == ()
    await store.stores[1].close()
    counts = await store.catalogue.counts(Now(wall=1, steady=0))
    assert (counts.by_state[JobState.ACTIVE], counts.missing) == (2, ("worker process 1",))
    for one in (store.stores[0], store.stores[2]):
        await one.close()
    with pytest.raises(StoreUnavailable):
        await store.catalogue.counts(Now(wall=1, steady=0))


async def test_one_shard_is_asked_without_a_task(store: MemoryShards) -> None:
    """What concerns one job costs no more than in a store of its own."""
    await store.commit(commit("a"))
    tasks: list[Any] = []

    def make(loop: asyncio.AbstractEventLoop, work: Any, **given: Any) -> asyncio.Task[Any]:
        tasks.append(work)
        return asyncio.Task(work, loop=loop, **given)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(make)
    try:
        assert await store.catalogue.get("a") is not None
        assert list(await store.catalogue.some(["a"])) == ["a"]
        assert tasks == []
        await store.catalogue.list(JobQuery())
        assert len(tasks) == 3
    finally:
        loop.set_task_factory(None)
