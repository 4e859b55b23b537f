"""One connection of a caller: what it may send, and its requests, which are answered one after the other."""

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast

import httptools

from scheduler_service.http_server.connections import Connections
from scheduler_service.http_server.exchange import (
    HttpExchange,
    address_of,
    make_scope,
    write_answer,
    write_refusal,
)
from scheduler_service.telemetry.log_summaries import Tally
from scheduler_service.telemetry.logs import place_of

HEAD_BYTES = 65_536
"""Of one request: its head, its trailers, and the framing of its chunks beyond `FRAMING_PER_BYTE`."""

HEAD_LINES = 200
"""Headers of one request, trailers included."""

FRAMING_PER_BYTE = 8
"""Bytes of chunk framing allowed per byte of a body."""

MOST_WAITING = 16
"""Pipelined requests that are parsed before the first of them is answered, about."""

AHEAD_BYTES = 65_536
"""Of a body, before the application asks for more; and after its answer, where more ends the connection."""

UNPARSED_BYTES = 1 << 20
"""Of pipelined requests that are not parsed yet: a connection with more is cut."""

QUIET_BYTES = 4 << 10
"""So much of its requests a connection may hold without being counted, as nearly all do."""

COUNTED_BYTES = 64 << 10
"""So much of a body is counted: what is longer waits for its room outside (`api.request_room`)."""

ENDLESS_BYTES = 32 << 10
"""The system keeps about so much, or twice, of an endless answer for a caller that does not read it.

Of itself it takes megabytes: a silent reader of a stream would cost the writing of them.
"""
DROP_PAUSE_SECONDS = 0.02
"""Between two reads of what is dropped: within 5 s no more than 64 MiB can come."""
LONGEST_FAULT = 300
"""Characters of the text of a fault in the log."""

LONGEST_METHOD = 20
# What is parsed at once: it bounds the work that one read can cause.
_PIECE_BYTES = 8_192
_TOO_LARGE = (
    f"the request has more than {HEAD_BYTES // 1024} KiB or {HEAD_LINES} lines of headers; send fewer"
)
_OF_UPGRADES = (b"connection", b"upgrade", b"http2-settings")
_FULL = b"There are too many connections: try again soon."

Headers = list[tuple[bytes, bytes]]
Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class ServedSite:
    """What the connections of one listener have in common.

    `malformed` counts refused requests, `faults` what the application raises; `date` is the line of the
    header Date; `tasks` are the answers that are being made.
    """

    def __init__(
        self,
        app: Asgi,
        *,
        connections: Connections,
        malformed: Tally,
        faults: Tally,
        date: Callable[[], bytes],
    ) -> None:
        self.app = app
        self.connections = connections
        self.malformed = malformed
        self.faults = faults
        self.date = date
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()


