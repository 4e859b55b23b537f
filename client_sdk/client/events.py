"""`client.events`: what happens, as it happens, over cut connections and restarts (docs/events.md)."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import httpx

from client_sdk.client.connection import Connection, parse
from client_sdk.client.jobs import write_labels
from client_sdk.client.results import SomeExecution, id_of
from client_sdk.decoding import read_decoded
from client_sdk.errors import Problem, Unreachable, Unreadable
from client_sdk.models import answers

SILENCE_SECONDS = 45.0
"""So long nothing may come: the service says every 15 s that it is there."""
LARGEST_FRAME = 1 << 20
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
COME_LATER = frozenset({429, 502, 503, 504})


class EventFrameReader:
    """Cuts frames out of a stream of bytes, and remembers the last id and the pause that was asked for."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        self._id = last_id
        self.pause: float | None = None
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """The `data` of each frame that is complete. Raises Unreadable for one that is far too long."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            text = line.removesuffix(b"\r")
            if text:
                self._take(text)
                self._size += len(line) + 1
                _check_size(self._size)
                continue
            self._size = 0
            self.last_id = self._id  # half a frame of a connection that is cut does not count
            if self._data:
                data, self._data = b"\n".join(self._data), []
                yield data
        _check_size(self._size + len(self._rest))

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"id":
                text = value.decode(errors="replace")
                if text.isascii() and text.isprintable():  # else no header can have it
                    self._id = text
            case b"retry" if value.isdigit():
                self.pause = int(value[:9]) / 1_000


class EventStream:
    """Events of one service from one moment on; it connects again by itself, and continues where it was."""

    def __init__(self, *, connection: Connection, query: Mapping[str, Any], after: str | None) -> None:
        self._connection = connection
        self._query = query
        self._reader = EventFrameReader(after)
        self._failures = 0

    async def events(self) -> AsyncIterator[answers.Event]:
        """Raises Problem for what the service refuses; Unreachable where it was not there from the start."""
        was_open = False
        while True:
            try:
                answer = await self._open()
                was_open, self._failures = True, 0
                async for event in self._read(answer):
                    yield event
            except Unreachable:
                if not was_open:
                    raise
            except Problem as problem:
                if problem.status not in COME_LATER:
                    raise
            except httpx.HTTPError:
                pass
            await self._connection.pause(self._next_pause())

    async def _open(self) -> httpx.Response:
        headers = {"Accept": "text/event-stream"}
        if self._reader.last_id is not None:
            headers["Last-Event-ID"] = self._reader.last_id
        return await self._connection.open("/events", self._query, headers, silence=SILENCE_SECONDS)

    async def _read(self, answer: httpx.Response) -> AsyncIterator[answers.Event]:
        try:
            async for piece in read_decoded(answer):
                for data in self._reader.feed(piece):
                    yield _parse(data, self._reader.last_id)
        finally:
            await answer.aclose()
            self._reader = _begin_again(self._reader)

    def _next_pause(self) -> float:
        self._failures += 1
        asked = self._reader.pause or FIRST_PAUSE
        return float(min(asked * 2 ** min(self._failures - 1, 10), LONGEST_PAUSE))


def write_filters(
    kinds: Sequence[str],
    jobs: str | Sequence[str] | None,
    execution: SomeExecution | None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The query of the stream."""
    return {
        "event": list(kinds),
        "jobId": [jobs] if isinstance(jobs, str) else list(jobs or ()),
        "executionId": None if execution is None else id_of(execution),
        "label": write_labels(labels),
    }


def _begin_again(reader: EventFrameReader) -> EventFrameReader:
    """Half a frame of a cut connection is forgotten."""
    fresh = EventFrameReader(reader.last_id)
    fresh.pause = reader.pause
    return fresh


def _check_size(size: int) -> None:
    """Of all lines of a frame, whatever they say. Raises Unreadable."""
    if size > LARGEST_FRAME:
        raise Unreadable("the stream of events has a frame of more than 1 MiB")


def _parse(data: bytes, last_id: str | None) -> answers.Event:
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        raise Unreadable("the stream of events has data that is not JSON") from None
    if not isinstance(members, dict):
        raise Unreadable("the stream of events has data that is not an object")
    return parse(answers.Event, {**members, "id": last_id})
