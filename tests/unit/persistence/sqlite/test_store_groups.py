"""A group of writes comes to the same as its writes one after the other."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.execution import JobState
from scheduler_service.domain.moments import Due
from scheduler_service.persistence.sqlite.store import SqliteStateStore
from scheduler_service.ports.errors import StoreConflict
from scheduler_service.ports.state import Commit, Remembered, Settlement
from tests.unit.persistence.samples import batch, commit, delivery

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


@settings(deadline=None, max_examples=60)
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
