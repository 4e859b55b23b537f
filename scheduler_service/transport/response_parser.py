"""An answer as it comes in: bytes to a whole reply, within limits, without a socket in sight (RFC 9112)."""

import httptools
import msgspec

from scheduler_service.domain.wire import Headers
from scheduler_service.transport.errors import ConnectFailed
from scheduler_service.transport.response_bodies import Body, is_decodable, open_body

HEAD_BYTES = 65_536  # status line and headers, those of interim answers included
HEAD_COUNT = 200  # headers of one answer, trailers included
_OVERHEAD = 8  # bytes of chunk framing that one byte of body may cost


class ParsedResponse(msgspec.Struct, frozen=True, gc=False):
    """A whole answer; header names in lower case. `truncated`: there was more body than the limit."""

    status: int
    headers: Headers
    body: bytes
    truncated: bool


class ResponseParser:
    """Receives the answers of one connection, one after the other; interim ones (1xx) are skipped.

    After `begin`, feed it what comes until `is_complete`, then take the `reply`. `is_reusable` says whether
    the connection may carry another exchange: no, after a cut body, an unexpected byte, or where either side
    closes. Messages name `origin`.
    """

    def __init__(self, *, origin: str, limit: int) -> None:
        self.is_complete = False
        self.is_reusable = False
        self.intake = 0
        self._origin = origin
        self._limit = limit
        self._names: dict[bytes, str] = {}
        self._parser: httptools.HttpResponseParser | None = None
        self._is_head = False
        self._failure: ConnectFailed | None = None
        self._body_intake = 0
        self._body: Body | None = None
        self._clear()

    def begin(self, *, method: str) -> None:
        """Gets ready for the answer to a request of `method`: to HEAD there is no body."""
        if self._parser is None:
            self._parser = httptools.HttpResponseParser(self)
        self._is_head = method == "HEAD"
        self.is_complete = self.is_reusable = False
        self.intake = self._body_intake = 0
        self._clear()

    def feed(self, data: bytes) -> None:
        """Takes what came. Raises ConnectFailed for what is not HTTP/1.1 or is over a limit of the head."""
        assert self._parser is not None
        self.intake += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise ConnectFailed(f"{self._origin} switched to a protocol that nobody asked for.") from None
        except httptools.HttpParserError as error:
            if not self.is_complete:
                raise self._explain(error) from error
            self.is_reusable = False
        self._check()

    def end(self) -> bool:
        """The stream has ended: True when the answer is whole by that (RFC 9112 section 6.3)."""
        if self._body is not None and not self._is_framed:
            self.is_complete = True
        return self.is_complete

    def reply(self) -> ParsedResponse:
        """The answer, once it is complete. Raises ConnectFailed when its body cannot be decoded."""
        assert self._body is not None
        if self._is_head:
            self._parser = None  # it still awaits a body
        head = _describe_decoded(self._head) if is_decodable(self._coding) else tuple(self._head)
        return ParsedResponse(self._status, head, self._body.end(), self._body.truncated)

    def close(self) -> None:
        """Lets go of the parser, which refers back to us: no work for the garbage collector."""
        self._parser = None

    def on_message_begin(self) -> None:
        """A status line begins (httptools)."""
        if self.is_complete:
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; a trailer is counted and dropped (httptools)."""
        self._head_count += 1
        self._head_bytes += len(name) + len(value)
        if self._body is None:
            self._head.append((self._names.get(name) or self._learn(name), value.strip().decode("latin-1")))

    def on_headers_complete(self) -> None:
        """The head is whole (httptools)."""
        if self.is_complete:
            return
        assert self._parser is not None
        self._status = self._parser.get_status_code()
        if self._status < 200:
            self._clear()
            return
        self._read_head()
        self._body = open_body(self._coding, self._limit)
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

    def on_message_complete(self) -> None:
        """The answer is whole, or was an interim one (httptools)."""
        if not self.is_complete and self._body is not None:
            self._complete()

    def _clear(self) -> None:
        self._status = 0
        self._head: list[tuple[str, str]] = []
        self._head_count = 0
        self._head_bytes = 0
        self._coding = ""
        self._is_framed = False
        self._body = None

    def _complete(self) -> None:
        assert self._parser is not None
        self.is_complete = True
        self.is_reusable = self._parser.should_keep_alive()

    def _learn(self, name: bytes) -> str:
        lower = name.lower().decode("latin-1")
        if len(self._names) < HEAD_COUNT:
            self._names[name] = lower
        return lower

    def _read_head(self) -> None:
        for name, value in self._head:
            if name == "content-encoding":
                self._coding = value.lower()
            elif name == "content-length" or (name == "transfer-encoding" and "chunked" in value.lower()):
                self._is_framed = True

    def _check(self) -> None:
        """After each read, so that no peer can make the parser's own buffers grow."""
        if self._failure is not None:
            raise self._failure
        overhead = self.intake - self._body_intake
        is_endless = not self.is_complete and overhead > HEAD_BYTES + _OVERHEAD * self._body_intake
        if is_endless or self._head_count > HEAD_COUNT or self._head_bytes > HEAD_BYTES:
            raise ConnectFailed(
                f"{self._origin} sent more than {HEAD_BYTES // 1024} KiB or {HEAD_COUNT} lines of headers: "
                "look at the target."
            )

    def _explain(self, error: httptools.HttpParserError) -> ConnectFailed:
        return ConnectFailed(f"{self._origin} does not speak HTTP/1.1 here: {error}. Check port and scheme.")


def _describe_decoded(head: list[tuple[str, str]]) -> Headers:
    """Headers that fit the decoded body: those that described the encoded one are left out."""
    return tuple(pair for pair in head if pair[0] not in ("content-encoding", "content-length"))
