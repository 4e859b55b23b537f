"""A text that is decoded in pieces has the value, and the errors, of the whole."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_service.language.json_pieces import PIECE_BYTES, decode_in_pieces, decode_json
from tests.rows import each_row

SIZE = 1 << 18
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=60
)
HARMFUL = st.sampled_from(
    [b",", b"[", b"]", b"{", b"}", b":", b'"', b"\\", b" ", b"1", b"null", b'"a":', b""]
)


def fill(one: bytes, size: int = SIZE) -> bytes:
    return b"[" + b",".join([one] * (size // (len(one) + 1))) + b"]"


def answer(text: bytes, *, most: int) -> Any:
    """The value as text, so that the order of members counts and 1 is not 1.0, or that there is none."""
    try:
        return repr(decode_in_pieces(text, msgspec.json.decode, most=most))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


@given(VALUES, st.integers(1, 40), st.sampled_from([None, 1]))
def test_the_value_is_that_of_the_whole(value: object, most: int, indent: int | None) -> None:
    """Wherever it is cut."""
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert answer(text, most=most) == answer(text, most=1 << 30)


@given(VALUES, st.integers(1, 12), st.floats(0, 1), st.integers(0, 4), HARMFUL)
@example(value=[[1, 2], 3], most=1, at=1.0, cut=0, put=b"]")
@example(value=[[1, 2], 3], most=1, at=0.5, cut=0, put=b",")
def test_what_is_refused_is_what_the_whole_is_refused_for(
    value: object, most: int, at: float, cut: int, put: bytes
) -> None:
    """Text that is nearly JSON: a piece that is fits its own brackets only where the whole fits too."""
    text = json.dumps(value).encode()
    place = round(at * len(text))
    text = text[:place] + put + text[place + cut :]
    assert answer(text, most=most) == answer(text, most=1 << 30)


@each_row(
    "text",
    [
        b'{"a":[1,2,3],"a":4,"b":5,"a":[6,7,8]}', b"[[1,2,3],]", b"[[1,2,3] 4]", b"[4 [1,2,3]]",
        b"[,[1,2,3]]",
        b'{"a":[1,2,3}', b"[[1,2,3]", b"[1,2,3]]", b"[1,2,3] 4", b"[[1,2,3]}", b'["\\",[",2,3,[4,5,6]]',
        b'[{"a":1}{"b":[1,2,3]}]', b'[n[1,2,3]]', b'["a":[1,2,3]]', b'{[1,2,3]}', b'{"a":1,[1,2,3]}',
        b'["[1,2,3]',
    ],
)  # fmt: skip
def test_cuts_beside_what_is_cut_out(text: bytes) -> None:
    """Each of these at every size of a piece."""
    assert {answer(text, most=most) for most in range(1, 12)} == {answer(text, most=1 << 30)}


@each_row(
    "text",
    [
        fill(b"[]"), fill(b"{}"), fill(b"7"), fill(b'"a"'), fill(b"[[[[]]]]"), b'{"a":' + fill(b"[]") + b"}",
        b"[" * 60 + fill(b"[]") + b"]" * 60, fill(fill(b"[]", 50_000)), b"[{}," + fill(b"[]") + b",{}]",
        b"{" + b",".join(b'"%x":[]' % n for n in range(20_000)) + b"}",
    ],
)  # fmt: skip
def test_no_call_gets_much_more_than_a_piece(text: bytes) -> None:
    """So many of them are one value, and each call decodes two pieces of it at the most."""
    sizes: list[int] = []

    def decode(piece: bytes) -> Any:
        sizes.append(len(piece))
        return msgspec.json.decode(piece)

    assert decode_in_pieces(text, decode) == msgspec.json.decode(text)
    assert max(sizes) <= 2 * PIECE_BYTES + 100
    assert sum(sizes) < 1.1 * len(text)


def test_numbers_that_are_dear_to_read_are_read_by_python() -> None:
    """The decoder takes 10 µs for each of these, in one call; the values are the same, to the last bit."""
    texts = [b"1e300", b"3e-324", b"1.2345678901234567e-300", b"1E+2", b"-0.0", b"2.2250738585072011e-308"]
    for text in texts:
        assert repr(decode_json(fill(text, 3_000))[0]) == repr(msgspec.json.decode(text))


@each_row("size", [100, 3_000, 300_000])
def test_a_number_that_is_too_large_is_refused_at_every_size(size: int) -> None:
    """As a validation error, which is another answer than that to malformed text."""
    with pytest.raises(msgspec.ValidationError, match="out of range"):
        decode_json(fill(b"0", size)[:-1] + b",1e999]")


def test_an_error_says_its_place_in_the_whole_text() -> None:
    """Not that in the piece."""
    text = fill(b'{"a":1}', 300_000)[:-1] + b",x]"
    with pytest.raises(msgspec.DecodeError, match=rf"\(byte {len(text) - 2}\)"):
        decode_json(text)
    # As the decoder does
    with pytest.raises(RecursionError):
        decode_json(b"[" * SIZE)
