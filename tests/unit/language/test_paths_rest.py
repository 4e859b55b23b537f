"""Paths that are refused or equal: what the other tests of JSONPath leave out (RFC 9535)."""

import pytest

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.iregexp import compile_pattern
from scheduler_service.language.jsonpath import compile_path


@pytest.mark.parametrize(
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


def test_what_is_no_i_regexp_matches_nothing() -> None:
    """RFC 9535 section 2.4.6: the result is false."""
    assert not compile_pattern("(?=a)", whole=False).matches("a")
