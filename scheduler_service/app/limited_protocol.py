"""HTTP/1.1 towards callers with bounds: what one connection may send, and how long it may stand still."""

import asyncio
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from scheduler_service.api.responses import ENCODER, refuse
from scheduler_service.app.answering_protocol import AnsweringProtocol
from scheduler_service.telemetry.tally import Tally

HEAD_BYTES = 65_536
"""Of one request: its head, its trailers, and the framing of its chunks beyond `FRAMING_PER_BYTE`."""

HEAD_LINES = 200
"""Headers of one request, trailers included."""

FRAMING_PER_BYTE = 8
"""Bytes of chunk framing allowed per byte of a body."""

MOST_WAITING = 16
"""Pipelined requests that are parsed before the first of them is answered, about."""

SURPLUS_BYTES = 65_536
"""Of a body that comes after the answer: beyond it the connection ends."""

UNPARSED_BYTES = 1 << 20
"""Of pipelined requests that are not parsed yet: a connection with more is cut."""

STALL_SECONDS = 30.0
LINGER_SECONDS = 5.0
LINGER_BYTES = 64 << 20
DROP_PAUSE_SECONDS = 0.02

# What is parsed at once: it bounds the work that one read can cause.
_PIECE_BYTES = 8_192
_TOO_LARGE = (
    f"the request has more than {HEAD_BYTES // 1024} KiB or {HEAD_LINES} lines of headers; send fewer"
)
Headers = list[tuple[bytes, bytes]]
_OF_UPGRADES = (b"connection", b"upgrade", b"http2-settings")


