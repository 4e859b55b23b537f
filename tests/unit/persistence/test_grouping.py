"""A group of writes comes to the same as its writes one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.execution import JobState
from scheduler_service.persistence.state.catalogue import Catalogue, JobQuery
from scheduler_service.persistence.state.sqlite_store import SqliteStateStore
from scheduler_service.ports import Settlement, StateStore
from tests.unit.persistence.samples import batch, commit, delivery

Act = Callable[[SqliteStateStore], Awaitable[Any]]

jobs = st.sampled_from(["a", "b"])
numbers = st.integers(0, 3)


@st.composite
def turns(draw: st.DrawFn) -> Act:
    """A turn that may or may not fit what stands there, with any of its parts."""
    is_last, number = draw(st.booleans()), draw(numbers)
    turn = commit(
        draw(jobs),
        expected=draw(numbers),
        uid=draw(st.sampled_from(["u", "v"])),
        state=JobState.DESTROYED if is_last else JobState.ACTIVE,
        document=None if is_last else str(number).encode(),
        job_name=draw(st.sampled_from(["x", "y"])),
        definition=draw(st.sampled_from([None, b"{1}", b"{2}"])),
        batch=draw(st.sampled_from([None, batch(1), batch(2)])),
        deliveries=draw(st.sampled_from([(), (delivery(1),), (delivery(1, tries=1), delivery(2))])),
    )
    return lambda store: store.commit(turn)


@st.composite
def settlements(draw: st.DrawFn) -> Act:
    """What became of a delivery."""
    settlement = Settlement(delivery(draw(numbers), tries=draw(numbers)), done=draw(st.booleans()))
    return lambda store: store.settle([settlement])


acts = st.one_of(
    turns(),
    turns(),
    settlements(),
    numbers.map(lambda number: lambda store: store.written([("u", number)])),
    jobs.map(lambda job_id: lambda store: store.forget(job_id)),
)


async def come_to(store: SqliteStateStore) -> list[Any]:
    """All that the store holds."""
    held: list[Any] = [await store.load(job_id) for job_id in ("a", "b")]
    held += await store.deliveries("", 100)
    held += await store.unwritten(("", 0), 100)
    held += [*await store.catalogue.revisions("u"), *await store.catalogue.revisions("v")]
    return [*held, await store.catalogue.list(JobQuery(states=()))]


async def compare(before: list[Act], together: list[Act]) -> None:
    """Runs `together` as one group and one by one, over the same start."""
    grouped = await SqliteStateStore.open(folder=None)
    single = await SqliteStateStore.open(folder=None)
    try:
        for store in (grouped, single):
            await asyncio.gather(*[act(store) for act in before], return_exceptions=True)
        # The writer waits while the lock is held: what is handed in meanwhile becomes one group.
        with grouped._files.guard:
            waiting = [act(grouped) for act in together]
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        wanted = [(await asyncio.gather(act(single), return_exceptions=True))[0] for act in together]
        assert [_plain(answer) for answer in answers] == [_plain(answer) for answer in wanted]
        assert await come_to(grouped) == await come_to(single)
    finally:
        await grouped.close()
        await single.close()


def _plain(answer: object) -> object:
    return type(answer) if isinstance(answer, BaseException) else answer


@settings(deadline=None, max_examples=150)
@given(before=st.lists(acts, max_size=6), together=st.lists(acts, max_size=12))
def test_a_group_is_its_writes_one_after_the_other(before: list[Act], together: list[Act]) -> None:
    """Grouping changes neither an answer nor what is kept."""
    asyncio.run(compare(before, together))


def test_the_store_is_what_its_ports_say() -> None:
    """The types fit, so that any other implementation may stand in its place."""

    def stand_in(store: SqliteStateStore) -> tuple[StateStore, Catalogue]:
        return store, store.catalogue

    assert callable(stand_in)
