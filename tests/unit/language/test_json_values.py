"""JSON in and out (SPEC section 4: a response is JSON if it parses as JSON, else text)."""

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.language.json_values import (
    FEW_MEMBERS,
    as_json,
    as_json_by_member,
    encode_in_pieces,
    find_control,
    parse_json,
)
from tests.rows import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@each_row(
    ("body", "value"),
    [
        (b'{"a":[1,2.5,null,true,"\xc3\xbc"]}', {"a": [1, 2.5, None, True, "ü"]}),
        (b" 1 ", 1),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"1e400", Decimal("1e400")),
        (b"-1e400", Decimal("-1e400")),
        (b'"\\ud800"', "\ud800"),
        (b"\xef\xbb\xbf{}", {}),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_json_is_read_exactly(body: bytes, value: object) -> None:
    """RFC 8259: integers exact, numbers beyond a float kept, lone surrogates and a leading mark taken."""
    assert parse_json(body) == value


@each_row(
    "body",
    [
        b"",
        b"plain",
        b"NaN",
        b"[Infinity]",
        b"{'a':1}",
        b"[1,]",
        b"01",
        b"\xff",
        b'"\xff"',
        b"1e9999999999999999999",
    ],
)
def test_what_is_no_json_is_text(body: bytes) -> None:
    """SPEC section 4: NaN and Infinity are none; what is not UTF-8 is shown as it is, without loss."""
    assert parse_json(body) == body.decode("utf-8", "backslashreplace")


@each_row("depth", [65, 500, 100_000])
def test_json_beyond_64_levels_is_text(depth: int) -> None:
    """SPEC section 10; and never a RecursionError."""
    for body in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b"[" * depth):
        assert parse_json(body) == body.decode()


@each_row("text", ["1e400", "9" * 6_000, "123456789012345678901234567890", "1.5", '"\\ud800"'])
def test_a_number_goes_out_as_it_came(text: str) -> None:
    """Never `Infinity`, never fewer digits of an integer."""
    once = as_json(parse_json(text.encode()))
    assert b"Infinity" not in once
    assert Decimal(parse_json(once)) == Decimal(text) if text[0] != '"' else once.decode() == text


def test_lone_surrogates_beside_anything_can_be_written() -> None:
    """The escape is what RFC 8259 section 8.2 leaves."""
    value = {"\udc00": ["\ud800", Decimal("1e400"), 1.5, None, {"a": True}]}
    assert parse_json(as_json(value)) == value


def test_a_control_character_is_found() -> None:
    """C0, DEL and C1."""
    assert [find_control(text) for text in ("ab", "a\tb", "\x7f", "ab\x85", "\u2028")] == [
        None,
        1,
        0,
        2,
        None,
    ]


@given(JSON)
@settings(deadline=None)
def test_a_value_survives_the_way_out_and_in(value: object) -> None:
    """Round trip."""
    assert parse_json(as_json(value)) == value


@given(JSON)
@settings(deadline=None)
def test_what_is_encoded_by_member_is_the_same(value: object) -> None:
    """Whatever the value, its members and their number."""
    assert as_json_by_member(value) == as_json(value)


@each_row(
    "value",
    [
        {"\udc00": "\ud800", "b": [Decimal("1e400")]},
        list(range(FEW_MEMBERS + 1)),
        dict.fromkeys(map(str, range(FEW_MEMBERS)), 1.5),
    ],
    ids=["lone surrogates", "many members", "few members"],
)
def test_odd_values_are_encoded_by_member_too(value: object) -> None:
    """As at once."""
    assert as_json_by_member(value) == as_json(value)


@each_row("form", ["list", "object", "wrapped", "two levels"])
def test_each_large_member_is_a_piece_of_its_own(form: str) -> None:
    """However the values are put together; many small members are one piece."""
    texts = ["x" * 1_000] * 16
    named = {str(place): text for place, text in enumerate(texts)}
    value: object = {
        "list": texts,
        "object": named,
        "wrapped": {"data": [[named]]},
        "two levels": {"some": texts[:8], "others": {"a": [texts[0]], "b": texts[1]}},
    }[form]
    assert max(map(len, encode_in_pieces(value))) < 1_010
    assert b"".join(encode_in_pieces(value)) == as_json(value)
    assert len(list(encode_in_pieces(list(range(FEW_MEMBERS + 1))))) == 1


@given(st.binary())
@settings(deadline=None)
def test_any_bytes_have_a_value(body: bytes) -> None:
    """Never raises, and what was read can be written."""
    as_json(parse_json(body))
