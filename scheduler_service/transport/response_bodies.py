"""The body of a response as it arrives: decoded and kept up to a limit, with never more in memory."""

import zlib

from scheduler_service.transport.errors import ConnectFailed

_ENCODED_SLACK_BYTES = 65_536  # encoded bytes beyond the limit after which reading stops
_MAX_MEMBERS = 64  # gzip members of one body


class PlainBody:
    """Keeps the first `limit` bytes; `truncated`: there were more."""

    __slots__ = ("_limit", "_pieces", "_size", "truncated")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self.truncated = False

    def take(self, data: bytes) -> None:
        """Adds a piece; bytes over the limit are dropped."""
        room = self._limit - self._size
        if len(data) > room:
            self.truncated = True
            data = data[:room]
        self._pieces.append(data)
        self._size += len(data)

    def end(self) -> bytes:
        """The whole body, or its first `limit` bytes."""
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


class EncodedBody:
    """Decodes gzip or deflate (RFC 9110 8.4.1) piece by piece, to at most `limit` bytes."""

    __slots__ = ("_coding", "_decoder", "_intake", "_limit", "_members", "_plain")

    def __init__(self, limit: int, coding: str) -> None:
        self._coding = coding
        self._limit = limit
        self._plain = PlainBody(limit)
        self._decoder: zlib._Decompress | None = None
        self._intake = 0
        self._members = 0

    @property
    def truncated(self) -> bool:
        """True when there is more than the limit."""
        return self._plain.truncated

    def take(self, data: bytes) -> None:
        """Decodes a piece. Raises ConnectFailed if the data does not have its declared coding."""
        self._intake += len(data)
        self._plain.truncated |= self._intake > self._limit + _ENCODED_SLACK_BYTES
        while data and not self._plain.truncated:
            decoder = self._open(data)
            try:
                self._plain.take(decoder.decompress(data, self._limit + 1))
            except zlib.error:
                raise self._broken("is broken") from None
            data = decoder.unused_data

    def end(self) -> bytes:
        """The decoded body. Raises ConnectFailed when it ended too early."""
        if not self.truncated and self._decoder is not None and not self._decoder.eof:
            raise self._broken("ends too early")
        return self._plain.end()

    def _open(self, data: bytes) -> "zlib._Decompress":
        """The decoder of the current member; gzip allows several, one after the other."""
        decoder = self._decoder
        if decoder is None or decoder.eof:
            self._members += 1
            if self._members > _MAX_MEMBERS:
                raise self._broken(f"has more than {_MAX_MEMBERS} parts")
            decoder = self._decoder = zlib.decompressobj(_window(self._coding, data))
        return decoder

    def _broken(self, how: str) -> ConnectFailed:
        return ConnectFailed(f"The answer's {self._coding} body {how}: check the target's Content-Encoding.")


Body = PlainBody | EncodedBody


def open_body(coding: str, limit: int) -> Body:
    """The body for a Content-Encoding; unknown codings are kept undecoded."""
    if is_decodable(coding):
        return EncodedBody(limit, coding)
    return PlainBody(limit)


def is_decodable(coding: str) -> bool:
    """True for the codings that are decoded."""
    return coding in ("gzip", "x-gzip", "deflate")


def _window(coding: str, data: bytes) -> int:
    if coding != "deflate":
        return 31
    # "deflate" means the zlib format, but some servers send the raw stream: the first byte shows which.
    return 15 if data[0] & 0x0F == 8 else -15
