"""The body of an array is read whole, by the same rules as any other (SPEC section 10, RFC 8259)."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.api.bodies import MAX_DEPTH, WHOLE_MAX, read_each, read_items, read_json
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
TEXTS = st.builds(json.dumps, JSON | DEEP) | st.sampled_from(
    ["nul", "1e999", '"\\ud800"', "{", '{"a":1,"a":2}']
)


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


async def test_the_last_of_two_equal_names_counts(client: httpx.AsyncClient) -> None:
    """RFC 8259, section 4 leaves it open; here the last one counts, and the text stays as posted."""
    text = json.dumps(definition())[:-1] + ', "jobName": "second"}'
    await client.post("/jobs/j1", content=text, headers=JSON_TYPE)
    job = (await client.get("/jobs/j1")).json()["data"]
    assert (job["jobName"], job["definition"]["jobName"]) == ("second", "second")


@pytest.mark.parametrize("name", ["Content-Type", "Idempotency-Key"])
async def test_two_values_of_a_header_that_has_one_are_refused(client: httpx.AsyncClient, name: str) -> None:
    """Who stands before the service may read another one than the service; twice the same is harmless."""
    known = [("Content-Type", "application/json"), ("Idempotency-Key", "k")]
    body = json.dumps(definition()).encode()
    response = await client.post("/jobs/j1", content=body, headers=[*known, (name, "text/plain")])
    assert (response.status_code, pointers(response)) == (400, [(f"/{name}", "repeated")])
    response = await client.post("/jobs/j1", content=body, headers=[*known, *known])
    assert response.status_code == 201
