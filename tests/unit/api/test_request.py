"""The body of a request, what is read once for many, and the room of requests (SPEC sections 10, 14)."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import httpx
import pytest
from starlette.types import Message

from scheduler_service.api.request import preferred
from scheduler_service.api.request_keys import FeedbackKeys
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
from scheduler_service.engine.decision import Job
from scheduler_service.engine.feedback_url import feedback_token
from tests.rows import each_row
from tests.unit.api.world import KEY, World, definition, pointers

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"]
)
async def test_a_body_is_json_by_its_type(client: httpx.AsyncClient, kind: str | None) -> None:
    """415 wrong type: no web page can post (SPEC sections 10, 14)."""
    headers = {} if kind is None else {"Content-Type": kind}
    response = await client.post("/jobs/j1", content=json.dumps(definition()), headers=headers)
    assert (response.status_code, pointers(response)) == (415, [("/Content-Type", "media_type")])


@each_row("coding", ["gzip", "br", "gzip, identity", "x" * 1_000])
async def test_a_packed_body_is_refused_unread(coding: str) -> None:
    """Nothing is unpacked, and nothing is said of malformed JSON; `identity` is no coding."""
    async with World().client() as client:
        headers = {"Content-Type": "application/json", "Content-Encoding": coding}
        response = await client.post("/jobs/one", content=gzip.compress(b"{}"), headers=headers)
        assert (response.status_code, pointers(response)) == (415, [("/Content-Encoding", "coding")])
        assert len(response.json()["detail"]) < 200
        headers["Content-Encoding"] = "identity"
        assert (await client.post("/jobs/one", json=definition(), headers=headers)).status_code == 201


async def test_a_type_may_name_its_charset(client: httpx.AsyncClient) -> None:
    """`application/json; charset=utf-8` is JSON."""
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    response = await client.post("/jobs/j1", content=json.dumps(definition()), headers=headers)
    assert response.status_code == 201


async def test_a_long_body_is_read_as_it_is(client: httpx.AsyncClient) -> None:
    """Its pieces are joined beside the loop; the same under a key is the same request."""
    many = [definition(jobId=f"j{number}", jobDescription="x" * 700_000) for number in range(3)]
    text = json.dumps(many).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(text), 65_536):
            yield text[start : start + 65_536]

    for _ in range(2):
        response = await client.post("/jobs", content=pieces(), headers=JSON | {"Idempotency-Key": "a"})
        assert [one["status"] for one in response.json()["data"]["items"]] == ["created"] * 3
    text = text.replace(b"xx", b"yy", 1)
    other = await client.post("/jobs", content=pieces(), headers=JSON | {"Idempotency-Key": "a"})
    assert pointers(other) == [("/Idempotency-Key", "key_reused")]


async def test_a_body_has_a_limit_announced_or_not() -> None:
    """413 too large: `limits.body_bytes`, more for arrays (SPEC section 10)."""
    world = World(body_bytes=600, array_bytes=2_000)
    large = json.dumps(definition(jobDescription="x" * 600)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 100):
            yield large[start : start + 100]

    async with world.client() as client:
        assert (await client.post("/jobs/j1", content=large, headers=JSON)).status_code == 413
        assert (await client.post("/jobs/j1", content=pieces(), headers=JSON)).status_code == 413
        half = json.dumps(definition(jobId="j2", jobDescription="x" * 300)).encode()
        many = b"[" + b",".join([half, half.replace(b"j2", b"j3")]) + b"]"
        assert len(half) < 600 < len(many)
        assert (await client.post("/jobs", content=many, headers=JSON)).status_code == 200
        one = await client.post("/jobs", content=b"[" + half + b"," + large + b"]", headers=JSON)
        assert (one.status_code, pointers(one)) == (413, [("/1", "too_large")])
        assert (await client.post("/jobs", content=b" " * 2_001, headers=JSON)).status_code == 413


@each_row(
    ("header", "language"),
    [
        (None, "en"),
        ("", "en"),
        ("zh-CN", "zh"),
        ("ZH", "zh"),
        ("fr, zh-Hans;q=0.4", "zh"),
        ("zh;q=0.2, en-GB;q=0.9", "en"),
        ("en;q=0.5, zh;q=0.9", "zh"),
        ("zh;q=0", "en"),
        ("en;q = 0.5, zh ; Q=0.9", "zh"),
        ("zh;q=much", "en"),
        ("*, fr", "en"),
        (",;;=,", "en"),
    ],
)
def test_the_best_liked_of_those_that_there_are(header: str | None, language: str) -> None:
    """By quality, the first among equals; English where nothing fits or can be read."""
    assert preferred(header) == language


JSON_TYPE = {"Content-Type": "application/json"}


class Body:
    """A body that knows how much of it was read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.read < self.size:
            self.read += 1_000
            yield b"[" * 1_000


