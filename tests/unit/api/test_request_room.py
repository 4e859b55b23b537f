"""A request that finds no room waits in line (`pacing.room`), and not for ever."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import httpx
import pytest
from starlette.types import Message

from scheduler_service.api.request_room import (
    LARGE_BYTES,
    ROOM_BYTES,
    SMALL_BYTES,
    LargeAnswers,
    WaitingLine,
    take_place,
    waiting_room,
    weigh,
)
from scheduler_service.api.responses import ApiProblem
from tests.unit.api.world import World, pointers


async def test_who_waits_too_long_is_told_what_is_full() -> None:
    """503 with `Retry-After`; what comes back later is not lost."""
    room = waiting_room(1, wait_seconds=0)
    place = await take_place(room, 1, "")
    with pytest.raises(ApiProblem, match="full of tests") as caught:
        await take_place(room, 1, "full of tests")
    assert ("retry-after", "1") in caught.value.headers
    place.leave()
    assert (await take_place(room, 1, "")).is_granted


FOREVER = 3_600.0


class Reader:
    """A caller who reads up to a part of an answer, and goes on when told."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.got: list[Message] = []

    async def send(self, message: Message) -> None:
        """As a connection does: what comes after a large part waits until that is read."""
        if self.got and len(self.got[-1].get("body", b"")) > LARGE_BYTES:
            await self.goes_on.wait()
        self.got.append(message)


def body(size: int, *, more: bool = False) -> Message:
    """A message with a part of an answer."""
    return {"type": "http.response.body", "body": b"x" * size, "more_body": more}


async def test_a_large_answer_keeps_its_place_until_it_is_read() -> None:
    """It is one message for the caller; the next caller waits in line."""
    answers, reader = LargeAnswers(most=1, hold_seconds=FOREVER), Reader()
    place = await answers.take(reader.send)
    sending = asyncio.ensure_future(place.send(body(LARGE_BYTES + 1)))
    waiting = asyncio.ensure_future(answers.take(reader.send))
    await asyncio.sleep(0)
    assert not sending.done()
    reader.goes_on.set()
    await sending
    place.give_back()
    place.give_back()
    (await waiting).give_back()
    sizes = [(len(message["body"]), message["more_body"]) for message in reader.got]
    assert sizes == [(LARGE_BYTES + 1, True), (0, False)]


async def test_a_small_answer_waits_for_nobody() -> None:
    """It is passed on as it came, in pieces too."""
    answers, reader = LargeAnswers(most=1, hold_seconds=FOREVER), Reader()
    place = await answers.take(reader.send)
    messages = [body(LARGE_BYTES, more=True), body(LARGE_BYTES)]
    for message in messages:
        await place.send(message)
    place.give_back()
    assert reader.got == messages


async def test_one_that_is_not_read_loses_its_place() -> None:
    """Its answer waits on, and the next caller is let in once."""
    answers, reader = LargeAnswers(most=1, hold_seconds=0), Reader()
    place = await answers.take(reader.send)
    sending = asyncio.ensure_future(place.send(body(LARGE_BYTES + 1)))
    second = await answers.take(reader.send)
    assert not sending.done()
    place.give_back()
    third = asyncio.ensure_future(answers.take(reader.send))
    await asyncio.sleep(0)
    assert not third.done()
    second.give_back()
    (await third).give_back()
    reader.goes_on.set()
    await sending


async def test_who_waits_too_long_is_told_to_come_again() -> None:
    """503 `busy`, with `Retry-After`; what is small, or refused in any case, is answered at once."""
    answers, reader = LargeAnswers(most=1, hold_seconds=FOREVER, wait_seconds=0), Reader()
    place = await answers.take(reader.send)
    with pytest.raises(ApiProblem) as caught:
        await answers.take(reader.send)
    assert caught.value.status is HTTPStatus.SERVICE_UNAVAILABLE
    async with World(large_answers=dict.fromkeys(WaitingLine, answers)).client() as client:
        refused = await client.get("/deliveries")
        assert (refused.status_code, pointers(refused)) == (503, [("", "busy")])
        assert refused.headers["retry-after"] == "1"
        assert (await client.get("/stats")).status_code == 200
        assert (await client.head("/deliveries")).status_code == 503
        assert (await client.get("/deliveries?limit=no")).status_code == 422
        assert (await client.get(f"/jobs/{'x' * 300}")).status_code == 422
        place.give_back()
        for _ in range(2):
            assert (await client.get("/deliveries")).status_code == 200
            assert (await client.get("/deliveries?limit=no")).status_code == 422


async def test_what_reads_the_state_does_not_wait_for_the_history() -> None:
    """Where that is slow or locked, jobs are shown all the same."""
    full = LargeAnswers(most=1, hold_seconds=FOREVER, wait_seconds=0)
    await full.take(Reader().send)
    lines = {WaitingLine.STATE: LargeAnswers(), WaitingLine.HISTORY: full}
    async with World(large_answers=lines).client() as client:
        assert (await client.get("/jobs")).status_code == 200
        assert (await client.get("/jobs/none")).status_code == 404
        children = "/main/getChildJobLogs?parentJobId=p&execution=1"
        for path in ("/deliveries", "/executions/u1-1", "/executions/u1-1/log", children):
            assert (await client.get(path)).status_code == 503, path


LARGE = SMALL_BYTES + 1


def test_a_body_of_any_size_fits() -> None:
    """The largest that the API takes, once, and several of 1 MiB at a time."""
    assert weigh(SMALL_BYTES) == 0
    assert 2 * weigh(4 << 20) < ROOM_BYTES
    assert 3 * weigh(1 << 20) < ROOM_BYTES


async def test_requests_give_back_what_they_took() -> None:
    """Whatever became of them, with a length or without."""
    room = waiting_room(weigh(1 << 20), wait_seconds=0)
    async with World(body_room=room).client() as client:
        for _ in range(3):
            for content in (b"[" * LARGE, b'{"a":"%s"}' % (b"x" * LARGE)):
                assert (await send(client, content)).status_code in (400, 422)
                assert (await send(client, parts(content))).status_code in (400, 422)
        place = await room.take(weigh(LARGE))
        refused = await send(client, b"[" * (1 << 20))
        assert (refused.status_code, pointers(refused)) == (503, [("", "busy")])
        place.leave()


async def send(client: httpx.AsyncClient, content: bytes | AsyncIterator[bytes]) -> httpx.Response:
    """A body for a job."""
    headers = {"content-type": "application/json"}
    return await client.post("/jobs/j", content=content, headers=headers)


async def parts(content: bytes) -> AsyncIterator[bytes]:
    """The same in pieces, without a length."""
    yield content[:100]
    yield content[100:]
