"""The pages of rate limits that the nodes of a cluster keep in common (SPEC section 13)."""

import asyncio

import msgspec
import pytest

from scheduler_service.ports.shared_rates import RatePage
from tests.unit.persistence.cluster_store import ClusterStore

pytestmark = pytest.mark.anyio
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
