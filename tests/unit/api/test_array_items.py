"""The items of a large array are found without decoding it (SPEC section 10)."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.api.array_items import split_array
from scheduler_service.api.responses import ApiProblem
from tests.wire.definitions import JSON

LONG = 1_000_000


def refused(body: bytes, *, most: int = 1_000, longest: int = LONG) -> tuple[int, str, str]:
    """Status, pointer and code."""
    with pytest.raises(ApiProblem) as caught:
        split_array(body, most=most, longest=longest)
    (error,) = caught.value.errors
    return int(caught.value.status), error["pointer"], error["code"]


@settings(deadline=None)
@given(items=st.lists(JSON, max_size=5), indent=st.sampled_from([-1, 1]))
def test_the_items_are_those_that_a_decoder_finds(items: list[object], indent: int) -> None:
    """Brackets, commas and quotation marks within texts separate nothing."""
    body = msgspec.json.format(msgspec.json.encode(items), indent=indent)
    assert split_array(body, most=9, longest=LONG) == [
        bytes(item) for item in msgspec.json.decode(body, type=list[msgspec.Raw])
    ]


@pytest.mark.parametrize(
    "body",
    [b"[", b"[{}", b"[{},", b"[,]", b"[{}{}]", b"[1 2]", b'["a]', b"[[}", b"[{}] x", b"[1:2]", b"[{},]"],
)
def test_what_has_no_end_is_malformed(body: bytes) -> None:
    """400: an array that is cut off, or goes on behind its end."""
    assert refused(body) == (400, "", "malformed")


def test_the_kinds_of_brackets_are_left_to_a_decoder() -> None:
    """An item is decoded later, and is refused then."""
    assert split_array(b"[{]]", most=9, longest=LONG) == [b"{]"]


def test_what_is_no_array_is_refused() -> None:
    """422, whatever follows its first character."""
    assert refused(b'{"a":' + b"[" * 1_000) == (422, "", "type")


def test_nothing_is_read_behind_what_is_refused() -> None:
    """Neither the items beyond the most, nor those behind one that is too large, need be valid, nor end."""
    assert refused(b"[{},{},{},[[[[", most=2) == (422, "", "range")
    assert refused(b'[{},"' + b"x" * 50 + b'",[[[[', longest=20) == (413, "/1", "too_large")
    assert refused(b"[{}," + b"[" * 50, longest=20) == (413, "/1", "too_large")


def test_an_item_may_be_as_large_as_the_limit() -> None:
    """And no larger."""
    assert split_array(b'["abc"]', most=1, longest=5) == [b'"abc"']
    assert refused(b'["abc"]  ', longest=4) == (413, "/0", "too_large")
