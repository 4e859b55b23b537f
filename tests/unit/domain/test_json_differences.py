"""Where two JSON values differ (SPEC section 11, drift)."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.json_differences import Difference, find_differences
from tests.rows import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "a/b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "~"]), inner),
    max_leaves=8,
)


@each_row(
    ("declared", "stored", "found"),
    [
        ({"a": 1, "b": [1, 2]}, {"a": 1.0, "b": [1, 2]}, []),
        ({"a": 1}, {"a": True}, [("/a", 1, True)]),
        ({"a": {"b": "x"}}, {"a": {"b": "y"}}, [("/a/b", "x", "y")]),
        ({"l": [1, {"m": 2}]}, {"l": [1, {"m": 3}]}, [("/l/1/m", 2, 3)]),
        ({"l": [1]}, {"l": [1, 2]}, [("/l", [1], [1, 2])]),
        ({"a": 1}, {"b~/": 1}, [("/a", 1, None), ("/b~0~1", None, 1)]),
        ([], {}, [("", [], {})]),
    ],
)
def test_the_innermost_places_are_named(
    declared: Any, stored: Any, found: list[tuple[str, Any, Any]]
) -> None:
    """Each with its JSON Pointer and both values."""
    assert list(find_differences(declared, stored)) == [Difference(*one) for one in found]


@settings(deadline=None)
@given(JSON, JSON)
def test_none_are_found_where_the_values_are_equal(mine: Any, theirs: Any) -> None:
    """And some where they are not, whatever they are made of."""
    assert not list(find_differences(mine, json.loads(json.dumps(mine))))
    same = json.dumps(mine, sort_keys=True) == json.dumps(theirs, sort_keys=True)
    assert bool(list(find_differences(mine, theirs))) is not same
