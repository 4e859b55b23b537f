"""Filter expressions of a JSONPath (RFC 9535 section 2.3.5)."""

from scheduler_service.language.jsonpath import compile_path, evaluate


def find(path: str, root: object) -> object:
    return evaluate(compile_path(path), root)


def test_true_is_not_one() -> None:
    """RFC 9535 section 2.3.5.2.2, at any depth; integers are compared exactly."""
    assert find("$[?@.a == $[1].a]", [{"a": [1]}, {"a": [True]}]) == [{"a": [True]}]
    big = 12345678901234567890
    assert find(f"$[?@ == {big}]", [big, big + 1]) == [big]
