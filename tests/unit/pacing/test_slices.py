"""The loop comes to other things between two slices."""

import asyncio
import itertools
import sys

import pytest

from scheduler_service.pacing.interpreter import SWITCH_SECONDS
from scheduler_service.pacing.slices import (
    ROUNDS,
    SLICE_BYTES,
    SLICE_ITEMS,
    SLICE_SECONDS,
    Slices,
    until_tick,
)
from tests.rows import each_row


@each_row(
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


async def test_the_loop_has_some_rounds_where_few_items_take_long() -> None:
    """What takes many rounds, as a firing does, would be late by as many slices."""
    slow = itertools.count(0, SLICE_SECONDS / 2)
    rounds = await count_pauses(Slices(timer=lambda: next(slow)), [1] * 6)
    assert 2 * ROUNDS <= rounds <= 3 * (ROUNDS + 1)


async def test_other_threads_get_the_interpreter_soon_where_items_take_long() -> None:
    """The store's thread asks for it as often as a firing takes rounds; afterwards it is as it was."""
    usual = sys.getswitchinterval()
    slow = itertools.count(0, SLICE_SECONDS / 2)
    slices, seen = Slices(timer=lambda: next(slow)), []
    for _ in range(6):
        await slices.pause()
        seen.append(sys.getswitchinterval())
    assert min(seen) == pytest.approx(SWITCH_SECONDS)
    await asyncio.sleep(0)
    assert sys.getswitchinterval() == usual
    waiting = itertools.count(0, 2 * SLICE_SECONDS)  # for something else, between two items
    for timer in (lambda: 0, lambda: next(waiting)):
        quick = Slices(timer=timer)
        for _ in range(SLICE_ITEMS + 2):
            await quick.pause()
            assert sys.getswitchinterval() == usual


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


async def test_of_several_rows_one_goes_on_in_each_round() -> None:
    """Ten rows of three milliseconds each would be thirty, before the loop comes to anything else."""
    rounds = await count_slices([1_000_000] * 20, rows=10)
    assert max(rounds) == 1
    assert sum(rounds) == 200


async def work(sizes: list[int], done: list[int]) -> None:
    """Notes each item in `done`."""
    slices = Slices(timer=lambda: 0)
    for size in sizes:
        await slices.pause(size)
        done.append(size)


async def count_slices(sizes: list[int], *, rows: int) -> list[int]:
    """How many items were worked on in each round."""
    done: list[int] = []
    counts = []
    running = asyncio.gather(*(work(sizes, done) for _ in range(rows)))
    while not running.done():
        before = len(done)
        await asyncio.sleep(0)
        counts.append(len(done) - before)
    return counts


@pytest.mark.parametrize(
    ("period", "now", "left"),
    [(0.2, 1_000.05, 0.15), (0.4, 1_000.0, 0.4), (1.0, 7.25, 0.75), (0.2, 1_000.195, 0.205)],
)
def test_what_recurs_waits_for_moments_that_others_have(period: float, now: float, left: float) -> None:
    """The next multiple of its period; a timer that rings a little early has the one that it waited for."""
    assert until_tick(period, now) == pytest.approx(left, abs=0.000_6)
