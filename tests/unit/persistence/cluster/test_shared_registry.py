"""Instances, notices, reports and rates that the nodes of a cluster keep in common (SPEC section 13)."""

import asyncio

import msgspec
import pytest

from scheduler_service.ports.shared_registry import (
    NodeReport,
    Old,
    OpenCalls,
    RatePage,
    ServiceNotice,
    SharedInstance,
    Sighting,
)
from tests.unit.persistence.cluster_store import ClusterStore

pytestmark = pytest.mark.anyio
FIRST = SharedInstance("default", "shop", "a", b"\x00said", 100)
SECOND = SharedInstance("default", "shop", "b", b"", 200, left_at=300)
REPORT = NodeReport(
    "two",
    5,
    (Sighting("default", "shop", "a", 100, 1.5),),
    (OpenCalls("default", "shop", "b", 3),),
)


async def test_what_is_written_is_read_once_in_its_latest_state(store: ClusterStore) -> None:
    """After the number of the read before."""
    assert (await store.registry.after(0, "one")).number == 0
    await store.registry.put([FIRST, SECOND], [ServiceNotice("default", "shop", anew=True)])
    await store.registry.report(REPORT)
    found = await store.registry.after(0, "one")
    assert sorted(map(_unnumbered, found.instances), key=lambda one: one.place) == [FIRST, SECOND]
    assert found.services == (ServiceNotice("default", "shop", anew=True),)
    assert found.reports == (REPORT,)
    again = await store.registry.after(found.number, "one")
    assert (again.number, again.instances, again.reports) == (found.number, (), ())
    left = msgspec.structs.replace(FIRST, left_at=400)
    await store.registry.put([left], [ServiceNotice("default", "shop")])
    later = await store.registry.after(found.number, "one")
    assert [_unnumbered(one) for one in later.instances] == [left]
    assert later.services == (ServiceNotice("default", "shop"),)


async def test_a_node_does_not_read_its_own_report(store: ClusterStore) -> None:
    """And a later one takes the place of the earlier."""
    await store.registry.report(REPORT)
    assert (await store.registry.after(0, "two")).reports == ()
    later = NodeReport("two", 6)
    await store.registry.report(later)
    assert (await store.registry.after(0, "one")).reports == (later,)


async def test_a_report_that_cannot_be_read_hides_nothing_else(store: ClusterStore) -> None:
    """It is named, with why."""
    later = msgspec.structs.replace(REPORT, node="three", calls=((1, 2, 3, 4),))
    await store.registry.put([FIRST])
    await store.registry.report(later)
    await store.registry.report(REPORT)
    found = await store.registry.after(0, "one")
    assert ([_unnumbered(one) for one in found.instances], found.reports) == ([FIRST], (REPORT,))
    assert [one.node for one in found.unread] == ["three"]
    assert "calls" in found.unread[0].reason


async def test_numbers_rise_over_writings_at_the_same_time(store: ClusterStore) -> None:
    """Whoever reads a number has all that was written up to it: no change is passed over."""
    seen: dict[str, SharedInstance] = {}
    writing = asyncio.gather(
        *(
            store.registry.put([msgspec.structs.replace(FIRST, instance_id=f"i{number}")])
            for number in range(40)
        )
    )
    number = 0
    while len(seen) < 40:
        found = await store.registry.after(number, "one")
        assert found.number >= number
        number = found.number
        seen |= {one.instance_id: one for one in found.instances}
    await writing
    assert number == 40


async def test_instances_that_left_or_are_silent_are_forgotten(store: ClusterStore) -> None:
    """Not one that was written since, one that may have been heard of, nor a later leaving."""
    others = [msgspec.structs.replace(FIRST, instance_id=name) for name in ("c", "d")]
    others[1] = msgspec.structs.replace(others[1], seen_at=301)
    await store.registry.put([FIRST, SECOND, *others])
    silent = (FIRST.place, others[1].place)
    await store.registry.forget(Old(300, silent))
    assert await _kept(store) == ["b", "c", "d"]
    await store.registry.forget(Old(301, silent))
    assert await _kept(store) == ["c", "d"]


async def test_reports_of_nodes_that_are_gone_are_forgotten(store: ClusterStore) -> None:
    """Once they are old."""
    for node, at in (("two", 5), ("three", 5), ("four", 6)):
        await store.registry.report(NodeReport(node, at))
    await store.registry.forget(Old(6, alive=frozenset({"two"})))
    assert {one.node for one in (await store.registry.after(0, "one")).reports} == {"two", "four"}


async def test_notices_that_all_nodes_have_read_are_forgotten(store: ClusterStore) -> None:
    """Unless jobs are declared anew, which the next scan takes."""
    await store.registry.put(
        services=[ServiceNotice("default", "old"), ServiceNotice("default", "anew", True)]
    )
    number = (await store.registry.after(0, "one")).number
    await store.registry.put(services=[ServiceNotice("default", "new")])
    await store.registry.forget(Old(0, noticed=number))
    assert {one.name for one in (await store.registry.after(0, "one")).services} == {"anew", "new"}


async def test_a_change_counts_where_nothing_was_written_since_it_was_read(store: ClusterStore) -> None:
    """Not over a later writing, and not for one that is gone."""
    number = await store.registry.put([FIRST, SECOND])
    (first, second) = (msgspec.structs.replace(one, number=number, content=b"new") for one in (FIRST, SECOND))
    left = msgspec.structs.replace(FIRST, left_at=400)
    await store.registry.put([left])
    await store.registry.change([first, second])
    found = (await store.registry.after(0, "one")).instances
    assert [one.content for one in found] == [left.content, b"new"]
    assert [one.left_at for one in found] == [400, 300]
    assert found[1].number > found[0].number > number
    await store.registry.forget(Old(301))
    await store.registry.change([found[1]])
    assert await _kept(store) == ["a"]


async def _kept(store: ClusterStore) -> list[str]:
    return sorted(one.instance_id for one in (await store.registry.after(0, "one")).instances)


def _unnumbered(row: SharedInstance) -> SharedInstance:
    """As it was given."""
    return msgspec.structs.replace(row, number=0)


SHOP = ("default", "shop")


async def test_a_page_is_written_over_the_one_that_was_read(store: ClusterStore) -> None:
    """Each writing has a number; whoever has read an older one writes nothing."""
    empty = await store.rates.read(*SHOP)
    assert empty == RatePage()
    assert await store.rates.write(*SHOP, RatePage(b"\x00one"))
    assert not await store.rates.write(*SHOP, RatePage(b"two"))
    first = await store.rates.read(*SHOP)
    assert first == RatePage(b"\x00one", 1)
    assert await store.rates.write(*SHOP, msgspec.structs.replace(first, content=b"three"))
    assert not await store.rates.write(*SHOP, msgspec.structs.replace(first, content=b"four"))
    assert await store.rates.read(*SHOP) == RatePage(b"three", 2)
    assert await store.rates.read("default", "other") == RatePage()


async def test_of_many_that_write_at_once_one_does(store: ClusterStore) -> None:
    """Over the first page, and over a later one."""
    for number in range(3):
        writings = [store.rates.write(*SHOP, RatePage(bytes([each]), number)) for each in range(8)]
        assert sum(await asyncio.gather(*writings)) == 1
