"""Answers that are no scheduler's: endless, deep, broken. Each is `Unreadable`, and the program goes on."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Iterable

import httpx
import pytest

from client_sdk.client.answering import LONGEST_TEXT
from client_sdk.client.connection import LARGEST_ANSWER, Connection
from client_sdk.client.queues import Queues
from client_sdk.client.retrying import Patience
from client_sdk.client.services import Services
from client_sdk.errors import Invalid, SdkError, Unavailable, Unreachable, Unreadable
from tests.rows import each_row
from tests.unit.client_sdk.client.lossy_connection import Line
from tests.unit.client_sdk.lines import LossyLine

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


@each_row("body", [b"[" * 100_000, b'{"data":' * 50_000, b"9" * 10_000, b"\xff"])
async def test_an_answer_that_no_parser_reads_is_unreadable(body: bytes) -> None:
    """Nested without end, a number without end, no text."""
    with pytest.raises(Unreadable, match="not as a"):
        await Line(None, httpx.Response(200, content=body)).jobs.get("one")


async def test_an_answer_in_a_broken_coding_is_unreadable() -> None:
    """Its Content-Encoding is not true."""
    answer = httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Stream([b"no gzip"]))
    with pytest.raises(Unreadable, match="not as a"):
        await Line(None, answer).jobs.get("one")


@each_row("coding", ["gzip, gzip", "br", "zstd"])
async def test_an_answer_in_codings_that_were_not_asked_for_is_not_unpacked(coding: str) -> None:
    """Of two layers of gzip 64 KiB are 64 GiB, in one call of a library that decodes what it is told."""
    packed = gzip.compress(gzip.compress(bytes(LARGEST_ANSWER)))
    answer = httpx.Response(200, headers={"Content-Encoding": coding}, stream=Stream([packed]))
    line = Line(None, answer)
    with pytest.raises(Unreadable, match="not asked for"):
        await line.jobs.get("one")
    assert line.line.sent[0].headers["accept-encoding"] == "gzip, deflate"


@each_row("bits", [31, 15, -15])
async def test_an_answer_in_a_coding_that_was_asked_for_is_read(bits: int) -> None:
    """Gzip, zlib, and deflate without the head of zlib."""
    packer = zlib.compressobj(wbits=bits)
    packed = packer.compress(json.dumps({"data": {"jobId": "one", "state": "destroyed"}}).encode())
    packed += packer.flush()
    headers = {"Content-Encoding": "gzip" if bits > 15 else "deflate"}
    answer = httpx.Response(200, headers=headers, stream=Stream([packed[:9], packed[9:]]))
    assert (await Line(None, answer).jobs.destroy("one")).state == "destroyed"


async def test_an_answer_that_comes_byte_by_byte_is_left() -> None:
    """The HTTP timeout begins anew with each of them."""

    class Slow(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                yield b" "
                await asyncio.sleep(0)

    connection = Connection(
        url="http://scheduler.test",
        key=None,
        timeout=0.01,
        patience=Patience(retries=0),
        transport=LossyLine(
            httpx.MockTransport(lambda _: httpx.Response(500)), [httpx.Response(200, stream=Slow())]
        ),
        answer_seconds=0.01,
    )
    with pytest.raises(Unreachable, match="no whole answer"):
        await connection.send("GET", "/jobs/one")


@each_row(
    "date",
    [
        "Mon, 01 Jan 99999999999999999999 00:00:00 GMT",
        "Mon, 01 Jan 2024 00:00:00 +999999999999999999",
    ],
)
async def test_a_moment_that_no_clock_has_is_no_wait(date: str) -> None:
    """The program goes on, and asks again as usual."""
    refused = httpx.Response(503, headers={"retry-after": date}, json={"resp_code": 503, "detail": "no"})
    with pytest.raises(Unavailable):
        await Line(None, refused, retries=0).jobs.get("one")


async def test_a_refused_claim_whose_body_is_too_deep_is_not_repeated() -> None:
    """It may have taken effect."""
    line = Line(None, httpx.Response(503, content=b"[" * 100_000))
    with pytest.raises(Unreadable):
        await Queues(line.connection).claim("work", instance_id="one")
    assert len(line.line.sent) == 1


@each_row("data", [None, 5, [], "text", {}, {"items": [1] * 1_000}])
async def test_data_of_another_kind_is_unreadable(data: object) -> None:
    """Whatever stands where an object should, the call ends with an error of the SDK."""
    answers = [httpx.Response(200, json={"resp_code": 200, "data": data, "warnings": 5}) for _ in range(2)]
    connection = Line(None, *answers).connection
    with pytest.raises(SdkError):
        await Queues(connection).claim("work", instance_id="one")
    with pytest.raises(SdkError):
        await Services(connection).register("one", "two", {})


async def test_texts_of_a_problem_are_cut() -> None:
    """They go into logs; one that is no text is none."""
    error, long = {"pointer": "/a", "code": "invalid", "message": "no"}, "x" * 100_000
    errors = [{**error, "message": long}, *([error] * 20_000)]
    body = {"resp_code": 422, "title": [[[]]], "detail": long, "errors": errors}
    with pytest.raises(Invalid) as refused:
        await Line(None, httpx.Response(422, json=body)).jobs.get("one")
    assert len(refused.value.detail) == len(refused.value.errors[0].message) == LONGEST_TEXT
    assert len(refused.value.errors) == 10_000
