"""What the parser says of a body that is large, and what it keeps of one before there is room for it."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.transport.errors import ConnectFailed
from scheduler_service.transport.response_body import EncodedBody, PlainBody
from scheduler_service.transport.response_parser import ResponseParser
from tests.rows import each_row

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


def test_what_was_held_back_may_be_broken() -> None:
    """It shows when it is admitted."""
    body = EncodedBody(LIMIT, "deflate", LARGE)
    body.take(zlib.compress(bytes(LIMIT - 1))[:-4] + bytes(4))
    assert body.is_held
    with pytest.raises(ConnectFailed, match="deflate body is broken"):
        body.admit()


def test_small_pieces_take_no_more_than_their_bytes() -> None:
    """A target may send its body two bytes at a time."""
    tracemalloc.start()
    try:
        body = PlainBody(LIMIT)
        for number in range(50_000):
            body.take(number.to_bytes(2))
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()
    assert len(body.end()) == 100_000
