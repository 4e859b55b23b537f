"""The body of an array is read whole, by the same rules as any other (SPEC section 10, RFC 8259)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.api.bodies import DEEPEST, read_each, read_items, read_json
from scheduler_service.api.problems import ApiProblem
from tests.wire.definitions import JSON


def nest(value: Any, levels: int) -> Any:
    """`value` below so many more levels."""
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


DEEP = st.builds(nest, JSON, st.integers(DEEPEST - 8, DEEPEST + 2))
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
        return list(read_each(body, read_items(body))) if in_pieces else read_json(body)
    except ApiProblem as problem:
        return problem.body()


@pytest.mark.parametrize(("levels", "code"), [(DEEPEST - 1, None), (DEEPEST, "too_deep")])
def test_an_item_may_be_as_deep_as_the_array_leaves_it(levels: int, code: str | None) -> None:
    """64 levels in all."""
    found = read(json.dumps([nest(1, levels), 2]).encode(), in_pieces=True)
    if code is None:
        assert found == [nest(1, levels), 2]
    else:
        assert isinstance(found, dict)
        assert found["errors"][0]["code"] == code
