"""Brackets are found as one by one, however many are looked at in one call."""

import json
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.language.json_pieces import decode_in_pieces, decode_json
from scheduler_service.language.json_scan import (
    BLANKS_MAX,
    BRACKETS_ALONE,
    LEAP_LEVELS,
    TEXT,
    WINDOW_BYTES_MAX,
    Leaps,
    count_openings,
    end_of_value,
    find_repeated_name,
    has_few_values,
)
from scheduler_service.language.json_values import has_repeated_names
from tests.rows import each_row

MIB = 1 << 20
ITEMS = [b"[]", b"{}", b"[[1],[2]]", b'{"a":[]}', b"3", b'"]"', b'"\\"["', b"[" * 30 + b"]" * 30, b"[}", b"]"]
ROWS = st.lists(st.sampled_from(ITEMS), min_size=1, max_size=6)
HARMFUL = st.sampled_from([b",", b"[", b"]", b"{", b"}", b":", b'"', b"\\", b""])


def row(items: list[bytes], size: int) -> bytes:
    return b"[" + b",".join(items * (size // len(items))) + b"]"


def end_one_by_one(text: bytes, limit: int) -> int | None:
    """Where the value ends with which `text` begins, for texts without quotes."""
    depth = 0
    for place, byte in enumerate(text[:limit]):
        depth += (byte in b"[{") - (byte in b"]}")
        if not depth:
            return place + 1
    return None


@given(ROWS, st.integers(60, 3_000), st.integers(0, 9_000), st.integers(0, 40))
def test_the_end_is_where_the_brackets_say(items: list[bytes], size: int, limit: int, more: int) -> None:
    """With anything behind it, and where a limit comes before it."""
    text = row([item for item in items if b'"' not in item] or [b"[]"], size) + b"]" * more
    assert end_of_value(text, 0, limit) == end_one_by_one(text, limit)
    assert end_of_value(text, 0, len(text)) == end_one_by_one(text, len(text))


@given(ROWS, st.integers(60, 600), st.integers(40, 900), st.floats(0, 1), st.integers(0, 3), HARMFUL)
def test_a_row_of_many_is_decoded_in_pieces_as_the_whole(
    items: list[bytes], size: int, most: int, at: float, cut: int, put: bytes
) -> None:
    """Also what is nearly JSON: its value, or that it has none."""
    text = row(items, size)
    place = round(at * len(text))
    text = text[:place] + put + text[place + cut :]
    assert answer(text, most) == answer(text, 1 << 30)


def answer(text: bytes, most: int) -> Any:
    try:
        return repr(decode_in_pieces(text, msgspec.json.decode, most=most))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def leap(text: bytes, limit: int, levels: int, *, in_vain: int) -> int:
    """From the begin, after so many brackets with nothing behind them."""
    leaps = Leaps(text)
    for _ in range(in_vain):
        assert leaps.further(0, 0, levels) == 0
    return leaps.further(0, limit, levels)


@each_row("in_vain", [0, BRACKETS_ALONE - 1])
def test_a_leap_ends_right_behind_what_is_closed(in_vain: int) -> None:
    """Not within what is open still, nor behind the end of what it began in, nor beyond the limit."""
    text = b"[]," * 200 + b"[[],[]" + b"]]" + b"[]"
    assert leap(text, 602, 1_000, in_vain=in_vain) == 599
    assert leap(text, len(text), 1_000, in_vain=in_vain) == len(text) - 3
    assert leap(text, 4, 1_000, in_vain=in_vain) == 2
    assert leap(b"1,2,3", 5, 1_000, in_vain=in_vain) == 0


def test_a_leap_leaves_what_nests_too_deep() -> None:
    """To who counts its levels."""
    assert leap(b"[[[]]],", 7, 3, in_vain=BRACKETS_ALONE - 1) == 0
    assert leap(b"[[[]]],", 7, 4, in_vain=BRACKETS_ALONE - 1) == 6
    assert leap(b"[[[]]],", 7, LEAP_LEVELS, in_vain=0) == 0
    assert leap(b"[[[]]],", 7, LEAP_LEVELS + 1, in_vain=0) == 6
    deep = b"[" * (LEAP_LEVELS + 1) + b"]" * (LEAP_LEVELS + 1)
    assert leap(deep, len(deep), 1_000, in_vain=0) == 0
    assert leap(deep[1:-1], len(deep), 1_000, in_vain=0) == len(deep) - 2


@each_row("one", [b"[]", b"{}", b"[[],[]]", b"[" * 60 + b"]" * 60])
def test_many_brackets_take_few_calls(one: bytes) -> None:
    """Both to find the end and to decode: of Python and of C. One by one it is 1.4 million.

    Where items are deep, few looks begin between two of them: it is two thirds of a million at the most.
    """
    text = b"[" + b",".join([one] * (MIB // (len(one) + 1))) + b"]"
    assert count_calls(lambda: end_of_value(text, 0, len(text))) < MIB / WINDOW_BYTES_MAX * 20
    most = MIB * 2 / 3 if len(one) > 100 else MIB / 40
    assert count_calls(lambda: decode_in_pieces(text, msgspec.json.decode)) < most


@given(ROWS, st.integers(1, 30), st.floats(0, 1), st.integers(0, 3), HARMFUL)
def test_few_values_are_no_more_than_there_are_separators(
    items: list[bytes], most: int, at: float, cut: int, put: bytes
) -> None:
    """Whatever stands in the texts, also in what is nearly JSON: as with texts found by their pattern."""
    text = b"[" + b",".join(items) + b"]"
    place = round(at * len(text))
    text = text[:place] + put + text[place + cut :]
    bare = re.sub(TEXT, b"", text, flags=re.DOTALL)
    if b'"' not in bare:
        separators = sum(bare.count(byte) for byte in (b",", b"[", b"{"))
        texts = len(re.findall(TEXT, text, re.DOTALL))
        assert has_few_values(text, most) == (separators + texts + 1 <= most)


def test_openings_are_counted_up_to_a_number() -> None:
    """Of both kinds together."""
    assert count_openings(b'[{"a":"["},[]]', 9) == 4
    assert count_openings(b'[{"a":"["},[]]', 4) == 4
    assert count_openings(b'[{"a":"["},[]]', 3) == 3
    assert count_openings(b"[" * 9 + b"{" * 9, 9) == 9
    assert count_openings(b"1", 9) == 0
    # Long texts are few values
    prose = rb"Yes, [it] {is}; \\ \n" * 10_000
    assert has_few_values(b'{"a": "' + prose + b'", "b": 1}', 8)
    assert not has_few_values(b'{"a": "' + prose + b'", "b": 1}', 5)
    assert not has_few_values(b'["' + rb"\"" * 1_000 + b'"]', 400)
    assert not has_few_values(b'["' + rb"\\" * 1_000 + b'"]', 400)
    assert not has_few_values(b" " * BLANKS_MAX + b"[]", 400)
    assert not has_few_values(b'["never ended', 400)
    assert not has_few_values(b"[" + b"1," * 400 + b"1]", 400)


def count_calls(work: Callable[[], object]) -> int:
    counted = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


PAIRS = st.lists(
    st.tuples(st.sampled_from(["a", "b", ":", '"', "\u003a", "é"]), st.deferred(lambda: NESTED)), max_size=4
)
NESTED = st.sampled_from(["1", "null", '":"', '"\\u003a"', '"{\\"a\\":"']) | st.one_of(
    st.lists(st.deferred(lambda: NESTED), max_size=3).map(lambda items: f"[{','.join(items)}]"),
    PAIRS.map(lambda pairs: "{" + ", ".join(f"{json.dumps(name)} : {text}" for name, text in pairs) + "}"),
)


def repeats(pairs: list[tuple[str, object]]) -> object:
    """Raises KeyError for a name that is given twice."""
    if len(dict(pairs)) < len(pairs):
        raise KeyError
    return dict(pairs)


@given(NESTED)
def test_a_name_that_is_given_twice_is_found(text: str) -> None:
    """Wherever it stands and however it is written; nothing else is taken for one."""
    raw = text.encode()
    path = find_repeated_name(raw)
    try:
        value = json.loads(raw, object_pairs_hook=repeats)
    except KeyError:
        assert path is not None
        assert has_repeated_names(raw, decode_json(raw))
    else:
        assert path is None
        assert "\\u003" in text or not has_repeated_names(raw, value)


@each_row(
    ("text", "path"),
    [
        (b'{"a":1,"b":{},"a":2}', ["a"]),
        (b'[1,[],{"x":[{"y":{}},{"y":1,"z":"y","\\u0079":2}]}]', [2, "x", 1, "y"]),
        (b'{"a":{"a":[{"a":1},{"a":2}]},"A":1}', None),
    ],
)
def test_where_a_name_is_given_twice(text: bytes, path: list[str | int] | None) -> None:
    assert find_repeated_name(text) == path
