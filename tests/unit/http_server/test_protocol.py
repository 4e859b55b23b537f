"""What one connection may send, and what becomes of one that sends more, or something else (RFC 9112)."""

import asyncio
import contextlib
import gc
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler_service.app.listener import listen
from scheduler_service.http_server.exchange import HttpExchange, address_of
from scheduler_service.http_server.protocol import HEAD_BYTES, HEAD_LINES
from scheduler_service.http_server.server import Server
from tests.rows import each_row

HOST = b"Host: a\r\n"
CHUNKED = b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
PATIENCE = 30.0


class App:
    """Answers with method, path and body; `/later` waits for `gate`, `/unread` reads no body.

    `/looking` looks first whether its caller has left.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.gate = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(f"{scope['method']} {scope['path']}")
        self.headers.append(scope["headers"])
        if scope["path"].startswith("/later"):
            await self.gate.wait()
        if scope["path"] in ("/fault", "/later/fault"):
            raise KeyError("a fault\nof two lines")
        body = b"" if scope["path"] == "/unread" else await self._read(receive)
        if scope["path"] == "/looking":
            leaving = asyncio.ensure_future(receive())
            await asyncio.sleep(0.001)
            leaving.cancel()
        if body is not None and scope["path"] == "/waiting":
            body = await self._read(receive)
        if body is None:
            self.gone.set()
            return
        size = 32 << 20 if scope["path"] == "/large" else 0
        answer = f"{scope['method']} {scope['path']} ".encode() + body + b"x" * size
        length = (b"content-length", b"%d" % len(answer))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        await send({"type": "http.response.body", "body": answer})
        if scope["path"] == "/told/fault":
            raise KeyError("a fault that was answered")

    @staticmethod
    async def _read(receive: Any) -> bytes | None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message["body"]
            if not message["more_body"]:
                return body


class Stage:
    """A served `App`, and the lines of its log."""

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.port = port
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.server: Server

    @property
    def connections(self) -> set[Any]:
        """Those that are open."""
        return self.server.connections.open

    def log(self, event: str, /, **keys: object) -> None:
        self.lines.append((event, keys))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    @staticmethod
    async def until(condition: Callable[[], bool]) -> None:
        """Returns once `condition` is true."""
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - of another task, which tells nobody
                await asyncio.sleep(0.01)

    async def exchange(self, *pieces: bytes) -> bytes:
        """All that comes until the service closes the connection."""
        reader, writer = await self.connect()
        for piece in pieces:
            writer.write(piece)
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
        return answer


@asynccontextmanager
async def served(stall_seconds: float = 30.0) -> AsyncIterator[Stage]:
    listener = listen("127.0.0.1", 0)
    stage = Stage(App(), listener.getsockname()[1])
    stage.server = Server(stage.app, log=stage.log, stall_seconds=stall_seconds)
    serving = asyncio.create_task(stage.server.serve([listener]))
    try:
        yield stage
    finally:
        stage.app.gate.set()
        for connection in [*stage.connections]:
            connection.cut()
        stage.server.ask_to_end()
        await serving


def statuses(answer: bytes) -> list[int]:
    """Of all answers in what came."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) [A-Z]", answer)]


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """What comes until the connection ends, however it ends."""
    found = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(PATIENCE):
            while piece := await reader.read(65_536):
                found += piece
    return found


def get(path: str = "/", *lines: bytes) -> bytes:
    return f"GET {path} HTTP/1.1\r\n".encode() + HOST + b"".join(lines) + b"\r\n"


LAST = get("/last", b"Connection: close\r\n")


async def test_a_head_of_the_limit_is_read_and_a_longer_one_is_431() -> None:
    room = HEAD_BYTES - len(get("/", b"Connection: close\r\n", b"X: \r\n"))
    async with served() as stage:
        read = await stage.exchange(get("/", b"Connection: close\r\n", b"X: " + b"a" * room + b"\r\n"))
        refused = await stage.exchange(
            get("/", b"Connection: close\r\n", b"X: " + b"a" * (room + 1) + b"\r\n")
        )
    assert statuses(read) == [200]
    assert statuses(refused) == [431]
    assert b"application/problem+json" in refused
    assert b'"code":"head_too_large"' in refused
    assert stage.app.seen == ["GET /"]


