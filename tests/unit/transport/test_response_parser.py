"""Answers from bytes, without a network: RFC 9112 and the limits of the head."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.transport.errors import ConnectFailed
from scheduler_service.transport.response_body import EncodedBody
from scheduler_service.transport.response_parser import HEAD_BYTES, HEAD_COUNT, ParsedResponse, ResponseParser
from tests.rows import each_row
from tests.unit.transport.servers import Peer, Stage, request


def receive(*pieces: bytes, method: str = "POST", limit: int = 1000) -> tuple[ParsedResponse, bool]:
    """The reply to these bytes, and whether the connection may be used again."""
    reception = ResponseParser(origin="http://peer.test", limit=limit)
    reception.begin(method=method)
    for piece in pieces:
        reception.feed(piece)
    if not reception.is_complete:
        assert reception.end()
    return reception.response(), reception.is_reusable


def encoded(coding: str, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        coding.encode(), len(body), body,
    )  # fmt: skip


def test_length() -> None:
    """A counted body; names in lower case; the connection lives on."""
    reply, reusable = receive(b"HTTP/1.1 200 OK\r\nContent-LENGTH: 2\r\nX-A:  b \r\n\r\nok")
    assert reply == ParsedResponse(200, (("content-length", "2"), ("x-a", "b")), b"ok", False)
    assert reusable
    # Chunks are joined, trailers dropped
    reply, reusable = receive(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n1\r\n!\r\n0\r\nX-T: 1\r\n\r\n"
    )
    assert (reply.body, reusable) == (b"ok!", True)
    assert reply.headers == (("transfer-encoding", "chunked"),)
    # A body without a length lasts until the end of the stream; the connection is spent
    reply, reusable = receive(b"HTTP/1.0 200 OK\r\n\r\nall ", b"of it")
    assert (reply.body, reusable) == (b"all of it", False)
    # 100, 102 and 103 come before the answer and are not it
    reply, reusable = receive(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
        b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
    )
    assert (reply.status, reply.headers, reusable) == (201, (("content-length", "0"),), True)


@each_row(
    ("method", "head"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n"),
    ],
)
def test_bodiless(method: str, head: bytes) -> None:
    """An answer to HEAD, a 204 and a 304 have no body, whatever their length says; the next one is read."""
    reception = ResponseParser(origin="http://peer.test", limit=100)
    for _ in range(2):
        reception.begin(method=method)
        reception.feed(head)
        assert reception.is_complete
        assert reception.response().body == b""
        assert reception.is_reusable


def test_cut_at_the_limit() -> None:
    """A body over the limit is cut and marked; the connection closes, as its rest is not read."""
    reply, reusable = receive(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", b"x" * 1001, limit=1000)
    assert (len(reply.body), reply.truncated, reusable) == (1000, True, False)
    reply, reusable = receive(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"x" * 1000, limit=1000)
    assert (len(reply.body), reply.truncated, reusable) == (1000, False, True)
    # Bytes after the answer spend the connection: no next request may take them for its own answer
    reply, reusable = receive(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 500 X\r\n\r\n")
    assert (reply.status, reply.body, reusable) == (200, b"ok", False)
    assert receive(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\x00\xff")[1] is False
    assert receive(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", method="HEAD")[1] is False


@each_row("coding", ["gzip", "deflate"])
def test_decoded(coding: str) -> None:
    """gzip and deflate are decoded, and the headers that spoke of the encoded body go."""
    body = gzip.compress(b"hello") if coding == "gzip" else zlib.compress(b"hello")
    reply, reusable = receive(encoded(coding, body))
    assert (reply.body, reply.headers, reusable) == (b"hello", (), True)


def test_decoded_oddities() -> None:
    """A bare deflate stream and gzip of several members are read; an unknown coding stays as it is."""
    bare = zlib.compress(b"hello", wbits=-15)
    assert receive(encoded("deflate", bare))[0].body == b"hello"
    assert receive(encoded("GZIP", gzip.compress(b"hel") + gzip.compress(b"lo")))[0].body == b"hello"
    assert receive(encoded("br", b"??"))[0].body == b"??"


def test_bomb() -> None:
    """A small body that decodes to a large one is cut at the limit, and costs no more memory than that."""
    bomb = gzip.compress(b"\0" * 50_000_000)
    reply, reusable = receive(encoded("gzip", bomb), limit=1000)
    assert (len(reply.body), reply.truncated, reusable) == (1000, True, False)
    with pytest.raises(ConnectFailed, match="parts"):
        receive(encoded("gzip", gzip.compress(b"") * 100))


@each_row("body", [b"not gzip", gzip.compress(b"hello", mtime=0)[:-3]], ids=["other", "cut"])
def test_broken_encoding(body: bytes) -> None:
    """A body that is not what its coding says is no answer."""
    with pytest.raises(ConnectFailed, match="gzip body"):
        receive(encoded("gzip", body))


@each_row(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * (HEAD_COUNT + 1) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * HEAD_BYTES + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * (HEAD_BYTES + 100),
        b"HTTP/1.1 200 " + b"b" * (HEAD_BYTES + 100),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 4000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 300,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\n"
        + b"b" * 0x4000
        + b"\r\n0\r\nX: "
        + b"y" * HEAD_BYTES
        + b"\r\n\r\n",
    ],
)
def test_endless_heads(head: bytes) -> None:
    """Headers, status line, interim answers, chunk extensions and trailers are all bounded."""
    with pytest.raises(ConnectFailed, match="headers"):
        receive(head)


@each_row(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX\x00: y\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
    ],
)
def test_broken_protocol(data: bytes) -> None:
    """What is not plainly HTTP/1.1 is no answer, and the message names the origin."""
    with pytest.raises(ConnectFailed, match=r"http://peer\.test"):
        receive(data)


@settings(deadline=None)
@given(
    st.lists(st.integers(min_value=1, max_value=40)),
    st.binary(max_size=200).filter(lambda body: body[:2] not in (b"\xfe\xff", b"\xff\xfe", b"\xef\xbb")),
)
def test_any_cut_gives_the_same_reply(cuts: list[int], body: bytes) -> None:
    """However the network cuts the bytes, the reply is the same; no byte order mark is among them."""
    data = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-Long: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
        % (b"v" * 50)
    )
    data += b"".join(
        b"%x\r\n%s\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7)
    )
    data += b"0\r\n\r\n"
    pieces = []
    for cut in cuts:
        pieces.append(data[:cut])
        data = data[cut:]
    reply, reusable = receive(*[piece for piece in (*pieces, data) if piece])
    assert (reply.body, reusable) == (body, True)
    assert reply.headers[0] == ("x-long", "v" * 50)


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=5), st.sampled_from(["GET", "HEAD"]))
def test_any_bytes_are_an_answer_or_refused(pieces: list[bytes], method: str) -> None:
    """No bytes after a status line raise anything but ConnectFailed."""
    reception = ResponseParser(origin="http://peer.test", limit=50)
    reception.begin(method=method)
    try:
        for piece in (b"HTTP/1.1 200 OK\r\n", *pieces):
            reception.feed(piece)
            if reception.is_complete:
                assert len(reception.response().body) <= 50
                return
    except ConnectFailed:
        pass


def test_text_in_another_charset() -> None:
    """The body is in UTF-8, within the limit; the headers say what came (SPEC section 4.3)."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain;charset=GBK\r\n\r\n"
    reply, _ = receive(head + "订单".encode("gbk"))
    assert reply.body == "订单".encode()
    assert reply.headers == (("content-type", "text/plain;charset=GBK"),)
    grown, _ = receive(head + "订单".encode("gbk"), limit=4)
    assert grown.truncated
    assert len(grown.body) == 4


