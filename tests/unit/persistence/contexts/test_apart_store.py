"""A job store with contexts elsewhere: turns, groups of them, recovery, and the sweep."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from scheduler_service.engine.snapshot import decode, encode
from scheduler_service.persistence.contexts.apart_store import ApartStore
from scheduler_service.persistence.contexts.keeper import ContextKeeper
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreConflict, StoreUnavailable
from tests.unit.engine.rig import running
from tests.unit.persistence.memory_contexts import MemoryContexts
from tests.unit.persistence.samples import commit

pytestmark = pytest.mark.anyio


def in_flight() -> bytes:
    """A document with a call in flight."""
    document = running(qos=1).document
    assert document is not None
    return encode(document)


def at_rest() -> bytes:
    """One without a context."""
    return encode(decode(in_flight()).__class__(decode(in_flight()).head))


class Rooms:
    """A file in memory and contexts beside it."""

    def __init__(self, rows: SqliteStateStore) -> None:
        self.rows = rows
        self.contexts = MemoryContexts()

    def open(
        self, *, is_own: Callable[[str], bool] = lambda _: True, sweep_after: float | None = None
    ) -> ApartStore:
        """The store of a process."""
        return ApartStore(
            store=self.rows,
            contexts=self.contexts,
            keeper=ContextKeeper(contexts=self.contexts, log=lambda *_, **__: None),
            is_own=is_own,
            sweep_after=sweep_after,
        )


@pytest.fixture
async def rooms() -> AsyncIterator[Rooms]:
    rows = await SqliteStateStore.open(folder=None)
    yield Rooms(rows)
    await rows.close()


async def test_turns_are_written_and_read_back(rooms: Rooms) -> None:
    """With their contexts, which the rows have not."""
    store = rooms.open()
    await store.commit(commit(document=in_flight()))
    stored, row = await store.load("job"), await rooms.rows.load("job")
    assert stored is not None
    assert row is not None
    assert (stored.document, row.document != in_flight()) == (in_flight(), True)
    with pytest.raises(StoreConflict):
        await store.commit(commit(document=in_flight(), expected=7))
    await store.commit(commit(document=at_rest(), expected=1))
    await store.close()
    assert rooms.contexts.versions == {}


async def test_a_group_is_written_where_its_contexts_are(rooms: Rooms) -> None:
    """Each turn has its own end; one that conflicts leaves nothing."""
    store = rooms.open()
    await store.commit(commit("old", document=at_rest()))
    turns = [
        commit("new", document=in_flight()),
        commit("old", document=in_flight(), expected=9),
        commit("light", document=at_rest(), qos=0),
    ]
    verdicts = await store.commit_all(turns)
    assert [type(one) for one in verdicts] == [type(None), StoreConflict, type(None)]
    rooms.contexts.is_away = True
    again = [commit("more", document=in_flight()), commit("less", document=at_rest())]
    verdicts = await store.commit_all(again)
    assert [type(one) for one in verdicts] == [StoreUnavailable, type(None)]
    assert await rooms.rows.load("more") is None
    rooms.contexts.is_away = False
    await store.close()
    assert list(rooms.contexts.versions) == ["new"]


async def test_a_job_whose_contexts_lie_apart_may_have_calls_in_flight(rooms: Rooms) -> None:
    """After a start it is among those that are looked at first."""
    store = rooms.open()
    await store.commit(commit("apart", document=in_flight(), live=1))
    await store.commit(commit("waits", document=at_rest(), live=1))
    found = await store.open_jobs("", 10, [b"no such mark"])
    assert [(job.job_id, job.is_marked) for job in found] == [("apart", True), ("waits", False)]
    await store.close()


async def test_the_sweep_removes_what_no_row_names(rooms: Rooms) -> None:
    """Of this process's own jobs alone: what a row names stays, and so does what others may be writing."""
    await rooms.open().commit(commit("named", document=in_flight()))
    named = list(rooms.contexts.versions["named"])
    for job_id in ("named", "gone", "other's"):
        await rooms.contexts.put(job_id, 7, b"left by a crash", ())
    store = rooms.open(is_own=lambda job_id: job_id != "other's", sweep_after=0)
    async with asyncio.timeout(10):
        while "gone" in rooms.contexts.versions:  # noqa: ASYNC110 - the sweep reads rows in a thread
            await asyncio.sleep(0)
    await store.close()
    assert {job_id: list(kept) for job_id, kept in rooms.contexts.versions.items()} == {
        "named": named,
        "other's": [7],
    }


async def test_a_sweep_that_meets_trouble_is_left_to_the_next_start(rooms: Rooms) -> None:
    """It ends, and the store goes on."""
    rooms.contexts.is_away = True
    store = rooms.open(sweep_after=0)
    await asyncio.sleep(0)
    await store.commit(commit(document=at_rest()))
    await store.close()
