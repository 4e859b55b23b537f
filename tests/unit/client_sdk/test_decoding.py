"""Bodies of answers are decoded piece by piece."""

import gzip
import zlib
from collections.abc import AsyncIterator

import httpx
import pytest

from client_sdk.decoding import PIECE_BYTES, is_decoded, read_decoded
from tests.rows import each_row

BODY = b"0123456789" * 20_000


class Stream(httpx.AsyncByteStream):
    """A body that comes in two halves."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        middle = len(self.body) // 2
        yield self.body[:middle]
        yield self.body[middle:]


def make_answer(coding: str, body: bytes) -> httpx.Response:
    request = httpx.Request("GET", "http://127.0.0.1/")
    return httpx.Response(200, headers={"Content-Encoding": coding}, stream=Stream(body), request=request)


def deflate(body: bytes) -> bytes:
    """Without the head of zlib."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@each_row(
    ("coding", "packed"),
    [
        ("identity", BODY),
        ("gzip", gzip.compress(BODY)),
        ("X-GZIP ", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", deflate(BODY)),
        ("gzip", gzip.compress(BODY) + b"more"),
    ],
    ids=["identity", "gzip", "x-gzip", "zlib", "bare deflate", "something behind it"],
)
async def test_what_was_asked_for_is_decoded(coding: str, packed: bytes) -> None:
    """In pieces of a bounded size; what stands behind the end is left out."""
    answer = make_answer(coding, packed)
    assert is_decoded(answer)
    pieces = [piece async for piece in read_decoded(answer)]
    assert b"".join(pieces) == BODY
    if coding != "identity":
        assert max(map(len, pieces)) <= PIECE_BYTES


@each_row(
    ("coding", "packed"),
    [("gzip", deflate(BODY)), ("deflate", b"\xff" * 100), ("deflate", zlib.compress(BODY)[:-4] + b"????")],
)
async def test_a_broken_body_is_an_error(coding: str, packed: bytes) -> None:
    """A bare deflate begins at the beginning, and is no gzip."""
    with pytest.raises(httpx.DecodingError, match=f"the body is not {coding}"):
        async for _ in read_decoded(make_answer(coding, packed)):
            pass