@each_row(
    "start",
    [b"GET / HTTP/1.1\r\nX: ", b"GET /", b"GET /?", b"\r\n", b"GET / HTTP/1.1\r\n"],
    ids=["a value", "a path", "a query", "empty lines", "names"],
)
async def test_a_head_without_an_end_is_refused_as_its_bytes_come(start: bytes) -> None:
    """Before it is complete, which it never is; what the caller goes on to send is dropped."""
    more = {b"\r\n": b"\r\n", b"GET / HTTP/1.1\r\n": b"a:b\r\n"}.get(start, b"a")
    async with served() as stage:
        answer = await stage.exchange(start, more * (HEAD_BYTES // len(more)), b"a" * 1_000_000)
    assert statuses(answer) == [431]
    assert stage.app.seen == []


async def test_only_so_many_lines_are_read() -> None:
    lines = [b"X-%d: 1\r\n" % number for number in range(HEAD_LINES)]
    async with served() as stage:
        read = await stage.exchange(get("/", *lines[2:], b"Connection: close\r\n"))
        refused = await stage.exchange(get("/", *lines), LAST)
    assert statuses(read) == [200]
    assert statuses(refused) == [431]
    assert stage.app.seen == ["GET /"]
    # A name that comes after the body is none of the head, and an endless one is refused
    async with served() as stage:
        read = await stage.exchange(CHUNKED + b"1\r\na\r\n0\r\nAuthorization: b\r\n\r\n" + LAST)
        refused = await stage.exchange(CHUNKED + b"1\r\na\r\n0\r\nX: ", b"b" * 100_000)
    assert statuses(read) == [200, 200]
    assert [name for name, _ in stage.app.headers[0]] == [b"host", b"transfer-encoding"]
    assert statuses(refused) == [431]


@each_row("framing", [b"1;" + b"e" * 100_000, b"0" * 100_000], ids=["an extension", "a size"])
async def test_framing_of_chunks_has_a_limit(framing: bytes) -> None:
    async with served() as stage:
        answer = await stage.exchange(CHUNKED, framing, framing)
    assert statuses(answer) == [431]


async def test_small_chunks_are_fine() -> None:
    """The framing that they need grows with the body."""
    body = b"1\r\na\r\n" * 50_000
    async with served() as stage:
        answer = await stage.exchange(CHUNKED + body + b"0\r\n\r\n" + LAST)
    assert statuses(answer) == [200, 200]
    assert b"a" * 50_000 in answer


@each_row(
    "lines",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 1\r\nContent-Length: 1\r\n",
        b"Content-Length: 1, 1\r\n",
        b"Content-Length: +1\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        b"X: a\r\n b\r\n",
        b"X : a\r\n",
        b"X: a\rb\r\n",
        b"X: a\0b\r\n",
        b": a\r\n",
        b"Host: b\r\n",
    ],
)
async def test_what_two_readers_may_understand_in_two_ways_is_400(lines: bytes) -> None:
    """Nothing of it is done, nor of what follows on the connection."""
    request = b"POST /echo HTTP/1.1\r\n" + HOST + lines + b"\r\n0\r\n\r\n"
    async with served() as stage:
        answer = await stage.exchange(request + LAST)
    assert statuses(answer) == [400]
    assert stage.app.seen == []


@each_row("size", [b"F" * 17, b"0x1", b"-1", b"1 ", b"", b"1\n"], ids=lambda size: f"chunk size {size!r}")
async def test_a_chunk_size_that_is_none_is_400(size: bytes) -> None:
    """The request that had begun gets nothing but this answer."""
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(CHUNKED)
        await stage.until(lambda: bool(stage.app.seen))
        writer.write(size + b"\r\na\r\n0\r\n\r\n" + LAST)
        assert statuses(await read_all(reader)) == [400]
        await stage.app.gone.wait()
        writer.close()
    assert stage.app.seen == ["POST /echo"]


@each_row(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET / HTTP/0.9\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
    ],
)
async def test_what_is_no_request_is_400(request_: bytes) -> None:
    async with served() as stage:
        answer = await stage.exchange(request_)
    assert statuses(answer) == [400]
    assert stage.app.seen == []


async def test_an_absolute_url_is_its_path() -> None:
    async with served() as stage:
        answer = await stage.exchange(get("http://elsewhere/path?a=b", b"Connection: close\r\n"))
    assert answer.endswith(b"GET /path ")


