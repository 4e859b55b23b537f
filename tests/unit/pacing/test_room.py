"""Whoever finds no room waits in line, and takes it in the order of asking."""

import asyncio

import pytest

from scheduler_service.hosts.tasks import LightTasks
from scheduler_service.pacing.room import Room


async def test_units_are_given_in_the_order_of_asking() -> None:
    """One who wants few does not pass one who wants many; who wants more than there are gets all."""
    room = Room(3)
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


async def test_who_gives_up_makes_way() -> None:
    """Those behind it do not wait for it."""
    room = Room(2)
    await room.take(1)
    many, few = (asyncio.ensure_future(room.take(units)) for units in (2, 1))
    await asyncio.sleep(0)
    many.cancel()
    assert await few == 1


async def test_who_is_cancelled_with_its_room_gives_it_back() -> None:
    """It was let in, and has not gone on yet."""
    room = Room(1)
    taken = await room.take(1)
    waiting = asyncio.ensure_future(room.take(1))
    await asyncio.sleep(0)
    room.give_back(taken)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await room.take(1) == 1


async def test_a_light_task_waits_and_gives_up_as_a_task_does() -> None:
    """Calls in flight are light ones; a cancelled one takes no room."""
    room, tasks, had = Room(1), LightTasks(), []

    async def take() -> None:
        had.append(await room.take(1))

    taken = await room.take(1)
    given_up, _ = tasks.start(take()), tasks.start(take())
    given_up.cancel()
    room.give_back(taken)
    await tasks.wait_for_all()
    assert had == [1]
    let_in = tasks.start(take())
    room.give_back(1)
    let_in.cancel()
    await tasks.wait_for_all()
    assert had == [1]
    assert await room.take(1) == 1
