"""Whoever finds no room waits in line, and takes it in the order of asking."""

import asyncio

import pytest

from scheduler_service.api.responses import ApiProblem
from scheduler_service.api.room import Room

pytestmark = pytest.mark.anyio


async def test_units_are_given_in_the_order_of_asking() -> None:
    """One who wants few does not pass one who wants many; who wants more than there are gets all."""
    room = Room(3, busy="full")
    assert await room.take(0) == 0
    first = await room.take(2)
    many = asyncio.ensure_future(room.take(9))
    few = asyncio.ensure_future(room.take(1))
    await asyncio.sleep(0)
    assert not few.done()
    room.give_back(first)
    assert await many == 3
    room.give_back(3)
    assert await few == 1


async def test_who_waits_too_long_is_told_what_is_full() -> None:
    """503 with `Retry-After`; what comes back later is not lost."""
    room = Room(1, busy="full of tests", wait_seconds=0)
    taken = await room.take(1)
    with pytest.raises(ApiProblem, match="full of tests") as caught:
        await room.take(1)
    assert ("retry-after", "1") in caught.value.headers
    room.give_back(taken)
    assert await room.take(1) == 1