@each_row("protocol", [b"h2c", b"websocket"])
async def test_a_wish_for_another_protocol_is_ignored(protocol: bytes) -> None:
    """With its body, and with the requests that follow on the connection."""
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + protocol + b"\r\nHTTP2-Settings: AA\r\n"
    posted = b"POST /echo HTTP/1.1\r\n" + HOST + wish + b"Content-Length: 4\r\n\r\nbody"
    async with served() as stage:
        answer = await stage.exchange(posted, LAST)
    assert b"POST /echo body" in answer
    assert answer.endswith(b"GET /last ")
    assert stage.lines == []


async def test_what_follows_a_refusal_costs_no_answer_before_it() -> None:
    """It is dropped until the caller has read: an end at once would take back what was sent."""
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(get("/later") + b"nonsense\r\n\r\n" + bytes(1 << 20))
        await stage.until(lambda: bool(stage.lines))
        stage.app.gate.set()
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
    assert answer.endswith(b"GET /later ")
    assert statuses(answer) == [200]


async def test_pipelined_requests_wait_unparsed() -> None:
    """No more than a few are parsed before the first of them is answered; all are, in order."""
    count = 3_000
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(get("/later") + b"".join(get(f"/{number}") for number in range(count)) + LAST)
        await stage.until(lambda: bool(stage.app.seen))
        await asyncio.sleep(0.1)  # more could come
        parsed = sum(isinstance(one, HttpExchange) for one in gc.get_objects())
        stage.app.gate.set()
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
    assert parsed < count / 5
    assert statuses(answer) == [200] * (count + 2)
    assert stage.app.seen == ["GET /later", *(f"GET /{number}" for number in range(count)), "GET /last"]


async def test_requests_that_pile_up_cut_their_connection() -> None:
    """Each one that looks for its caller lets in one more read of what waits behind it."""
    count = 40_000
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(get("/looking") * count)
        answer = await read_all(reader)
        writer.close()
    assert 0 < len(statuses(answer)) < count / 10


async def test_what_is_dropped_is_read_slowly() -> None:
    """A caller that goes on after a refusal holds up nobody."""
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(b"nonsense\r\n\r\n")
        await reader.readexactly(1)
        size, sent = 256 << 10, 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while sent < 128 << 20:
                    writer.write(bytes(size))
                    await writer.drain()
                    sent += size
        writer.transport.abort()
    assert sent < 32 << 20


async def test_a_body_after_the_answer_is_read_to_an_end() -> None:
    """So that the next request is answered; a long one ends the connection."""
    async with served() as stage:
        head = b"POST /unread HTTP/1.1\r\n" + HOST
        small = await stage.exchange(head + b"Content-Length: 50000\r\n\r\n", b"a" * 50_000, LAST)
        large = await stage.exchange(head + b"Content-Length: 500000\r\n\r\n", b"a" * 500_000, LAST)
    assert statuses(small) == [200, 200]
    assert statuses(large) == [200]


