"""Contexts apart from their rows: each order of put, commit and death; groups, recovery, and the sweep."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from scheduler_service.domain.document import Calling
from scheduler_service.engine.document_bytes import decode, encode, is_apart
from scheduler_service.persistence.common.fault_points import FaultPoint
from scheduler_service.persistence.contexts.external_contexts import (
    MOST_UNUSED,
    ApartCommit,
    ApartStore,
    ContextKeeper,
)
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreConflict, StoreError, StoreUnavailable, StoreUncertain
from scheduler_service.ports.state import Commit, StoredJob
from tests.fault_points import Breaking
from tests.present import present
from tests.unit.engine.rig import running
from tests.unit.persistence.memory_contexts import MemoryContexts
from tests.unit.persistence.samples import commit


class Death(Exception):
    """The process dies here."""


class Stage:
    """One job in a row and in a store of contexts, and the processes that write it, one after the other."""

    def __init__(self, store: SqliteStateStore) -> None:
        self.store = store
        self.contexts = MemoryContexts()
        self.log: list[str] = []
        self.faults = Breaking("", Death())
        self.starts = 0
        self.sequence = 0
        self.begin()

    def begin(self) -> None:
        """Another process takes over; what the one before had in memory is gone."""
        self.starts += 1
        self.faults.place = ""
        self.keeper = ContextKeeper(
            contexts=self.contexts, log=self.write_log, faults=self.faults, start=self.starts
        )

    def write_log(self, event: str, **members: object) -> None:
        """Keeps the words alone."""
        self.log.append(event)

    async def commit(self, document: bytes | None, *, qos: int = 1) -> ApartCommit:
        """One turn, whole."""
        kept = await self.put(document, qos=qos)
        await self.store.commit(kept.commit)
        self.sequence = kept.commit.sequence
        self.keeper.settle(kept, None)
        return kept

    async def put(self, document: bytes | None, *, qos: int = 1) -> ApartCommit:
        """The first half of a turn."""
        return await self.keeper.put(commit(expected=self.sequence, document=document, qos=qos))

    async def load(self) -> bytes | None:
        """The job's document as a turn gets it."""
        stored = await self.keeper.load(self.read)
        return None if stored is None else stored.document

    async def read(self) -> StoredJob | None:
        """The row."""
        return await self.store.load("job")

    @property
    def versions(self) -> Sequence[int]:
        """What the store of contexts has of the job."""
        return list(self.contexts.versions.get("job", ()))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    store = await SqliteStateStore.open(folder=None)
    yield Stage(store)
    await store.close()


def in_flight(attempts: int = 1) -> bytes:
    """A document with a call in flight; each number of `attempts` is another document."""
    document = present(running(qos=1).document)
    context = document.contexts[1]
    assert isinstance(context.phase, Calling)
    return encode(document.__class__(document.head, {1: context.__class__(context.phase, attempts)}))


def at_rest() -> bytes:
    """The same job without a context."""
    return encode(decode(in_flight()).__class__(decode(in_flight()).head))


async def test_the_row_has_the_document_without_contexts_and_a_turn_gets_all(stage: Stage) -> None:
    """What is named is what was put; a job without contexts costs nothing but its row."""
    await stage.commit(at_rest())
    assert (stage.contexts.puts, await stage.load()) == (0, at_rest())
    await stage.commit(in_flight())
    row = present(await stage.read())
    assert row.document is not None
    assert is_apart(row.document)
    assert len(row.document) < len(in_flight())
    assert await stage.load() == in_flight()


async def test_versions_are_removed_by_the_next_put_and_after_the_end(stage: Stage) -> None:
    """So a job that goes on has two at most, and one that has ended none."""
    held = []
    for number in range(1, 5):
        await stage.commit(in_flight(number))
        held.append(len(stage.versions))
    assert (held, stage.contexts.drops) == ([1, 2, 2, 2], 0)
    await stage.commit(at_rest())
    await stage.keeper.close()
    assert (stage.versions, stage.contexts.drops) == ([], 1)


@pytest.mark.parametrize("place", ["before", "after"])
async def test_death_around_the_put(stage: Stage, place: str) -> None:
    """The row names the version before, which is there; the other one is removed after the next start."""
    await stage.commit(in_flight(1))
    stage.faults.place = f"{place} {FaultPoint.CONTEXTS}"
    with pytest.raises(Death):
        await stage.put(in_flight(2))
    assert len(stage.versions) == (1 if place == "before" else 2)
    stage.begin()
    assert await stage.load() == in_flight(1)
    await _sweep(stage)
    assert len(stage.versions) == 1
    assert await stage.load() == in_flight(1)


