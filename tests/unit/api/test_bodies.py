"""The body of an array is read whole, by the same rules as any other (SPEC section 10, RFC 8259)."""

import json
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.api.bodies import (
    MAX_DEPTH,
    WHOLE_MAX,
    read_each,
    read_items,
    read_json,
    split_array,
    split_member,
)
from scheduler_service.api.responses import ApiProblem
from tests.rows import each_row
from tests.unit.api.world import definition, pointers
from tests.wire.definitions import JSON

JSON_TYPE = {"Content-Type": "application/json"}


def nest(value: Any, levels: int) -> Any:
    """`value` below so many more levels."""
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


DEEP = st.builds(nest, JSON, st.integers(MAX_DEPTH - 8, MAX_DEPTH + 2))
TEXTS = st.builds(json.dumps, JSON | DEEP) | st.sampled_from(["nul", "1e999", '"\\ud800"', "{"])


@settings(deadline=None)
@given(items=st.lists(TEXTS, max_size=4))
def test_the_values_of_an_array_are_those_of_its_body(items: list[str]) -> None:
    """What refuses the one refuses the other, for the same reason."""
    body = ("[" + ", ".join(items) + "]").encode()
    assert read(body, in_pieces=True) == read(body, in_pieces=False)


def read(body: bytes, *, in_pieces: bool) -> object:
    """The values, or what is wrong with them."""
    try:
        items = read_items(body, most=1_000, longest=WHOLE_MAX) if in_pieces else []
        return list(read_each(body, items)) if in_pieces else read_json(body)
    except ApiProblem as problem:
        return problem.body()


@each_row(("levels", "code"), [(MAX_DEPTH - 1, None), (MAX_DEPTH, "too_deep")])
def test_an_item_may_be_as_deep_as_the_array_leaves_it(levels: int, code: str | None) -> None:
    """64 levels in all."""
    found = read(json.dumps([nest(1, levels), 2]).encode(), in_pieces=True)
    if code is None:
        assert found == [nest(1, levels), 2]
    else:
        assert isinstance(found, dict)
        assert found["errors"][0]["code"] == code


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{\n "a": 1\n "b": 2}', "Expecting ',' delimiter at line 3, column 2"),
        (b"{", "at line 1, column 2"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": "\xff"}', "not UTF-8 from byte 7 on"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "a number is too large for any use here; send a smaller one"),
    ],
)
async def test_invalid_json_is_refused_with_its_place(
    client: httpx.AsyncClient, body: bytes, said: str
) -> None:
    """The message says what is wrong and where (SPEC section 10)."""
    assert said in (await client.post("/jobs/j1", content=body, headers=JSON_TYPE)).json()["detail"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"{'a': 1}", 400),
        (b"[1,]", 400),
        (b"NaN", 400),
        (b'{"a": NaN}', 400),
        (b'{"a": -Infinity}', 400),
        (b'{"a": "\\ud800"}', 400),
        (b'"\xff"', 400),
        (b'\xef\xbb\xbf{"a": 1}', 400),
        (b'{"a": 1} x', 400),
        (b'{"a": 1e999}', 422),
        (b"1" * 5_000, 422),
        (b"[" * 65 + b"]" * 65, 422),
        (b'{"a":' * 65 + b"1" + b"}" * 65, 422),
        (b"[" * 100_000, 422),
    ],
)
async def test_a_body_that_is_no_json_is_refused(client: httpx.AsyncClient, body: bytes, status: int) -> None:
    """400 malformed, 422 nested deeper than 64 levels or out of range (SPEC section 10)."""
    for path in ("/jobs/j1", "/jobs", "/timers/preview"):
        response = await client.post(path, content=body, headers=JSON_TYPE)
        assert response.status_code == status
        pointers(response)


async def test_sixty_four_levels_are_fine(client: httpx.AsyncClient) -> None:
    """A body is at most 64 levels deep (SPEC section 10): the object, and 63 in it."""
    await client.post("/jobs/j1", json=definition())
    for levels, status in ((63, 200), (64, 422)):
        body = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
        response = await client.post("/jobs/j1/trigger", content=body, headers=JSON_TYPE)
        assert response.status_code == status


TWICE = [
    ('"maxRetries":3', '"maxRetries":3,"maxRetries":3', "/maxRetries"),
    ('"url":', '"url":"http://b.test/","url":', "/request/0/url"),
    ('"n":1', '"n":1,"n":2', "/request/0/body/n"),
    ('"dueTime"', '"period":"1m","dueTime"', "/timer/period"),
    ('"a":"b"', '"a":"b","\\u0061":"b"', "/labels/a"),
]