class HttpProtocol(asyncio.Protocol):
    """One connection of a caller.

    A head of more than 64 KiB or 200 lines is 431, as soon as its bytes have come; what is not HTTP/1.1, or
    could be read in two ways, is 400. After such an answer nothing is parsed any more: what still comes is
    dropped, for 5 s, so that the caller can read the answer. Trailers are dropped, and a wish for another
    protocol is ignored. A pipelined request is begun when the answer before it has been read, up to what the
    transport buffers. A caller that ends its side gets the answers to what it has asked.
    """

    _transport: asyncio.Transport

    def __init__(self, site: ServedSite) -> None:
        self.has_input_end = self.is_unread = False
        self.date = site.date
        self._site = site
        self._connections = site.connections
        self._parser = _make_parser(self)
        self._exchanges: deque[HttpExchange] = deque()  # those that are not answered; the first one has begun
        self._incoming: HttpExchange | None = None  # the one whose body is coming, answered or not
        self._is_endless = self._is_over = self._is_paused = self._is_counted = False
        # Of the request that is coming: its bytes, those of its body, its headers, and its bytes when it was
        # answered.
        self._coming = self._body_bytes = self._lines = self._answered_at = 0
        self._held = self._answer_bytes = 0
        self._unparsed = b""
        self._read = asyncio.Event()
        self._url, self._headers = b"", list[tuple[bytes, bytes]]()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open (asyncio)."""
        self._transport = cast(asyncio.Transport, transport)
        self._server = address_of(transport.get_extra_info("sockname"))
        self._client = address_of(transport.get_extra_info("peername"))
        if not self._connections.admit(self):
            self._is_over = True
            further = self.date() + b"retry-after: 1\r\n"
            self.write(write_answer(HTTPStatus.SERVICE_UNAVAILABLE, _FULL, further))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed (asyncio)."""
        self._is_over = True
        self._unparsed = b""
        if self._exchanges:
            self._exchanges[0].leave()
        self._exchanges.clear()
        self._incoming = None
        self._read.set()
        self._connections.forget(self)
        del self._parser  # a cycle of references

    def data_received(self, data: bytes) -> None:
        """Bytes have come (asyncio)."""
        if self._is_over:
            self._drop()
        elif not self._unparsed:
            self._parse(data)
        elif len(self._unparsed) + len(data) > UNPARSED_BYTES:
            self.cut()
        else:
            self._unparsed += data  # each answer lets in one more read
            self._note()

    def eof_received(self) -> bool:
        """The caller sends nothing more (asyncio); False: nothing is to be answered, so it ends."""
        self.has_input_end = True
        if self._unparsed:
            return True
        has_more = self._give_up_rest()
        if has_more:
            self._exchanges[0].tell()  # whoever waits for more has all of it
        return has_more

    def pause_writing(self) -> None:
        """More is to be sent than the caller reads (asyncio)."""
        self.is_unread = True
        self._read.clear()
        self._connections.block(self)

    def resume_writing(self) -> None:
        """The caller has read (asyncio)."""
        self.is_unread = False
        self._read.set()
        self._connections.unblock(self)
        self._begin()

    def on_message_begin(self) -> None:
        """A request begins (httptools)."""
        self._url, self._headers, self._lines = b"", [], 0
        self._coming = self._coming or 1  # the rest of its piece counts for the request before

    def on_url(self, url: bytes) -> None:
        """A piece of the target (httptools)."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; a trailer is counted and dropped, as RFC 9110, section 6.5.1, allows (httptools)."""
        self._lines += 1
        if self._incoming is None and self._lines <= HEAD_LINES:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head of a request is complete (httptools). Raises ValueError for one that is refused."""
        if self._lines > HEAD_LINES:
            raise ValueError(_TOO_LARGE)
        version = self._parser.get_http_version()
        wants_continue = check_framing(self._headers, version)
        if self._parser.should_upgrade():
            return  # the parser stops after this, and `_begin_again` goes on
        keeps_alive = version == "1.1" and self._parser.should_keep_alive()
        scope = make_scope(
            self._parser.get_method(),
            self._url,
            self._headers,
            version,
            server=self._server,
            client=self._client,
        )
        self._incoming = HttpExchange(self, scope, keeps_alive=keeps_alive, wants_continue=wants_continue)
        self._exchanges.append(self._incoming)
        self._begin()

    def on_body(self, body: bytes) -> None:
        """A piece of a body (httptools)."""
        self._body_bytes += len(body)
        if self._incoming is not None and not self._incoming.is_complete:
            self._incoming.body += body
            self._incoming.tell()

    def on_message_complete(self) -> None:
        """A request is complete (httptools)."""
        exchange, self._incoming = self._incoming, None
        if exchange is None:
            return
        if not exchange.is_complete:
            exchange.is_whole, exchange.size = True, self._counted_bytes()
            self._held += exchange.size
            exchange.tell()
        self._coming = self._body_bytes = 0

    @property
    def unsent_bytes(self) -> int:
        """How much of its answer waits to be read, also what is still to be written of it."""
        to_write = self._exchanges[0].unwritten_bytes if self._exchanges else 0
        return self._transport.get_write_buffer_size() + to_write

    @property
    def kept_bytes(self) -> int:
        """How much memory its answer takes: all of it, until the last of it has been sent."""
        unsent = self.unsent_bytes
        return max(unsent, self._answer_bytes, *(one.body_bytes for one in self._exchanges)) if unsent else 0

    def resume(self) -> None:
        """Reads on, where it had stopped: the application waits for more of a request."""
        if self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Writes a piece of an answer, or drops it where the caller has gone."""
        if data and not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Returns when the caller has read nearly all, or has gone."""
        await self._read.wait()

    def become_endless(self) -> None:
        """The answer that begins has no end."""
        self._is_endless = True
        line: socket.socket = self._transport.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ENDLESS_BYTES)

    def answered(self) -> None:
        """The first of its requests is answered."""
        exchange = self._exchanges.popleft()
        self._held -= exchange.size
        exchange.body.clear()
        self._answered_at, self._answer_bytes = self._coming, exchange.body_bytes
        self._is_endless = False
        if not exchange.keeps_alive:
            if self._is_over:
                self._linger(b"")
            else:
                self._transport.close()
            return
        if self._unparsed:
            self._site.loop.call_soon(self._parse_rest)
        self._begin()
        self._note()

    def end(self) -> None:
        """Ends after its answers; at once where its request is not complete, or its answer is endless."""
        if not self._exchanges:
            self._transport.close()
        elif self._incoming is not None or self._is_endless:
            self.cut()
        else:
            self._exchanges[-1].keeps_alive = False

    def cut(self) -> None:
        """Closes the connection at once; of a request that was not begun yet nothing is done."""
        self._is_over = True
        for exchange in self._exchanges:
            exchange.leave()
        self._transport.abort()

    def _begin(self) -> None:
        """Begins the next answer where the one before is complete, and read."""
        if self._exchanges and not (self._exchanges[0].is_begun or self.is_unread):
            self._exchanges[0].is_begun = True
            task = self._site.loop.create_task(self._make_answer(self._exchanges[0]))
            self._site.tasks.add(task)
            task.add_done_callback(self._site.tasks.discard)

    async def _make_answer(self, exchange: HttpExchange) -> None:
        if exchange.is_gone:
            return
        scope, faults = exchange.scope, self._site.faults
        try:
            await self._site.app(scope, exchange.receive, exchange.send)
            if exchange.is_complete or exchange.is_gone:
                return
            if not self.has_input_end or exchange.has_started:  # else it was taken for one that has gone
                where = getattr(scope.get("endpoint"), "path", scope["method"][:LONGEST_METHOD])
                faults.count("failed", error="a request has no whole answer", where=where)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next request is answered
            text = f"{type(error).__name__}: {error}"
            faults.count("failed", error=text[:LONGEST_FAULT], where=place_of(error.__traceback__))
        if not (exchange.is_complete or exchange.is_gone):
            if not (exchange.has_started or self.has_input_end):
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                self.write(write_answer(status, status.phrase.encode(), self.date()))
            self._transport.close()

    def _parse(self, data: bytes) -> None:
        """Parses piece by piece, and stops while too many requests wait for their answers."""
        start, size = 0, len(data)
        while start < size and not self._is_over:
            if len(self._exchanges) > MOST_WAITING:
                self._unparsed = data[start:]
                break
            room = _PIECE_BYTES if self._incoming else min(HEAD_BYTES - self._coming, _PIECE_BYTES)
            if room <= 0:
                self._refuse_head()
                break
            self._feed(data if size <= room else data[start : start + room])
            start += room
        self._note()

    def _parse_rest(self) -> None:
        data, self._unparsed = self._unparsed, b""
        if self._is_over:
            return
        self._parse(data)
        if self.has_input_end and not self._unparsed and not self._give_up_rest():
            self._transport.close()

    def _feed(self, piece: bytes) -> None:
        self._coming += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._begin_again(piece[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if self._lines > HEAD_LINES:
                self._refuse_head()
            else:
                reason = f"this is not HTTP/1.1: {error.__context__ or error}"[:200]
                self._refuse(HTTPStatus.BAD_REQUEST, "malformed_request", reason)
        else:
            self._check()

    def _check(self) -> None:
        """Bounds what is no body, and a body that nobody waits for."""
        framing = self._coming - self._body_bytes
        if self._lines > HEAD_LINES or framing > HEAD_BYTES + FRAMING_PER_BYTE * self._body_bytes:
            self._refuse_head()
        elif self._incoming and self._incoming.is_complete and self._coming > self._answered_at + AHEAD_BYTES:
            self._linger(b"")

    def _begin_again(self, rest: bytes) -> None:
        """Parses the request without its wish for another protocol, which a server may ignore."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            message = "CONNECT is for proxies, and this is none"
            self._refuse(HTTPStatus.BAD_REQUEST, "malformed_request", message)
            return
        lines = [method + b" " + self._url + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in self._headers if name not in _OF_UPGRADES]
        if not self._parser.should_keep_alive():
            lines.append(b"connection: close")
        self._parser, self._coming = _make_parser(self), 0
        self._feed(b"\r\n".join(lines) + b"\r\n\r\n")
        if rest and not self._is_over:
            self._feed(rest)

    def _note(self) -> None:
        """Tells what it waits for and what it holds; reads no further where there is enough to do."""
        if self._is_over:
            return
        incoming, exchanges, connections = self._incoming, self._exchanges, self._connections
        if incoming is not None and not incoming.is_complete:
            connections.await_body(self)
        elif exchanges:
            connections.begin(self)
        elif self._coming:
            connections.await_head(self)
        else:
            connections.await_request(self)
        held = self._held + self._counted_bytes() + len(self._unparsed)
        if held > QUIET_BYTES or self._is_counted:
            self._is_counted = held > QUIET_BYTES
            is_answering = bool(exchanges) and exchanges[0].is_whole
            connections.hold(self, held if self._is_counted else 0, is_answering=is_answering)
        if (
            self._unparsed
            or len(exchanges) > 1
            or (incoming is not None and len(incoming.body) > AHEAD_BYTES)
        ):
            self._pause()
        else:
            self.resume()

    def _counted_bytes(self) -> int:
        return self._coming - max(self._body_bytes - COUNTED_BYTES, 0)

    def _give_up_rest(self) -> bool:
        """Forgets half a request; whether others are to be answered, after which the connection ends."""
        half, self._incoming = self._incoming, None
        if half is not None and self._exchanges and self._exchanges[-1] is half:
            self._exchanges.pop().leave()
        if self._exchanges:
            self._exchanges[-1].keeps_alive = False
        return bool(self._exchanges)

    def _refuse_head(self) -> None:
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", _TOO_LARGE)

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        """Answers what cannot be parsed, where it is its turn to be answered, and ends the connection."""
        self._site.malformed.count(code, reason=message, client=self._client and self._client[0])
        half = self._incoming
        if self._give_up_rest():
            self._stop_reading()  # answers come before, and the end after them
        elif half is not None and half.has_started:
            self._linger(b"")
        else:
            self._linger(write_refusal(status, code, message, self.date()))

    def _linger(self, answer: bytes) -> None:
        """Ends the sending with `answer`; what still comes is dropped, for an end at once would lose that."""
        self._stop_reading()
        self.write(answer)
        if not self._transport.is_closing():
            self._transport.write_eof()

    def _stop_reading(self) -> None:
        self._is_over = True
        self._unparsed = b""
        self.resume()  # what still comes is dropped
        self._connections.await_end(self)

    def _drop(self) -> None:
        """Reads at no full speed what is dropped: that would hold up what is not."""
        self._pause()
        self._site.loop.call_later(DROP_PAUSE_SECONDS, self.resume)

    def _pause(self) -> None:
        if not (self._is_paused or self._transport.is_closing()):
            self._is_paused = True
            self._transport.pause_reading()


def _make_parser(protocol: HttpProtocol) -> Any:
    parser = httptools.HttpRequestParser(protocol)
    # What follows a request that ends its connection is dropped with it, and no fault.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def check_framing(headers: Headers, version: str) -> bool:
    """Whether the caller waits for `100 Continue`.

    Raises ValueError for a head that another reader may understand in another way (RFC 9112).
    """
    if version not in ("1.1", "1.0"):
        raise ValueError(f"the request line says HTTP/{version}; send HTTP/1.1")
    hosts, waits = 0, False
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"expect":
            waits = value.lower() == b"100-continue"
        elif name == b"transfer-encoding" and (value.lower() != b"chunked" or version == "1.0"):
            raise ValueError(
                "send a body as it is, or chunked in HTTP/1.1: no other Transfer-Encoding is read"
            )
    if hosts > 1 or (not hosts and version == "1.1"):
        raise ValueError("send one Host header (RFC 9112, section 3.2)")
    return waits