async def test_death_after_the_commit(stage: Stage) -> None:
    """The row names the new version; that before is removed after the next start."""
    await stage.commit(in_flight(1))
    kept = await stage.put(in_flight(2))
    await stage.store.commit(kept.commit)
    stage.begin()
    assert await stage.load() == in_flight(2)
    await _sweep(stage)
    assert stage.versions == [kept.version]


async def test_what_a_dead_process_left_goes_with_the_next_commit(stage: Stage) -> None:
    """It may have died before its commit, or before it removed what that made unused."""
    await stage.commit(in_flight(1))
    kept = await stage.put(in_flight(2))
    await stage.store.commit(kept.commit)
    stage.sequence = kept.commit.sequence
    await stage.put(in_flight(3))
    assert len(stage.versions) == 3
    stage.begin()
    assert await stage.load() == in_flight(2)
    await stage.keeper.look("job")
    last = await stage.commit(in_flight(4))
    assert len(stage.versions) == 4, "whoever has put them may still commit until then"
    await stage.commit(in_flight(5))
    assert (len(stage.versions), stage.versions[0]) == (2, last.version)
    stage.begin()
    await stage.load()
    await stage.keeper.look("job")
    await stage.commit(at_rest())
    await stage.keeper.close()
    assert stage.versions == []


async def test_what_a_dead_process_left_goes_where_the_first_put_fails_too(stage: Stage) -> None:
    """What was found stays known until a commit makes it unused."""
    await stage.commit(at_rest())
    await stage.put(in_flight(1))
    stage.begin()
    await stage.keeper.look("job")
    stage.contexts.is_away = True
    with pytest.raises(StoreUnavailable):
        await stage.put(in_flight(2))
    stage.contexts.is_away = False
    await stage.commit(in_flight(3))
    await stage.commit(at_rest())
    await stage.keeper.close()
    assert stage.versions == []


async def test_what_another_process_has_put_stays_where_it_commits_first(stage: Stage) -> None:
    """Who looked loses his own commit, and finds the other one's version when he loads anew."""
    await stage.commit(in_flight(1))
    slow = await stage.put(in_flight(2))
    stage.begin()
    await stage.load()
    await stage.keeper.look("job")
    lost = await stage.put(in_flight(3))
    await stage.store.commit(slow.commit)
    stage.sequence = slow.commit.sequence
    with pytest.raises(StoreConflict):
        await stage.store.commit(lost.commit)
    stage.keeper.settle(lost, StoreConflict("another one"))
    assert await stage.load() == in_flight(2)
    stage.contexts.is_away = True
    await stage.keeper.look("job")
    stage.contexts.is_away = False
    await stage.commit(in_flight(4))
    assert await stage.load() == in_flight(4)


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_commit_of_unknown_outcome_keeps_both_versions(stage: Stage, is_written: bool) -> None:
    """Whichever the row names is there, and the next commit that succeeds makes the other one unused."""
    await stage.commit(in_flight(1))
    kept = await stage.put(in_flight(2))
    if is_written:
        await stage.store.commit(kept.commit)
        stage.sequence = kept.commit.sequence
    stage.keeper.settle(kept, StoreUncertain("no answer"))
    assert len(stage.versions) == 2
    assert await stage.load() == in_flight(2 if is_written else 1)
    last = await stage.commit(in_flight(3))
    await stage.commit(in_flight(4))
    assert stage.versions[:1] == [last.version]
    assert len(stage.versions) == 2


@pytest.mark.parametrize("is_first", [True, False])
async def test_a_death_after_a_commit_of_unknown_outcome_loses_nothing(stage: Stage, is_first: bool) -> None:
    """The next put, whose commit never comes, leaves the version that the row may name."""
    if not is_first:
        await stage.commit(in_flight(1))
    kept = await stage.put(in_flight(2))
    await stage.store.commit(kept.commit)
    stage.sequence = kept.commit.sequence
    stage.keeper.settle(kept, StoreUncertain("no answer"))
    await stage.load()
    await stage.put(in_flight(3))
    stage.begin()
    assert await stage.load() == in_flight(2)


@pytest.mark.parametrize("error", [StoreUnavailable("full"), StoreConflict("another one")])
async def test_the_version_of_a_commit_that_failed_is_removed(stage: Stage, error: StoreError) -> None:
    """At once where the job has no other one, else with the next put. The row's is not touched."""
    kept = await stage.put(in_flight(1))
    stage.keeper.settle(kept, error)
    await stage.keeper.close()
    assert stage.versions == []
    before = await stage.commit(in_flight(1))
    stage.keeper.settle(await stage.put(in_flight(2)), error)
    assert await stage.load() == in_flight(1)
    last = await stage.commit(in_flight(3))
    assert stage.versions == [before.version, last.version]


