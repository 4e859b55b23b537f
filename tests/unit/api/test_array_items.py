"""The items of a large array are found without decoding it (SPEC section 10)."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.api.array_items import split_array, split_member
from scheduler_service.api.responses import ApiProblem
from tests.rows import each_row
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


@each_row(
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


NAMES = st.sampled_from(["timers", "a", "ti\u006ders", 'b"', "[{"])


@settings(deadline=None)
@given(members=st.lists(st.tuples(NAMES, JSON), max_size=5), indent=st.sampled_from([-1, 1]))
def test_an_object_is_parted_as_a_decoder_reads_it(members: list[tuple[str, object]], indent: int) -> None:
    """Of equal names the last one counts, whether its value is an array or not."""
    text = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members)
    body = msgspec.json.format(b"{%s}" % text.encode(), indent=indent)
    whole = json.loads(body)
    found = split_member(body, "timers", most=9, longest=LONG)
    rest = json.loads(found.rest)
    if isinstance(whole.get("timers"), list):
        assert rest == {name: value for name, value in whole.items() if name != "timers"}
        assert found.items is not None
        assert json.loads(body[found.begin : found.end]) == whole["timers"]
        assert [json.loads(item) for item in found.items] == whole["timers"]
    else:
        assert (found.items, rest) == (None, whole)


@each_row(
    ("body", "expected"),
    [
        (b'{"timers":[{},{},{},[[[[', (422, "/timers", "range")),
        (b'{"timers":[{},"' + b"x" * 50 + b'",[[[[', (413, "/timers/1", "too_large")),
        (b'{"a":"' + b"x" * 50, (413, "", "too_large")),
        (b'{"timers":{"a":[' + b"[]," * 50, (413, "", "too_large")),
        (b"[" * 50, (413, "", "too_large")),
        (b'{"timers":[{}],"a":1,"b":"' + b"x" * 14 + b'"}', (413, "", "too_large")),
        (b'{"timers":[{}', (400, "/timers", "malformed")),
        (b'{"timers":[],', (400, "", "malformed")),
        (b'{"timers" []}', (400, "", "malformed")),
        (b'{"timers":[]} x', (400, "", "malformed")),
        (b"{1:[]}", (400, "", "malformed")),
        (b"[]", (400, "", "malformed")),
    ],
)
def test_nothing_is_read_of_an_object_behind_what_is_refused(
    body: bytes, expected: tuple[int, str, str]
) -> None:
    """What follows need be neither valid nor short."""
    with pytest.raises(ApiProblem) as caught:
        split_member(body, "timers", most=2, longest=30)
    (error,) = caught.value.errors
    assert (int(caught.value.status), error["pointer"], error["code"]) == expected
