"""JSONPath under limits: nothing from outside hangs (SPEC section 4, RFC 9535)."""

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.jsonpath import Stopped, compile_path, evaluate
from tests.rows import each_row


def find(path: str, root: object) -> object:
    return evaluate(compile_path(path), root)


@each_row(
    "path",
    ["", "a", "$.", "$[", "$.a b", "$[?@.a =~ /(a+)+$/]", "$[?foo(@)]", "$[99999999999999999999]",
     "$[?@==1e400]", "$[?" + "||".join("@" * 102) + "]",
     "$" + ".a" * 1_000, "$[?" + "(" * 300 + "@" + ")" * 300 + "]", "$[?" + "!" * 300 + "@]",
     "$" + "[?@" * 200 + "]" * 200],
)  # fmt: skip
def test_a_bad_or_monstrous_path_is_refused(path: str) -> None:
    """SPEC section 4: checked when the job is created."""
    with pytest.raises(ExpressionError):
        compile_path(path)


def test_a_long_chain_is_no_nesting() -> None:
    """Many terms of one operator are fine."""
    path = "$[?" + "&&".join(["@.a"] * 100) + "]"
    assert find(path, [{"a": 1}, {}]) == [{"a": 1}]


@each_row(
    ("path", "root"),
    [
        ("$..[?$..[?$..[?@.x]]]", [[[]] * 100] * 100),
        ("$[*]..[*]..[*]..[*]..[*]", [[[[[[1] * 10] * 10] * 10] * 10] * 10]),
        ("$[?@ == $[0]]", [[0] * 3_000] * 3_000),
        ("$[?" + "||".join(["@ != @"] * 100) + "]", [[0] * 1_000] * 100),
        ("$[?search(@, '(a?){1000}b')]", ["a" * 1_000_000]),
        ("$[?match(@.a, @.b)]", [{"a": "a" * 100, "b": f"({'a?' * 100}){index}"} for index in range(10_000)]),
    ],
)
def test_a_path_that_visits_too_much_is_given_up(path: str, root: object) -> None:
    """SPEC section 4: whatever a response holds, the service goes on."""
    assert isinstance(find(path, root), Stopped)


def test_a_result_that_multiplies_a_large_value_is_given_up() -> None:
    """A path may name one large value many times."""
    path = "$[" + ",".join(["'a'"] * 100) + "]"
    assert isinstance(find(path, {"a": "x" * 1_000_000}), Stopped)


@each_row(
    ("path", "words"),
    [
        ("$[?!1]", "a filter is a comparison, a query or a function"),
        ("$[?(@.a==1)==2]", "this cannot be compared"),
        ("$[?@.a==!@.b]", "this cannot be compared"),
    ],
)
def test_what_the_grammar_forbids_is_refused(path: str, words: str) -> None:
    """A literal is no test, and a logical expression no operand (RFC 9535 section 2.3.5)."""
    with pytest.raises(ExpressionError, match=words):
        compile_path(path)


def test_paths_are_values() -> None:
    """Equal texts are equal paths, also as keys; nothing else is one."""
    assert len({compile_path("$.a"), compile_path("$.a"), compile_path("$.b")}) == 2
    assert compile_path("$.a") != "$.a"
