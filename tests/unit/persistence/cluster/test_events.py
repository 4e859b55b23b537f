"""Events that the nodes of a cluster show each other through the shared database."""

import pytest

from scheduler_service.domain.public_events import Occurrence, OccurrenceKind
from scheduler_service.persistence.cluster.events import KEPT_GROUPS, SharedEvents
from tests.unit.persistence.cluster_store import ClusterStore

pytestmark = pytest.mark.anyio


def happened(number: int) -> Occurrence:
    return Occurrence(
        kind=OccurrenceKind.STARTED, at=1, tenant="default", job_id="j", execute_number=number, node="one"
    )


async def numbers(events: SharedEvents, after: int = 0) -> list[int]:
    return [group.number for group in await events.after(after, 10_000)]


async def test_nothing_is_written_before_a_node_wants_it(store: ClusterStore) -> None:
    """Nor when the wish is over."""
    events = store.events
    assert not await events.are_wanted(0)
    assert not await events.put([happened(1)], 0)
    await events.want(0, 100)
    assert await events.are_wanted(100)
    assert await events.put([happened(1)], 100)
    assert not await events.are_wanted(101)
    assert not await events.put([happened(2)], 101)
    assert len(await numbers(events)) == 1


async def test_groups_come_back_as_they_were_in_their_order(store: ClusterStore) -> None:
    """With every member, after the number that was read last."""
    events = store.events
    latest = await events.want(0, 100)
    await events.put([happened(1), happened(2)], 1)
    await events.put([happened(3)], 2)
    first, second = await events.after(latest, 10)
    assert first.occurrences == (happened(1), happened(2))
    assert (second.number, second.occurrences) == (first.number + 1, (happened(3),))
    assert await events.after(first.number, 10) == [second]
    assert await events.after(latest, 1) == [first]
    assert await events.want(50, 150) == second.number


async def test_a_wish_that_was_over_begins_anew(store: ClusterStore) -> None:
    """What happened meanwhile is in no group: a number is left out, and the older ones are gone."""
    events = store.events
    await events.want(0, 100)
    await events.put([happened(1)], 1)
    latest = await events.want(101, 200)
    assert await numbers(events) == []
    await events.put([happened(2)], 102)
    assert await numbers(events) == [latest + 1]


async def test_the_table_is_bounded_in_number_and_age(store: ClusterStore) -> None:
    """The oldest groups go with each new one, and by their age."""
    events = store.events
    latest = await events.want(0, 10_000)
    for number in range(KEPT_GROUPS + 5):
        await events.put([happened(number)], number)
    assert await numbers(events) == list(range(latest + 6, latest + KEPT_GROUPS + 6))
    await events.forget(KEPT_GROUPS + 4)
    assert await numbers(events) == [latest + KEPT_GROUPS + 5]
