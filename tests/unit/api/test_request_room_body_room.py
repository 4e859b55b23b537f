"""Large bodies wait in line for memory; small ones never do."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from scheduler_service.api.request_room import ROOM_BYTES, SMALL_BYTES, BodyRoom, weigh
from scheduler_service.api.responses import ApiProblem
from tests.unit.api.world import World, pointers

LARGE = SMALL_BYTES + 1


def test_a_body_of_any_size_fits() -> None:
    """The largest that the API takes, once, and several of 1 MiB at a time."""
    assert weigh(SMALL_BYTES) == 0
    assert weigh(16 << 20) < ROOM_BYTES
    assert 3 * weigh(1 << 20) < ROOM_BYTES


async def test_who_finds_no_room_waits_in_line() -> None:
    """Also one that would fit, where another has come before; small bodies pass."""
    room = BodyRoom(room=2 * weigh(LARGE))
    first = await room.take(LARGE)
    second = asyncio.ensure_future(room.take(2 * LARGE))
    third = asyncio.ensure_future(room.take(LARGE))
    await asyncio.sleep(0)
    assert await room.take(SMALL_BYTES) == 0
    assert not second.done()
    assert not third.done()
    room.give_back(first)
    assert await second == 2 * weigh(LARGE)
    room.give_back(2 * weigh(LARGE))
    assert await third == weigh(LARGE)


async def test_one_beyond_all_room_gets_all_of_it() -> None:
    """Settings may allow larger bodies: they come one at a time."""
    room = BodyRoom(room=weigh(LARGE))
    assert await room.take(9 * LARGE) == weigh(LARGE)


async def test_who_leaves_the_line_keeps_nobody_out() -> None:
    """A caller that hangs up while it waits, also in the moment in which it is let in."""
    room = BodyRoom(room=weigh(LARGE))
    taken = await room.take(LARGE)
    leaving, waiting = (asyncio.ensure_future(room.take(LARGE)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(0)
    room.give_back(taken)
    assert await waiting == taken
    late, last = (asyncio.ensure_future(room.take(LARGE)) for _ in range(2))
    await asyncio.sleep(0)
    room.give_back(taken)
    late.cancel()
    assert await last == taken


async def test_who_waits_too_long_is_told_to_come_again() -> None:
    """503 `busy`, and those behind it still wait."""
    room = BodyRoom(room=weigh(LARGE), wait_seconds=0)
    await room.take(LARGE)
    with pytest.raises(ApiProblem) as caught:
        await room.take(LARGE)
    assert (int(caught.value.status), caught.value.errors[0]["code"]) == (503, "busy")
    assert ("retry-after", "1") in caught.value.headers


async def test_room_that_comes_as_one_hangs_up_goes_to_the_next() -> None:
    """In the same turn of the loop, after it: it ends as cancelled, and no room is lost."""
    room = BodyRoom(room=weigh(LARGE))
    taken = await room.take(LARGE)
    leaving, waiting = (asyncio.ensure_future(room.take(LARGE)) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    room.give_back(taken)
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await waiting == taken


async def test_room_that_comes_as_one_has_waited_too_long_is_not_lost() -> None:
    """In the same turn of the loop, after its time was over: 503, and the room is there for others."""
    room = BodyRoom(room=weigh(LARGE), wait_seconds=0)
    taken = await room.take(LARGE)
    late = asyncio.ensure_future(room.take(LARGE))
    for _ in range(3):  # it begins to wait; its time is over; it is told
        await asyncio.sleep(0)
    room.give_back(taken)
    with pytest.raises(ApiProblem) as caught:
        await late
    assert int(caught.value.status) == 503
    assert await room.take(LARGE) == taken


async def test_requests_give_back_what_they_took() -> None:
    """Whatever became of them, with a length or without."""
    room = BodyRoom(room=weigh(1 << 20), wait_seconds=0)
    async with World(body_room=room).client() as client:
        for _ in range(3):
            for content in (b"[" * LARGE, b'{"a":"%s"}' % (b"x" * LARGE)):
                assert (await send(client, content)).status_code in (400, 422)
                assert (await send(client, parts(content))).status_code in (400, 422)
        taken = await room.take(LARGE)
        refused = await send(client, b"[" * (1 << 20))
        assert (refused.status_code, pointers(refused)) == (503, [("", "busy")])
        room.give_back(taken)


async def send(client: httpx.AsyncClient, content: bytes | AsyncIterator[bytes]) -> httpx.Response:
    """A body for a job."""
    headers = {"content-type": "application/json"}
    return await client.post("/jobs/j", content=content, headers=headers)


async def parts(content: bytes) -> AsyncIterator[bytes]:
    """The same in pieces, without a length."""
    yield content[:100]
    yield content[100:]
