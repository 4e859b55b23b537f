"""The loop comes to other things between two slices."""

import asyncio
import itertools

import pytest

from scheduler_service.ports.slices import SLICE_BYTES, SLICE_ITEMS, SLICE_SECONDS, Slices

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("sizes", "pauses"),
    [
        ([1] * SLICE_ITEMS, 0),
        ([1] * (SLICE_ITEMS + 1), 1),
        ([1] * (3 * SLICE_ITEMS), 2),
        ([SLICE_BYTES] * 4, 3),
        ([1, SLICE_BYTES, 1, 1], 1),
    ],
)
async def test_the_loop_comes_between_two_slices(sizes: list[int], pauses: int) -> None:
    """After 50 items, or 16 KiB of them."""
    assert await count_pauses(Slices(timer=lambda: 0), sizes) == pauses


async def test_the_loop_comes_where_few_items_take_long() -> None:
    """Four milliseconds are a slice, whatever is in it."""
    slow = itertools.count(0, SLICE_SECONDS / 2)
    assert await count_pauses(Slices(timer=lambda: next(slow)), [1] * 6) == 3


async def count_pauses(slices: Slices, sizes: list[int]) -> int:
    """How often the loop came to other things."""
    counted = 0

    async def count() -> None:
        nonlocal counted
        while True:
            await asyncio.sleep(0)
            counted += 1

    other = asyncio.ensure_future(count())
    await asyncio.sleep(0)
    before = counted
    for size in sizes:
        await slices.pause(size)
    other.cancel()
    return counted - before
