"""The body of a response, as it comes: plain or packed, up to a limit."""

import sys
import zlib

from scheduler_service.transport.errors import ConnectFailed

_ENCODED_SLACK_BYTES = 65_536  # encoded bytes beyond the limit after which reading stops
_MAX_MEMBERS = 64  # gzip members of one body


class PlainBody:
    """Keeps the first `limit` bytes; `truncated`: there were more."""

    __slots__ = ("_limit", "_whole", "truncated")

    is_held = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._whole: bytes | bytearray = b""
        self.truncated = False

    def __len__(self) -> int:
        return len(self._whole)

    def take(self, data: bytes) -> None:
        """Adds a piece; bytes over the limit are dropped."""
        whole = self._whole
        room = self._limit - len(whole)
        if len(data) > room:
            self.truncated = True
            data = data[:room]
        if not whole:
            self._whole = data
            return
        if isinstance(whole, bytes):  # not a list: pieces of a few bytes take twenty times as much
            whole = self._whole = bytearray(whole)
        whole += data

    def admit(self) -> None:
        """Nothing is held back."""

    def end(self) -> bytes:
        """The whole body, or its first `limit` bytes."""
        return bytes(self._whole)  # the same object if it came in one piece


class EncodedBody:
    """Decodes gzip or deflate (RFC 9110 8.4.1) piece by piece, to at most `limit` bytes.

    Beyond `large` decoded bytes it decodes no further (`is_held`) before it is admitted.
    """

    __slots__ = (
        "_coding",
        "_decoder",
        "_held",
        "_intake",
        "_limit",
        "_members",
        "_most",
        "_plain",
        "is_held",
    )

    def __init__(self, limit: int, coding: str, large: int = sys.maxsize) -> None:
        self.is_held = False
        self._coding = coding
        self._limit = limit
        self._most = min(limit, large)
        self._plain = PlainBody(limit)
        self._decoder: zlib._Decompress | None = None
        self._held = b""
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
        if self.is_held:
            self._held += data
            return
        while data and not self._plain.truncated and not self.is_held:
            data = self._decode(data)

    def admit(self) -> None:
        """Decodes what was held back, and holds nothing back any more. Raises ConnectFailed, as `take`."""
        self._most = self._limit
        if not self.is_held:
            return
        self.is_held = False
        data, self._held = self._held, b""
        assert self._decoder is not None
        if not data and not self._decoder.eof:
            self._decode(data)  # it has read all, and not given all
        while data and not self._plain.truncated:
            data = self._decode(data)

    def end(self) -> bytes:
        """The decoded body. Raises ConnectFailed when it ended too early."""
        if not self.truncated and self._decoder is not None and not self._decoder.eof:
            raise self._broken("ends too early")
        return self._plain.end()

    def _decode(self, data: bytes) -> bytes:
        """Decodes with one decoder; what is left for the next."""
        decoder = self._open(data)
        try:
            self._plain.take(decoder.decompress(data, self._most + 1 - len(self._plain)))
        except zlib.error:
            raise self._broken("is broken") from None
        if len(self._plain) > self._most:
            self.is_held = True
            self._held = decoder.unconsumed_tail or decoder.unused_data
        return decoder.unused_data

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


def open_body(coding: str, limit: int, large: int = sys.maxsize) -> Body:
    """The body for a Content-Encoding; unknown codings are kept undecoded."""
    if is_decodable(coding):
        return EncodedBody(limit, coding, large)
    return PlainBody(limit)


def is_decodable(coding: str) -> bool:
    """True for the codings that are decoded."""
    return coding in ("gzip", "x-gzip", "deflate")


def _window(coding: str, data: bytes) -> int:
    if coding != "deflate":
        return 31
    # "deflate" means the zlib format, but some servers send the raw stream: the first byte shows which.
    return 15 if data[0] & 0x0F == 8 else -15
