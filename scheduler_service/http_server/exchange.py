"""One request, and the answer to it: what ASGI calls `receive` and `send`, written as HTTP/1.1."""

import asyncio
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import httptools
import msgspec

ENDLESS = "endless"
"""A member of `http.response.start`: the answer has no end.

It need not be waited for at the end, and little of it is kept for a caller that does not read.
"""
JOINED_BYTES = 65_536
"""A longer first piece is not copied behind the head."""
MAPPED = "::ffff:"

Headers = Iterable[tuple[bytes, bytes]]
_STATUS_LINES = {int(one): f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
_BODILESS = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_GONE = {"type": "http.disconnect"}


class Wire(Protocol):
    """The connection of an exchange; `date` gives the line of the header Date.

    `has_input_end`: its caller sends nothing more. `is_unread`: more is written than the caller reads.
    """

    date: Callable[[], bytes]
    has_input_end: bool
    is_unread: bool

    def resume(self) -> None:
        """Reads on, where it had stopped: more of the request is waited for."""

    def write(self, data: bytes) -> None:
        """Writes a piece of the answer, or drops it where the caller has gone."""

    async def drain(self) -> None:
        """Returns when the caller has read nearly all, or has gone."""

    def become_endless(self) -> None:
        """The answer that begins has no end."""

    def answered(self) -> None:
        """The answer is complete."""


class HttpExchange:
    """A request whose head is complete, with what has come of its body, and the state of its answer.

    What is sent after the caller has gone is dropped. `send` raises RuntimeError for messages that are no
    answer, as for a body of another length than its header says.
    """

    def __init__(
        self, wire: Wire, scope: dict[str, Any], *, keeps_alive: bool, wants_continue: bool = False
    ) -> None:
        self.scope = scope
        self.body = bytearray()
        """What has come of the body, and is not received yet."""
        self.keeps_alive = keeps_alive
        self.is_whole = self.is_begun = self.has_started = self.is_complete = self.is_gone = False
        self.size = 0
        """The bytes that it holds until it is answered, once it is whole."""
        self.body_bytes = self.unwritten_bytes = 0
        """The length of the answer's body, and what is still to be written of it, as far as that is known."""
        self._wire = wire
        self._wants_continue = wants_continue
        self._has_told_all = False
        self._is_chunked = self._is_known = False
        self._head: bytes | None = None
        self._news: asyncio.Future[None] | None = None

    def tell(self) -> None:
        """Something has come of the request, or nothing more does."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def leave(self) -> None:
        """Its caller has gone."""
        self.is_gone = True
        self.tell()

    async def receive(self) -> dict[str, Any]:
        """What comes of the body, then that the caller has gone (ASGI).

        One that has sent all and ended its side is gone while it is waited for.
        """
        if self._wants_continue and not self.has_started:
            self._wants_continue = False
            self._wire.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not self._is_over():
            if not self._has_told_all and (self.body or self.is_whole):
                body, self.body = bytes(self.body), bytearray()
                self._has_told_all = self.is_whole
                return {"type": "http.request", "body": body, "more_body": not self.is_whole}
            self._wire.resume()
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return _GONE

    def _is_over(self) -> bool:
        return self.is_gone or self.is_complete or (self._has_told_all and self._wire.has_input_end)

    async def send(self, message: Any) -> None:
        """Writes the answer (ASGI), once what came before is read. The head waits for the first piece."""
        if self._wire.is_unread:
            await self._wire.drain()
        if self.is_gone:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self.has_started:
            self._start(message["status"], message.get("headers", ()), is_endless=ENDLESS in message)
        elif kind == "http.response.body" and self.has_started and not self.is_complete:
            self._write(message.get("body", b""), has_more=message.get("more_body", False))
        else:
            raise RuntimeError(f"{kind} is sent where it is no part of an answer")

    def _start(self, status: int, headers: Headers, *, is_endless: bool) -> None:
        self.has_started = True
        if is_endless:
            self._wire.become_endless()
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, self._wire.date()]
        says_close = False
        for name, value in headers:
            name = name.lower()
            if name == b"content-length":
                self._is_known, self.unwritten_bytes = True, int(value)
            elif name == b"connection" and b"close" in value.lower():
                self.keeps_alive, says_close = False, True
            lines.append(b"%b: %b\r\n" % (name, value))
        has_body = self.scope["method"] != "HEAD" and status not in _BODILESS
        if has_body and not self._is_known:
            # A caller of HTTP/1.0 knows no chunks: its answer ends with the connection.
            self._is_chunked = self.scope["http_version"] != "1.0"
            self.keeps_alive = self.keeps_alive and self._is_chunked
        if self._is_chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        if not (self.keeps_alive or says_close):
            lines.append(b"connection: close\r\n")
        if not has_body:
            self._is_known, self.unwritten_bytes = False, 0
        self.body_bytes = self.unwritten_bytes
        self._head = b"".join(lines) + b"\r\n"
        if self._head.count(b"\n") != len(lines) + 1 or self._head.count(b"\r") != len(lines) + 1:
            raise RuntimeError("a header of an answer has a line break")

    def _write(self, body: bytes, *, has_more: bool) -> None:
        head, self._head = self._head or b"", None
        if self._is_known:
            self.unwritten_bytes -= len(body)
            if self.unwritten_bytes < 0 or (self.unwritten_bytes and not has_more):
                raise RuntimeError("the body of an answer has another length than its header says")
        elif self._is_chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (
                b"" if has_more else b"0\r\n\r\n"
            )
        elif self.scope["method"] == "HEAD":
            body = b""
        if len(body) <= JOINED_BYTES:
            self._wire.write(head + body)
        else:
            self._wire.write(head)
            self._wire.write(body)
        if not has_more:
            self.is_complete = True
            self.tell()
            self._wire.answered()


def make_scope(
    method: bytes, url: bytes, headers: list[tuple[bytes, bytes]], version: str, **ends: object
) -> dict[str, Any]:
    """A request for the application (ASGI); `ends` are the addresses of `server` and `client`.

    Raises ValueError and httptools.HttpParserError for a target that is none.
    """
    parsed = httptools.parse_url(url)
    if parsed.path is None:
        raise ValueError("the request names no path")
    path = parsed.path.decode("ascii")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": version,
        "method": method.decode("ascii"),
        "scheme": "http",
        "path": unquote(path) if "%" in path else path,
        "raw_path": parsed.path,
        "query_string": parsed.query or b"",
        "root_path": "",
        "headers": headers,
        **ends,
    }


def address_of(name: Any) -> tuple[str, int] | None:
    """An end of a socket as ASGI has it; None: it has gone already.

    Of a socket for both protocols an IPv4 address is written as one.
    """
    if not isinstance(name, tuple):
        return None
    host = str(name[0])
    return (host.removeprefix(MAPPED) if "." in host else host), int(name[1])


def write_answer(
    status: HTTPStatus, body: bytes, further: bytes, kind: str = "text/plain; charset=utf-8"
) -> bytes:
    """A whole answer, the last one of its connection; `further` are lines of its head."""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {kind}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n"
        "cache-control: no-store\r\nx-content-type-options: nosniff\r\n"
    )
    return b"%b%b\r\n%b" % (head.encode(), further, body)


def write_refusal(status: HTTPStatus, code: str, message: str, further: bytes) -> bytes:
    """A problem as the API writes its own (RFC 9457, SPEC section 10)."""
    problem = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": message,
        "errors": [{"pointer": "", "code": code, "message": message}],
        "resp_code": status.value,
        "resp_msg": message,
    }
    return write_answer(status, msgspec.json.encode(problem), further, "application/problem+json")