async def begin(world: World) -> str:
    """A job whose attempt waits for feedback; its `uid`."""
    async with world.client() as client:
        data = (await client.post("/jobs/j1", json=definition(**{"async": True}))).json()["data"]
        await client.post("/jobs/j1/trigger")
        await world.answer_calls()
    return str(data["uid"])


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/jobs/j1/feedback/1?token=wrong", 403, "forbidden"),
        ("/jobs/j1/feedback/1", 403, "forbidden"),
        ("/jobs/none/feedback/1?token=wrong", 404, "absent"),
    ],
)
async def test_a_report_without_its_token_is_refused_unread(
    world: World, path: str, status: int, code: str
) -> None:
    """Nothing of its body is asked for, and no turn is taken."""
    await begin(world)
    turns, body = world.turns, Body(100_000)
    async with world.client() as client:
        refused = await client.post(path, content=body, headers=JSON_TYPE)
    assert refused.status_code == status
    assert [found for _, found in pointers(refused)] == [code]
    assert (body.read, world.turns) == (0, turns)


async def test_a_report_is_at_most_64_kib(world: World) -> None:
    """The setting `limits.feedback_bytes`; the text of a report counts as it is."""
    token = feedback_token(KEY, await begin(world), 1)
    async with world.client() as client:
        for size, status in ((65_536, 200), (65_537, 413)):
            report: dict[str, Any] = {"status": "", "data": ""}
            report["data"] = "x" * (size - len(json.dumps(report)))
            answer = await client.post(
                f"/jobs/j1/feedback/1?token={token}", content=json.dumps(report), headers=JSON_TYPE
            )
            assert answer.status_code == status


async def test_many_reports_read_the_job_once(world: World) -> None:
    """Good ones and bad ones; a new life of the job is read anew, and old tokens fit no more."""
    reads: list[str] = []

    async def read(job_id: str) -> Job | None:
        reads.append(job_id)
        return await read_before(job_id)

    read_before, world.read, keys = world.read, read, FeedbackKeys(world, world.catalogue)  # type: ignore[method-assign]
    old = feedback_token(KEY, await begin(world), 1)
    for _ in range(3):
        await keys.check("j1", 1, old)
        with pytest.raises(ApiProblem, match="does not belong to requestCounts 1"):
            await keys.check("j1", 1, "wrong")
    assert reads == ["j1"]
    async with world.client() as client:
        await client.delete("/jobs/j1")
    await keys.check("j1", 1, old)  # the turn refuses it
    with pytest.raises(ApiProblem, match="there is no job"):
        await keys.check("j1", 1, "wrong")
    new = feedback_token(KEY, await begin(world), 1)
    await keys.check("j1", 1, new)
    with pytest.raises(ApiProblem, match="does not belong"):
        await keys.check("j1", 1, old)
    assert reads == ["j1", "j1"]


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
    # A small answer waits for nobody: it is passed on as it came, in pieces too
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
