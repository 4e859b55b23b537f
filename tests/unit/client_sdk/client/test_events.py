"""`client.events`: frames are read as they come, and a cut connection loses nothing."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from client_sdk import Client
from client_sdk.client.call_retries import Patience
from client_sdk.client.events import LARGEST_FRAME, EventFrameReader, EventStream
from client_sdk.errors import Invalid, Unreachable, Unreadable
from client_sdk.models import answers
from tests.rows import each_row
from tests.unit.client_sdk.lines import Waits, connect
from tests.wire.event_stream import listening
from tests.wire.service import definition, running


class Pieces(httpx.AsyncByteStream):
    """A body in pieces; None: the connection is cut there."""

    def __init__(self, pieces: list[bytes | None]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            if piece is None:
                raise httpx.ReadError("cut")
            yield piece


class Service(httpx.AsyncBaseTransport):
    """Answers as the test says, one answer after the other, and notes what it was asked."""

    def __init__(self, *answers: list[bytes | None] | tuple[int, dict[str, object]] | None) -> None:
        self._answers = list(answers)
        self.asked: list[str | None] = []
        self.waits = Waits()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.headers.get("last-event-id"))
        answer = self._answers.pop(0)
        if answer is None:
            raise httpx.ConnectError("nobody is there")
        if isinstance(answer, tuple):
            return httpx.Response(answer[0], json=answer[1])
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        return httpx.Response(200, headers=headers, stream=Pieces(answer))

    def follow(self, after: str | None = None) -> AsyncIterator[answers.Event]:
        return EventStream(connection=connect(self, Patience(), self.waits), query={}, after=after).events()


def frame(number: int) -> bytes:
    data = {"kind": "started", "at": "2026-01-01T00:00:00.000Z", "executeNumber": number}
    return f"id: 7-{number}\nevent: started\ndata: {json.dumps(data)}\n\n".encode()


def problem(status: int, code: str) -> tuple[int, dict[str, object]]:
    errors = [{"pointer": "/event", "code": code, "message": "no"}]
    return status, {"resp_code": status, "resp_msg": "no", "detail": "no", "status": status, "errors": errors}


@each_row("size", [1, 7, 1_000])
def test_frames_are_cut_wherever_the_pieces_end(size: int) -> None:
    """Comments and unknown fields are left out; an id without data counts; both ends of lines are read."""
    text = b": hello\nretry: 1500\nid: 7-1\n\nevent: x\r\nwhat: y\r\ndata: a\r\ndata: b\r\n\r\n"
    text += b": heartbeat\nid: 7-9\n\n"
    reader = EventFrameReader()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert [data for piece in pieces for data in reader.feed(piece)] == [b"a\nb"]
    assert (reader.last_id, reader.pause) == ("7-9", 1.5)


def test_a_frame_without_an_end_is_refused() -> None:
    """Memory is bounded."""
    reader = EventFrameReader()
    half = b"x" * (LARGEST_FRAME // 2)
    assert list(reader.feed(half)) == []
    with pytest.raises(Unreadable, match="1 MiB"):
        list(reader.feed(half + b"x"))
    # A stream may go on for ever: what was read of it does not count
    reader, data = EventFrameReader(), b"x" * (LARGEST_FRAME // 2)
    for _ in range(5):
        assert list(reader.feed(b"data: " + data + b"\n\n")) == [data]


@each_row("line", [b"data:\n", b"data: x\n", b":\n", b"what: y\n"])
def test_a_frame_of_lines_without_an_end_is_refused(line: bytes) -> None:
    """Also where they say nothing."""
    reader = EventFrameReader()
    half = line * (LARGEST_FRAME // len(line) // 2)
    assert list(reader.feed(half)) == []
    with pytest.raises(Unreadable, match="1 MiB"):
        list(reader.feed(half + 2 * line))


async def test_an_id_that_no_header_can_have_does_not_count() -> None:
    """It would make every further connection impossible."""
    service = Service([b"id: 7-1\n\nid: \xc3\xa9\n\nid: 7\x01\n\n"], [frame(2)])
    await anext(service.follow())
    assert service.asked == [None, "7-1"]
    # One that is nested too deep is unreadable, as one that is not JSON
    with pytest.raises(Unreadable, match="not JSON"):
        await anext(Service([b"data: " + b"[" * 100_000 + b"\n\n"]).follow())


async def test_after_a_cut_it_goes_on_where_it_was() -> None:
    """With the last id, half a frame forgotten, after the pause that the service asks for."""
    service = Service([b"retry: 1500\n\n", frame(1), frame(2)[:20], None], None, [frame(2)])
    events = service.follow()
    found = [await anext(events), await anext(events)]
    assert [(event.id, event.execute_number) for event in found] == [("7-1", 1), ("7-2", 2)]
    assert service.asked == [None, "7-1", "7-1"]
    assert service.waits.seconds == [1.5, 3.0]
    # `after` is the first `Last-Event-ID`
    service = Service([frame(6)])
    assert (await anext(service.follow(after="7-5"))).id == "7-6"
    assert service.asked == ["7-5"]
    # 429 and 503 pass
    service = Service(problem(429, "limit"), problem(503, "unavailable"), [frame(1)])
    assert (await anext(service.follow())).id == "7-1"
    assert len(service.waits.seconds) == 2


async def test_what_does_not_pass_is_raised() -> None:
    """A refusal, a service that was never there, and one that is none."""
    with pytest.raises(Invalid):
        await anext(Service(problem(422, "invalid")).follow())
    with pytest.raises(Unreachable):
        await anext(Service(None).follow())
    with pytest.raises(Unreadable):
        await anext(Service((200, {"hello": "world"})).follow())


async def test_a_real_service_tells_its_client_what_happens() -> None:
    """With filters; the iterator ends with the client's wish."""
    async with running() as world, listening(world) as api, Client(api.url) as client:
        events = client.events(kinds=["jobCreated", "finalSucceed"], job_id="two", after="0-1")
        gap = await anext(events)
        assert (gap.kind, gap.count) == ("gap", None)
        for name in ("one", "two"):
            await world.client.post(f"/jobs/{name}", json=definition())
            await world.client.post(f"/jobs/{name}/trigger")
        found = [await anext(events), await anext(events)]
        assert [(event.kind, event.job_id) for event in found] == [
            ("jobCreated", "two"),
            ("finalSucceed", "two"),
        ]
        labelled = client.events(labels={"team": "ops"}, after="0-1")
        assert (await anext(labelled)).kind == "gap"
        await world.client.post("/jobs/three", json=definition(labels={"team": "ops"}))
        assert (await anext(labelled)).job_id == "three"
