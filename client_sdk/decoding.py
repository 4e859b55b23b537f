"""The body of an answer, decoded piece by piece: a few KiB may unpack to gigabytes, in two layers to more."""

import zlib
from collections.abc import AsyncIterator, Iterator

import httpx

CODINGS = "gzip, deflate"
"""What to ask for with `Accept-Encoding`; what comes in another coding is not decoded."""

OF_THE_CODING = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})
"""Headers that describe how a body came."""

PIECE_BYTES = 1 << 16
_AUTOMATIC = zlib.MAX_WBITS | 32
"""Windows of gzip and of zlib, by their heads."""


async def read_decoded(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it comes, in pieces of at most 64 KiB where it is decoded. Raises httpx.DecodingError.

    What comes in several codings, or in one that was not asked for, is given as it came.
    """
    if answer.is_stream_consumed:  # one that was made here
        yield answer.content
        return
    coding = coding_of(answer)
    if coding not in ("gzip", "x-gzip", "deflate"):
        async for piece in answer.aiter_raw():
            yield piece
        return
    inflater = _Inflater(coding)
    try:
        async for piece in answer.aiter_raw():
            for unpacked in inflater.feed(piece):
                yield unpacked
    except zlib.error as error:
        raise httpx.DecodingError(f"the body is not {coding}: {error}", request=answer.request) from None


def coding_of(answer: httpx.Response) -> str:
    """Its `Content-Encoding` in lower case; empty: none."""
    coding = answer.headers.get("content-encoding", "").strip().lower()
    return "" if coding == "identity" else coding


def is_decoded(answer: httpx.Response) -> bool:
    """Whether `read_decoded` gives what the sender meant."""
    return answer.is_stream_consumed or coding_of(answer) in ("", "gzip", "x-gzip", "deflate")


def with_body(answer: httpx.Response, body: bytes) -> httpx.Response:
    """The same answer with its decoded body, and without headers that say how it came."""
    kept = [(name, value) for name, value in answer.headers.raw if name.lower() not in OF_THE_CODING]
    return httpx.Response(
        answer.status_code,
        headers=kept,
        content=body,
        request=answer.request,
        extensions=answer.extensions,
    )


class _Inflater:
    def __init__(self, coding: str) -> None:
        self._decoder = zlib.decompressobj(_AUTOMATIC)
        self._may_be_raw = coding == "deflate"  # many senders leave out the head of zlib

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """What it unpacks to. Raises zlib.error."""
        while piece and not self._decoder.eof:
            try:
                unpacked = self._decoder.decompress(piece, PIECE_BYTES)
            except zlib.error:
                if not self._may_be_raw:
                    raise
                self._decoder, self._may_be_raw = zlib.decompressobj(-zlib.MAX_WBITS), False
                continue
            self._may_be_raw = False
            piece = self._decoder.unconsumed_tail
            if unpacked:
                yield unpacked
