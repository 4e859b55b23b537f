"""A request that finds no room waits in line (`pacing.room`), and not for ever."""

import asyncio

import pytest

from scheduler_service.api.request_room import RequestRoom
from scheduler_service.api.responses import ApiProblem

pytestmark = pytest.mark.anyio


async def test_who_waits_too_long_is_told_what_is_full() -> None:
    """503 with `Retry-After`; what comes back later is not lost."""
    room = RequestRoom(1, busy="full of tests", wait_seconds=0)
    taken = await room.take(1)
    with pytest.raises(ApiProblem, match="full of tests") as caught:
        await room.take(1)
    assert ("retry-after", "1") in caught.value.headers
    room.give_back(taken)
    assert await room.take(1) == 1


async def test_room_that_comes_back_goes_to_who_waits() -> None:
    """In time."""
    room = RequestRoom(2, busy="full")
    taken = await room.take(2)
    waiting = asyncio.ensure_future(room.take(1))
    await asyncio.sleep(0)
    room.give_back(taken)
    assert await waiting == 1