async def test_what_a_frozen_process_writes_late_is_harmless(stage: Stage) -> None:
    """It puts a version that no row names, and its commit is refused."""
    await stage.commit(in_flight(1))
    frozen, late = stage.keeper, commit(expected=stage.sequence, document=in_flight(2))
    stage.begin()
    assert await stage.load() == in_flight(1)
    await stage.commit(in_flight(3))
    kept = await frozen.put(late)
    with pytest.raises(StoreConflict) as refused:
        await stage.store.commit(kept.commit)
    frozen.settle(kept, refused.value)
    assert await stage.load() == in_flight(3)


async def test_contexts_that_are_lost_leave_the_job(stage: Stage) -> None:
    """It comes without them, as the row has it, and the log says so."""
    await stage.commit(in_flight())
    stage.contexts.lose()
    assert await stage.load() == at_rest()
    assert stage.log == ["contexts_lost"]


async def test_nothing_is_taken_for_lost_while_the_store_is_away(stage: Stage) -> None:
    """The load is refused, and so is a turn that would put; one without contexts is not."""
    await stage.commit(in_flight(1))
    stage.contexts.is_away = True
    with pytest.raises(StoreUnavailable):
        await stage.load()
    with pytest.raises(StoreUnavailable):
        await stage.put(in_flight(2))
    await stage.commit(at_rest())
    assert await stage.load() == at_rest()
    stage.contexts.is_away = False
    await stage.keeper.close()
    await stage.commit(in_flight(3))
    assert stage.log == []


async def test_a_load_beside_turns_of_the_job_gets_one_of_its_states(stage: Stage) -> None:
    """The version that it has read of may be removed meanwhile: it reads the row again."""
    await stage.commit(in_flight(1))
    rows = [await stage.read()]
    await stage.commit(in_flight(2))
    await stage.commit(in_flight(3))

    async def read() -> StoredJob | None:
        return rows.pop() if rows else await stage.read()

    found = present(await stage.keeper.load(read))
    assert (found.document, stage.log) == (in_flight(3), [])


@pytest.mark.parametrize("ended", [lambda: None, at_rest], ids=["destroyed", "at rest"])
async def test_an_end_that_could_not_be_removed_is_removed_with_the_next(
    stage: Stage, ended: Callable[[], bytes | None]
) -> None:
    """While the store is away nothing is forgotten, and no turn waits."""
    await stage.commit(in_flight())
    stage.contexts.is_away = True
    await stage.commit(ended())
    await stage.keeper.close()
    stage.contexts.is_away = False
    stage.keeper.drop("another", [1])
    await stage.keeper.close()
    assert stage.contexts.versions == {}


async def test_what_is_to_be_removed_has_a_bound(stage: Stage) -> None:
    """Beyond it the oldest are left to the next start."""
    stage.contexts.is_away = True
    for number in range(MOST_UNUSED + 10):
        stage.keeper.drop(f"job-{number}", [1])
    await stage.keeper.close()
    stage.contexts.is_away = False
    stage.keeper.drop("last", [1])
    await stage.keeper.close()
    assert stage.contexts.drops == MOST_UNUSED


async def test_a_turn_of_a_job_of_qos_0_is_left_as_it_is(stage: Stage) -> None:
    """Unless the job had contexts apart, which are removed then."""
    turn = commit(document=in_flight(), qos=0)
    assert not stage.keeper.concerns(turn)
    await stage.commit(in_flight())
    assert stage.keeper.concerns(turn)
    kept = await stage.commit(in_flight(), qos=0)
    await stage.keeper.close()
    assert (kept.version, stage.versions) == (None, [])


async def test_the_sweep_leaves_what_this_start_has_put(stage: Stage) -> None:
    """A turn of it may be between its put and its commit."""
    kept = await stage.put(in_flight())
    assert kept.version is not None
    assert stage.keeper.find_unused(None, [kept.version, 7]) == [7]


async def test_a_row_of_a_backup_names_nothing_that_came_later(stage: Stage) -> None:
    """The numbers of a start are drawn: what it restores is there as it was, or lost by name."""
    await stage.commit(in_flight(1))
    backup = await stage.read()
    await stage.commit(in_flight(2))
    await stage.commit(in_flight(3))
    stage.keeper = ContextKeeper(contexts=stage.contexts, log=stage.write_log)

    async def read() -> StoredJob | None:
        return backup

    found = present(await stage.keeper.load(read))
    assert (found.document, stage.log) == (at_rest(), ["contexts_lost"])
    kept: Commit = (await stage.put(in_flight(4))).commit
    assert kept.document is not None
    assert len(set(stage.versions)) == len(stage.versions)


async def _sweep(stage: Stage) -> None:
    stage.keeper.drop("job", stage.keeper.find_unused(await stage.read(), stage.versions))
    await stage.keeper.close()


pytestmark = pytest.mark.anyio


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