@each_row(("before", "after", "pointer"), TWICE)
async def test_a_name_that_is_given_twice_is_refused(
    client: httpx.AsyncClient, before: str, after: str, pointer: str
) -> None:
    """RFC 8259, section 4: where names are not unique readers differ. Whether the shape is known or not."""
    good = json.dumps(
        definition(
            jobId="j1", maxRetries=3, labels={"a": "b"}, timer={"dueTime": "1h", "period": "1m"},
            request=[{"url": "http://a.test/", "body": {"n": 1}}],
        ),
        separators=(",", ":"),
    )  # fmt: skip
    bad = good.replace(before, after, 1)
    assert bad != good
    for content in (bad, good, bad):
        response = await client.post("/jobs", content=f"[{content}]", headers=JSON_TYPE)
        (item,) = response.json()["data"]["items"]
        errors = [] if content is good else [(pointer, "repeated")]
        assert [
            (one["pointer"], one["code"]) for one in (item["problem"] or {"errors": ()})["errors"]
        ] == errors
        response = await client.post("/jobs/j1", content=content, headers=JSON_TYPE)
        assert response.status_code == (200 if content is good else 422), response.text


@each_row(
    ("path", "body", "pointer"),
    [
        ("/jobs/j1/trigger", '{"a":{"b":1,"b":2}}', "/a/b"),
        ("/timers/preview", '{"timer":{"period":"1m","period":"2m"}}', "/timer/period"),
        ("/jobs/j2", json.dumps(definition(timer='{"period":"1m","period":"2m"}')), "/timer/period"),
        ("/definitions/try", '{"definition":{"jobName":"a","jobName":"b"}}', "/definition/jobName"),
        ("/queues/q/claim", '{"max":1,"max":1}', "/max"),
    ],
)
async def test_no_operation_takes_a_name_twice(
    client: httpx.AsyncClient, path: str, body: str, pointer: str
) -> None:
    await client.post("/jobs/j1", json=definition())
    response = await client.post(path, content=body, headers=JSON_TYPE)
    assert (response.status_code, pointers(response)) == (422, [(pointer, "repeated")])
    assert "given twice" in response.json()["detail"]


async def test_a_check_that_is_a_text_is_a_url(client: httpx.AsyncClient) -> None:
    """Its brackets are no JSON: one that closed nothing was a fault of the service."""
    body = definition(checkUrl="http://a.test/?a=]}") | {"async": True}
    response = await client.post("/jobs/j1", json=body)
    assert response.status_code == 201, response.text


@pytest.mark.parametrize("name", ["Content-Type", "Idempotency-Key"])
async def test_two_values_of_a_header_that_has_one_are_refused(client: httpx.AsyncClient, name: str) -> None:
    """Who stands before the service may read another one than the service; twice the same is harmless."""
    known = [("Content-Type", "application/json"), ("Idempotency-Key", "k")]
    body = json.dumps(definition()).encode()
    response = await client.post("/jobs/j1", content=body, headers=[*known, (name, "text/plain")])
    assert (response.status_code, pointers(response)) == (400, [(f"/{name}", "repeated")])
    response = await client.post("/jobs/j1", content=body, headers=[*known, *known])
    assert response.status_code == 201


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
    # What is no array is refused: 422, whatever follows its first character
    assert refused(b'{"a":' + b"[" * 1_000) == (422, "", "type")
    # Nothing is read behind what is refused
    assert refused(b"[{},{},{},[[[[", most=2) == (422, "", "range")
    assert refused(b'[{},"' + b"x" * 50 + b'",[[[[', longest=20) == (413, "/1", "too_large")
    assert refused(b"[{}," + b"[" * 50, longest=20) == (413, "/1", "too_large")
    # An item may be as large as the limit: and no larger
    assert split_array(b'["abc"]', most=1, longest=5) == [b'"abc"']
    assert refused(b'["abc"]  ', longest=4) == (413, "/0", "too_large")


NAMES = st.sampled_from(["timers", "a", "ti\u006ders", 'b"', "[{"])


@settings(deadline=None)
@given(members=st.lists(st.tuples(NAMES, JSON), max_size=5), indent=st.sampled_from([-1, 1]))
def test_an_object_is_parted_as_a_decoder_reads_it(members: list[tuple[str, object]], indent: int) -> None:
    """A name that is given twice is refused, whether its value is an array or not."""
    names = [name for name, _ in members]
    text = ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members)
    body = msgspec.json.format(b"{%s}" % text.encode(), indent=indent)
    whole = json.loads(body)
    if len(whole) < len(names):
        with pytest.raises(ApiProblem, match="is given twice"):
            split_member(body, "timers", most=9, longest=LONG)
        return
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