class LimitedProtocol(AnsweringProtocol):
    """One connection of a caller.

    A head of more than 64 KiB or 200 lines is 431, as soon as its bytes have come; what is not HTTP/1.1, or
    could be read in two ways, is 400. `malformed` counts both. After such an answer nothing is parsed any
    more: what still comes is dropped, for 5 s, so that the caller can read the answer. Trailers are dropped,
    and a wish for another protocol is ignored. The connection is cut where nothing of a body comes, or
    nothing of an answer is read, for `stall_seconds`. A caller that ends its side gets the answers to what it
    has asked.
    """

    def __init__(self, *, malformed: Tally, stall_seconds: float = STALL_SECONDS, **given: Any) -> None:
        super().__init__(**given)
        self._malformed = malformed
        self._stall_seconds = stall_seconds
        # Between a complete message and the next complete head.
        self._is_between = True
        self._has_ended = False
        self._lines = 0
        self._body_bytes = 0
        self._framing_bytes = 0
        self._surplus_bytes = 0
        self._unparsed = b""
        self._is_over = False
        self._dropped_bytes = 0
        self._reads = 0
        self._progress = (0, 0)
        self._timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed (asyncio)."""
        self._is_over = True
        self._unparsed = b""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes have come (asyncio)."""
        self._reads += 1
        if self._is_over:
            self._drop(len(data))
            return
        self._unset_keepalive_if_required()
        if not self._unparsed:
            self._parse(data)
        elif len(self._unparsed) + len(data) > UNPARSED_BYTES:
            self.cut()
        else:
            self._unparsed += data  # each answer lets in one more read
            self.flow.pause_reading()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The caller sends nothing more (asyncio); False: nothing is to be answered, so it ends."""
        self._has_input_end = True
        return bool(self._unparsed) or self._end_requests()

    def _end_requests(self) -> bool:
        """The connection is to end after the last whole request; whether one is still to be answered."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        if self._is_between:
            cycle.keep_alive = False
            if self._current is not None:
                self._current.message_event.set()  # whoever waits for more has all of it
            return True
        self._leave(cycle)  # half a request is never begun
        return cycle is not self._current

    def shutdown(self) -> None:
        """Ends the connection after its answer, or at once where it would not end (uvicorn).

        That is where its request is not complete, or its answer is a stream that is not read.
        """
        super().shutdown()
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        if cycle.more_body or self._is_endless:
            self.cut()

    def cut(self) -> None:
        """Closes the connection at once, whatever was still to be sent."""
        self.transport.abort()

    def pause_writing(self) -> None:
        """More is to be sent than the caller reads (asyncio)."""
        super().pause_writing()
        self._watch()

    def on_message_begin(self) -> None:
        """A request begins (httptools)."""
        self._lines = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; a trailer is counted and dropped, as RFC 9110, section 6.5.1, allows (httptools)."""
        self._lines += 1
        if self._is_between and self._lines <= HEAD_LINES:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head of a request is complete (httptools). Raises ValueError for one that is refused."""
        if self._lines > HEAD_LINES:
            raise ValueError(_TOO_LARGE)
        check_framing(self.headers, self.parser.get_http_version())
        if self.parser.should_upgrade():
            return  # the parser stops after this, and `_begin_again` goes on
        super().on_headers_complete()
        self._is_between = False
        self._surplus_bytes = 0

    def on_body(self, body: bytes) -> None:
        """A piece of a body (httptools)."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is complete (httptools)."""
        if self._is_between:
            return
        self._is_between = self._has_ended = True
        self._framing_bytes = self._body_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered (uvicorn)."""
        super().on_response_complete()
        if self._unparsed:
            self.loop.call_soon(self._parse_rest)

    def _parse_rest(self) -> None:
        data, self._unparsed = self._unparsed, b""
        if not self._is_over:
            self._parse(data)
            if self._has_input_end and not self._unparsed and not self._end_requests():
                self.transport.close()

    def _parse(self, data: bytes) -> None:
        """Parses piece by piece, and stops while too many requests wait for their answers."""
        start, size = 0, len(data)
        while start < size and not self._is_over:
            if len(self.pipeline) >= MOST_WAITING:
                self._unparsed = data[start:]
                self.flow.pause_reading()
                return
            room = min(HEAD_BYTES - self._framing_bytes, _PIECE_BYTES) if self._is_between else _PIECE_BYTES
            if room <= 0:
                self._refuse_head()
                return
            self._feed(data if size <= room else data[start : start + room])
            start += room
        if not self._is_between:
            self._watch()

    def _feed(self, piece: bytes) -> None:
        self._has_ended, body_before = False, self._body_bytes
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._begin_again(piece[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if self._lines > HEAD_LINES:
                self._refuse_head()
            else:
                self._refuse(HTTPStatus.BAD_REQUEST, "malformed_request", explain(error))
        else:
            if not self._has_ended:
                self._framing_bytes += len(piece) - (self._body_bytes - body_before)
            self._check(len(piece))

    def _check(self, size: int) -> None:
        """Bounds what is no body, and a body that nobody waits for."""
        framing = self._framing_bytes - FRAMING_PER_BYTE * self._body_bytes
        if self._lines > HEAD_LINES or framing > HEAD_BYTES:
            self._refuse_head()
        elif not self._is_between and self.cycle.response_complete:
            self._surplus_bytes += size
            if self._surplus_bytes > SURPLUS_BYTES:
                self._linger(b"")

    def _begin_again(self, rest: bytes) -> None:
        """Parses the request without its wish for another protocol, which a server may ignore."""
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(
                HTTPStatus.BAD_REQUEST, "malformed_request", "CONNECT is for proxies, and this is none"
            )
            return
        head = write_head(method, self.url, self.headers, stays_open=self.parser.should_keep_alive())
        self.parser = httptools.HttpRequestParser(self)
        self._feed(head)
        if rest and not self._is_over:
            self._feed(rest)

    def _refuse_head(self) -> None:
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", _TOO_LARGE)

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        """Answers what cannot be parsed, where it is its turn to be answered, and ends the connection."""
        self._malformed.count(code, reason=message, client=self.client and self.client[0])
        cycle, is_between = self.cycle, self._is_between
        is_open = cycle is not None and not cycle.response_complete
        if is_open and not is_between:
            cycle.disconnected = True
            cycle.message_event.set()
        if is_open and (is_between or self.pipeline or cycle.response_started):
            cycle.keep_alive = False  # answers come before, and the end after them
            self._end_input()
        elif is_between or is_open:
            self._linger(write_refusal(status, code, message, self.server_state.default_headers))
        else:
            self._linger(b"")

    def _linger(self, answer: bytes) -> None:
        """Ends the sending with `answer`; what still comes is dropped, for an end at once would lose that."""
        self._end_input()
        if not self.transport.is_closing():
            self.transport.write(answer)
            self.transport.write_eof()

    def _end_input(self) -> None:
        self._is_over = True
        self._unparsed = b""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.cut)

    def _drop(self, size: int) -> None:
        self._dropped_bytes += size
        if self._dropped_bytes > LINGER_BYTES:
            self.cut()
        elif not self.transport.is_closing():
            # Read at full speed, what is dropped would hold up what is not.
            self.flow.pause_reading()
            self.loop.call_later(DROP_PAUSE_SECONDS, self._drop_more)

    def _drop_more(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _watch(self) -> None:
        if self._timer is None and not self._is_over:
            self._progress = self._measure()
            self._timer = self.loop.call_later(self._stall_seconds, self._look)

    def _look(self) -> None:
        """Cuts the connection if it stood still since the last look, though something is to come or to go."""
        self._timer = None
        progress = self._measure()
        if self._is_between and not progress[1]:
            return
        if progress == self._progress:
            self.cut()
        else:
            self._watch()

    def _measure(self) -> tuple[int, int]:
        return self._reads, self.transport.get_write_buffer_size()


def check_framing(headers: Headers, version: str) -> None:
    """Raises ValueError for a head that another reader may understand in another way (RFC 9112)."""
    if version not in ("1.1", "1.0"):
        raise ValueError(f"the request line says HTTP/{version}; send HTTP/1.1")
    hosts = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
            raise ValueError(
                "send a body as it is, or chunked in HTTP/1.1: no other Transfer-Encoding is read"
            )
    if hosts > 1 or (not hosts and version == "1.1"):
        raise ValueError("send one Host header (RFC 9112, section 3.2)")


def write_head(method: bytes, url: bytes, headers: Headers, *, stays_open: bool) -> bytes:
    """The head of a request as it came, without its wish for another protocol."""
    lines = [method + b" " + url + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in headers if name not in _OF_UPGRADES]
    if not stays_open:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def explain(error: httptools.HttpParserError) -> str:
    """What is wrong, in the words of the parser or of `check_framing`."""
    return f"this is not HTTP/1.1: {error.__context__ or error}"[:200]


def write_refusal(
    status: HTTPStatus, code: str, message: str, further: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """A whole answer with a problem (RFC 9457), the last of its connection; it begins with `further`."""
    body = ENCODER.encode(refuse(status, "", code, message).body())
    head = [
        *further,
        (b"content-type", b"application/problem+json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    lines = (name + b": " + value + b"\r\n" for name, value in head)
    return b"".join([STATUS_LINE[status], *lines, b"\r\n", body])
