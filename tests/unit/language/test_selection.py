"""Segments and selectors of a JSONPath (RFC 9535 sections 2.3 and 2.5)."""

from scheduler_service.language.jsonpath import Missing, compile_path, evaluate
from tests.rows import each_row


def find(path: str, root: object) -> object:
    return evaluate(compile_path(path), root)


@each_row(
    ("path", "value"),
    [
        ("$", {"a": [1, None]}),
        ("$.a[0]", 1),
        ("$['a'][-1]", None),
        ("$.a[5]", Missing()),
        ("$.a.x", Missing()),
    ],
)
def test_a_singular_path_has_its_value_or_none(path: str, value: object) -> None:
    """SPEC section 4: it gives its value, and fails when there is none."""
    assert compile_path(path).singular
    assert find(path, {"a": [1, None]}) == value


@each_row(("path", "value"), [("$.a[*]", [1, None]), ("$.b[*]", []), ("$..x", []), ("$.a[:1]", [1])])
def test_any_other_path_gives_an_array(path: str, value: object) -> None:
    """SPEC section 4: perhaps an empty one."""
    assert not compile_path(path).singular
    assert find(path, {"a": [1, None]}) == value