@each_row("size", [1, 1000])
def test_folded_headers(size: int) -> None:
    """A line that goes on is one value (RFC 9112 section 5.2)."""
    raw = b"HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\nX-B:\r\n three\r\nContent-Length: 2\r\n\r\nok"
    reply, reusable = receive(*(raw[at : at + size] for at in range(0, len(raw), size)))
    assert reply.headers == (("x-a", "one two"), ("x-b", "three"), ("content-length", "2"))
    assert reusable


LARGE = 65_536
LIMIT = 1 << 20


def parse(*reads: bytes, method: str = "GET", limit: int = LIMIT) -> ResponseParser:
    parser = ResponseParser(origin="http://a.test", limit=limit, large=LARGE)
    parser.begin(method=method)
    for data in reads:
        parser.feed(memoryview(bytearray(data)))
    return parser


def head(*lines: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode()


def test_a_length_says_at_once_how_much_is_wanted() -> None:
    """At most the limit; nothing for one that is not large, or has no body."""
    assert parse(head("Content-Length: 65537")).wanted == 65_537
    assert parse(head("Content-Length: 99999999999")).wanted == LIMIT
    assert parse(head("Content-Length: 70000", "Content-Encoding: br")).wanted == 70_000
    assert parse(head("Content-Length: 65536")).wanted == 0
    assert parse(head("Content-Length: 99999"), method="HEAD").wanted == 0
    assert parse(head("Content-Length: 99999"), limit=LARGE).wanted == 0


@each_row("framing", ["Transfer-Encoding: chunked", "Server: a"])
def test_without_a_length_the_limit_is_wanted_once_more_than_64_kib_have_come(framing: str) -> None:
    """Not before; and once it is admitted, nothing more is wanted."""
    begin = b"fffff\r\n" if "chunked" in framing else b""
    parser = parse(head(framing) + begin, bytes(LARGE))
    assert parser.wanted == 0
    parser.feed(b"x")
    assert parser.wanted == LIMIT
    parser.admit()
    parser.feed(bytes(1_000))
    assert parser.wanted == 0


def test_a_complete_one_wants_nothing() -> None:
    """All of it is there: so has the next one of the connection its own judgement."""
    parser = parse(head("Content-Length: 70000") + bytes(70_000))
    assert (parser.wanted, parser.is_complete) == (0, True)
    parser.begin(method="GET")
    parser.feed(head("Content-Length: 70000"))
    assert parser.wanted == 70_000


def test_a_packed_one_is_not_unpacked_beyond_64_kib_before_it_is_admitted() -> None:
    """It is complete, and wants the limit; what it takes until then is bounded."""
    body = bytes(LIMIT)
    packed = gzip.compress(body)
    parser = ResponseParser(origin="http://a.test", limit=LIMIT, large=LARGE)
    parser.begin(method="GET")
    tracemalloc.start()
    try:
        parser.feed(head("Content-Encoding: gzip", f"Content-Length: {len(packed)}") + packed)
        assert tracemalloc.get_traced_memory()[1] < 4 * LARGE
    finally:
        tracemalloc.stop()
    assert (parser.wanted, parser.is_complete) == (LIMIT, True)
    parser.admit()
    assert (parser.wanted, parser.response().body) == (0, body)


@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4),
    cut=st.integers(1, 60),
    large=st.integers(0, 700),
    admitted_after=st.integers(0, 40),
    limit=st.integers(1, 900),
)
def test_holding_back_changes_nothing(
    sizes: list[int], cut: int, large: int, admitted_after: int, limit: int
) -> None:
    """However it comes and whenever it is admitted, the body is what it is without."""
    members = [bytes(number * 7 % 251 for number in range(size)) for size in sizes]
    packed = b"".join(gzip.compress(member) for member in members)
    pieces = [packed[begin : begin + cut] for begin in range(0, len(packed), cut)]
    plain, held = EncodedBody(limit, "gzip"), EncodedBody(limit, "gzip", large)
    for number, piece in enumerate(pieces):
        if number == admitted_after:
            held.admit()
        plain.take(piece)
        held.take(piece)
    held.admit()
    assert (held.end(), held.truncated) == (plain.end(), plain.truncated)
    assert held.end() == b"".join(members)[:limit]


async def test_a_large_body_both_ways(stage: Stage) -> None:
    """A request of megabytes arrives whole; an answer of 100 MiB is cut at the limit and read no further."""
    sent = 0

    async def handle(peer: Peer) -> None:
        nonlocal sent
        await peer.read()
        await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
        for _ in range(1600):
            await peer.say(b"x" * 65_536)
            sent += 65_536

    server = await stage.server(handle, limit=1 << 16)
    outcome = await stage.sender(response_bytes=100_000).send(request(server.url, body=b"y" * 3_000_000))
    assert (outcome.status, outcome.body, outcome.truncated) == (200, b"x" * 100_000, True)
    assert server.requests[0].endswith(b"y" * 3_000_000)
    await server.ended.wait()
    assert sent < 50_000_000
