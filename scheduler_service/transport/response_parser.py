"""Parses the bytes of a response, within limits and without I/O (RFC 9112)."""

import re
import sys

import httptools
import msgspec

from scheduler_service.domain.wire import Headers
from scheduler_service.language.charsets import MARKS, as_utf8, charset_of
from scheduler_service.transport.errors import ConnectFailed
from scheduler_service.transport.response_body import Body, PlainBody, is_decodable, open_body

HEAD_BYTES = 65_536  # status line and headers, including those of interim responses
HEAD_COUNT = 200  # headers of one response, including trailers
_CHUNK_OVERHEAD = 8  # bytes of chunk framing allowed per byte of body
_LARGE_DIGITS = 5  # of the length of a body that may be large
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_ABOUT_BODY = frozenset({"content-encoding", "transfer-encoding"})


class ParsedResponse(msgspec.Struct, frozen=True, gc=False):
    """A whole response; header names in lower case. `truncated`: the body was longer than the limit.

    A text in another charset, as the Content-Type names it, is in UTF-8 here.
    """

    status: int
    headers: Headers
    body: bytes
    truncated: bool


class ResponseParser:
    """Parses the responses of one connection, one after the other; interim ones (1xx) are skipped.

    After `begin`, call `feed` with each read until `is_complete`, then `response`. `is_reusable`: the
    connection may carry another exchange, that is, the body was not truncated, no unexpected byte came, and
    neither side closes. Error messages name `origin`.

    `wanted`: the body is larger than `large` and not complete, and needs so many bytes of memory; 0 once
    `admit` was called. What is packed is not decoded further before that.
    """

    def __init__(self, *, origin: str, limit: int, large: int = sys.maxsize) -> None:
        self.is_complete = False
        self.is_reusable = False
        self.intake = 0
        self.wanted = 0
        self._origin = origin
        self._limit = limit
        self._large = self._most = large
        self._names: dict[bytes, str] = {}
        self._parser: httptools.HttpResponseParser | None = None
        self._is_head = False
        self._failure: ConnectFailed | None = None
        self._body_intake = 0
        self._body: Body | None = None
        self._clear()

    def begin(self, *, method: str) -> None:
        """Prepares for the response to a request of `method`; a response to HEAD has no body."""
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
            # Folded headers are read (RFC 9112 section 5.2); what else this lets in, `_read_head` refuses.
            self._parser.set_dangerous_leniencies(lenient_headers=True)
        self._is_head = method == "HEAD"
        self.is_complete = self.is_reusable = False
        self.intake = self._body_intake = self.wanted = 0
        self._most = self._large
        self._clear()

    def feed(self, data: bytes | memoryview) -> None:
        """Takes the bytes of one read, and keeps no reference to `data`.

        Raises ConnectFailed: not HTTP/1.1, or the head is too long.
        """
        assert self._parser is not None
        self.intake += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise ConnectFailed(f"{self._origin} switched to another protocol unasked.") from None
        except httptools.HttpParserError as error:
            if not self.is_complete:
                raise self._malformed(error) from error
            self.is_reusable = False
        self._check()

    def admit(self) -> None:
        """There is memory for the whole body. Raises ConnectFailed if it cannot be decoded."""
        self._most = sys.maxsize
        self.wanted = 0
        if self._body is not None:
            self._body.admit()
            self.is_complete |= self._body.truncated

    def end(self) -> bool:
        """The stream has ended; True if that completes the response (RFC 9112 section 6.3)."""
        if self._body is not None and not self._is_framed:
            self.is_complete = True
        return self.is_complete

    def response(self) -> ParsedResponse:
        """The response, once it is complete. Raises ConnectFailed if its body cannot be decoded."""
        assert self._body is not None
        if self._is_head:
            self._parser = None  # httptools still expects a body
        is_decoded = self._coding and is_decodable(self._coding)
        head = _describe_decoded(self._head) if is_decoded else tuple(self._head)
        body, is_cut = self._body.end(), self._body.truncated
        if self._charset or body[:2] in MARKS:
            body = as_utf8(body, self._charset, truncated=is_cut)
            body, is_cut = body[: self._limit], is_cut or len(body) > self._limit
        return ParsedResponse(self._status, head, body, is_cut)

    def drop_body(self) -> None:
        """Keeps nothing of a body whose response was taken."""
        self._body = None

    def close(self) -> None:
        """Drops the httptools parser, which refers back to this object: no reference cycle is left."""
        self._parser = None

    def on_message_begin(self) -> None:
        """A status line begins (httptools)."""
        if self.is_complete:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; trailers are counted alone (httptools)."""
        if self._body is None:
            self._raw.append((name, value))  # read together, once the head is complete
        else:
            self._trailers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete (httptools)."""
        if self.is_complete:
            return
        assert self._parser is not None
        self._status = self._parser.get_status_code()
        if self._status < 100:
            self._failure = self._malformed(f"its status is {self._status:03}")
        if self._status < 200:
            self._clear()
            return
        self._read_head()
        coding, limit = self._coding, self._limit
        self._body = open_body(coding, limit, self._most) if coding else PlainBody(limit)
        if self._is_head:
            self._complete()

    def on_body(self, data: bytes) -> None:
        """A piece of the body (httptools)."""
        if self.is_complete or self._body is None:
            self.is_reusable = False
            return
        self._body_intake += len(data)
        try:
            self._body.take(data)
        except ConnectFailed as error:
            self._failure = error
        if self._body.truncated:
            self.is_complete = True
            self.wanted = 0
        elif self._body_intake > self._most or self._body.is_held:
            self.wanted = self.wanted or self._limit

    def on_message_complete(self) -> None:
        """The response is complete, or was an interim one (httptools)."""
        if not self.is_complete and self._body is not None:
            self._complete()

    def _clear(self) -> None:
        self._status = 0
        self._raw: list[tuple[bytes, bytes]] = []
        self._head: list[tuple[str, str]] = []
        self._trailers: list[tuple[bytes, bytes]] = []
        self._coding = self._charset = ""
        self._is_framed = False
        self._body = None

    def _complete(self) -> None:
        assert self._parser is not None
        self.is_complete = True
        self.is_reusable = self._parser.should_keep_alive()
        if self._body is None or not self._body.is_held:
            self.wanted = 0

    def _lower(self, name: bytes) -> str:
        lower = name.lower().decode("latin-1")
        if len(self._names) < HEAD_COUNT:
            self._names[name] = lower
        return lower

    def _read_head(self) -> None:
        names, head, length = self._names, self._head, ""
        for raw, given in self._raw:
            name, value = names.get(raw) or self._lower(raw), given.strip().decode("latin-1")
            if not value.isprintable() and _CONTROL.search(value):
                self._failure = self._malformed(f"the header {name[:80]} has a control character")
            head.append((name, value))
            if name == "content-length":
                self._is_framed = True
                length = value
            elif name == "content-type":
                self._charset = charset_of(value)
            elif name in _ABOUT_BODY:
                self._describe_body(name, value)
        if len(length) >= _LARGE_DIGITS and not is_decodable(self._coding):
            size = min(int(length), self._limit)
            self.wanted = size if size > self._most else 0

    def _describe_body(self, name: str, value: str) -> None:
        if name == "content-encoding":
            self._coding = value.lower()
        elif "chunked" in value.lower():
            self._is_framed = True

    def _check(self) -> None:
        """Runs after each read, so that no peer can make the parser's own buffers grow."""
        if self._failure is not None:
            raise self._failure
        overhead = self.intake - self._body_intake
        is_long = len(self._raw) + len(self._trailers) > HEAD_COUNT
        if overhead <= HEAD_BYTES and not is_long:
            return  # headers are never longer than all that was no body, and are counted only after this
        is_endless = not self.is_complete and overhead > HEAD_BYTES + _CHUNK_OVERHEAD * self._body_intake
        if is_endless or is_long or self._count_head() > HEAD_BYTES:
            raise ConnectFailed(
                f"{self._origin} sent more than {HEAD_BYTES // 1024} KiB or {HEAD_COUNT} lines of headers: "
                "look at the target."
            )

    def _count_head(self) -> int:
        return sum(len(name) + len(value) for name, value in (*self._raw, *self._trailers))

    def _malformed(self, how: object) -> ConnectFailed:
        return ConnectFailed(f"{self._origin} does not speak HTTP/1.1 here: {how}. Check port and scheme.")


def _describe_decoded(head: list[tuple[str, str]]) -> Headers:
    """The headers without those that described the encoded body."""
    return tuple(pair for pair in head if pair[0] not in ("content-encoding", "content-length"))