async def test_half_a_body_ends_after_a_time() -> None:
    async with served(stall_seconds=0.2) as stage:
        reader, writer = await stage.connect()
        writer.write(b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\nhalf")
        assert await read_all(reader) == b""
        await stage.app.gone.wait()
        writer.close()
    # An answer that is not read ends after a time, too
    async with served(stall_seconds=0.2) as stage:
        _, writer = await stage.connect()
        writer.write(get("/large"))
        await stage.until(lambda: bool(stage.app.seen))
        await stage.until(lambda: not stage.connections)
        writer.close()


async def test_an_answer_that_is_not_read_begins_no_other() -> None:
    """Of 40 pipelined requests the second begins when the first has been read; then all are answered."""
    count = 40
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(get("/large") * (count - 1) + LAST.replace(b"/last", b"/end"))
        await stage.until(lambda: any(one.is_unread for one in stage.connections))
        await reader.readexactly(1_000)
        assert stage.app.seen == ["GET /large"]
        await reader.readexactly(32 << 20)
        await stage.until(lambda: len(stage.app.seen) == 2)
        writer.transport.abort()


async def test_what_is_written_to_a_caller_that_has_gone_is_dropped() -> None:
    """Whichever of its requests is being answered: nothing is logged, and no further one begins."""
    async with served() as stage:
        _, writer = await stage.connect()
        writer.write(get("/later") * 3)
        await stage.until(lambda: bool(stage.app.seen))
        for connection in stage.connections:
            connection.cut()
        stage.app.gate.set()
        await stage.until(lambda: not stage.connections)
        writer.close()
    assert stage.lines == []
    assert stage.app.seen == ["GET /later"]


async def test_a_fault_is_told_whether_the_caller_has_gone_or_not() -> None:
    """Nobody is answered, but the defect is the same."""
    async with served() as stage:
        _, writer = await stage.connect()
        writer.write(get("/later/fault"))
        await stage.until(lambda: bool(stage.app.seen))
        for connection in stage.connections:
            connection.cut()
        stage.app.gate.set()
        await stage.until(lambda: bool(stage.lines))
        writer.close()
    ((event, keys),) = stage.lines
    assert (event, str(keys["error"])[:8]) == ("requests_failed", "KeyError")


async def test_a_fault_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as stage:
        answer = await stage.exchange(get("/fault"))
    assert statuses(answer) == [500]
    ((event, keys),) = stage.lines
    assert (event, keys["failed"]) == ("requests_failed", 1)
    assert str(keys["error"]).startswith("KeyError")
    assert "test_protocol.py" in str(keys["where"])
    assert caplog.records == []


async def test_a_connection_outlives_a_fault_that_was_answered() -> None:
    """The API answers 500 itself; what the caller sends next is not lost."""
    async with served() as stage:
        answer = await stage.exchange(get("/told/fault"), LAST)
    assert statuses(answer) == [200, 200]
    ((event, _),) = stage.lines
    assert event == "requests_failed"


@each_row("before", [0, 2, 40])
async def test_a_caller_that_ends_its_side_gets_its_answers(before: int) -> None:
    """All of them, whenever they come, and then the end."""
    posted = b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 4\r\n\r\nbody"
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(get("/later") * before + posted)
        writer.write_eof()
        await stage.until(lambda: bool(stage.app.seen))
        stage.app.gate.set()
        answer = await read_all(reader)
        writer.close()
    assert statuses(answer) == [200] * (before + 1)
    assert answer.endswith(b"POST /echo body")


@each_row("half", [b"", b"GET / HT", b"POST /half HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1"])
async def test_half_a_request_of_one_that_ends_its_side_is_dropped(half: bytes) -> None:
    """Alone it ends the connection at once; after whole ones it is never begun."""
    async with served() as stage:
        answers = []
        for whole in (b"", get("/later")):
            reader, writer = await stage.connect()
            writer.write(whole + half)
            writer.write_eof()
            if whole:
                await stage.until(lambda: "GET /later" in stage.app.seen)
                stage.app.gate.set()
            answers.append(statuses(await read_all(reader)))
            writer.close()
    assert answers == [[], [200]]
    assert stage.lines == []


async def test_a_caller_that_ends_its_side_while_it_is_to_wait_has_gone() -> None:
    """For one that waits for a disconnect, as a claim does: it cannot be told from one that has closed."""
    async with served() as stage:
        reader, writer = await stage.connect()
        writer.write(get("/waiting"))
        await stage.until(lambda: bool(stage.app.seen))
        writer.write_eof()
        await stage.app.gone.wait()
        assert await read_all(reader) == b""
        writer.close()
    assert stage.lines == []


async def test_heads_in_single_bytes_are_read() -> None:
    async with served() as stage:
        reader, writer = await stage.connect()
        for byte in LAST:
            writer.write(bytes([byte]))
            await writer.drain()
        answer = await reader.read()
        writer.close()
    assert answer.endswith(b"GET /last ")


@each_row(
    ("name", "end"),
    [
        (("192.0.2.1", 80), ("192.0.2.1", 80)),
        (("::ffff:192.0.2.1", 80, 0, 0), ("192.0.2.1", 80)),
        (("2001:db8::1", 80, 0, 0), ("2001:db8::1", 80)),
        ("/run/a.sock", None),
        (None, None),
    ],
)
def test_a_caller_has_one_address_at_a_socket_for_both_protocols(name: Any, end: Any) -> None:
    """In limits, the audit and the log that of IPv4 is the plain one (SPEC section 14)."""
    assert address_of(name) == end
