"""Answers that are no scheduler's: endless, deep, broken. Each is `Unreadable`, and the program goes on."""

import gzip
from collections.abc import AsyncIterator, Iterable

import httpx
import pytest

from client_sdk.client.connection import LARGEST_ANSWER
from client_sdk.errors import Unreadable
from tests.unit.client_sdk.client.lossy_connection import Line

pytestmark = pytest.mark.anyio

MIB = 1 << 20


class Stream(httpx.AsyncByteStream):
    """A body in pieces; `given` counts their bytes."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.given = 0
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.given += len(piece)
            yield piece

    async def aclose(self) -> None:
        self.is_closed = True


def endless(piece: bytes) -> Iterable[bytes]:
    """The same for ever."""
    while True:
        yield piece


async def test_an_answer_without_end_is_left() -> None:
    """After `LARGEST_ANSWER` bytes the connection is closed."""
    stream = Stream(endless(b"[" * MIB))
    with pytest.raises(Unreadable, match="64 MiB"):
        await Line(None, httpx.Response(200, stream=stream)).jobs.get("one")
    assert stream.is_closed
    assert stream.given <= LARGEST_ANSWER + MIB


async def test_an_answer_that_unpacks_without_end_is_left() -> None:
    """What counts is what it takes in memory."""
    packed = gzip.compress(bytes(LARGEST_ANSWER + MIB), compresslevel=1)
    pieces = [packed[start : start + 4_096] for start in range(0, len(packed), 4_096)]
    answer = httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Stream(pieces))
    with pytest.raises(Unreadable, match="64 MiB"):
        await Line(None, answer).jobs.get("one")


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"data":' * 50_000, b"9" * 10_000, b"\xff"])
async def test_an_answer_that_no_parser_reads_is_unreadable(body: bytes) -> None:
    """Nested without end, a number without end, no text."""
    with pytest.raises(Unreadable, match="not as a"):
        await Line(None, httpx.Response(200, content=body)).jobs.get("one")


async def test_an_answer_in_a_broken_coding_is_unreadable() -> None:
    """Its Content-Encoding is not true."""
    answer = httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Stream([b"no gzip"]))
    with pytest.raises(Unreadable, match="not as a"):
        await Line(None, answer).jobs.get("one")
