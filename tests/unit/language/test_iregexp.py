"""x"""

from scheduler_service.language.iregexp import compile_pattern, translate
from scheduler_service.language.jsonpath import compile_path, evaluate
from tests.rows import each_row


def test_what_is_no_i_regexp_matches_nothing() -> None:
    """RFC 9535 section 2.4.6: the result is false."""
    assert not compile_pattern("(?=a)", whole=False).matches("a")


def find(path: str, root: object) -> object:
    return evaluate(compile_path(path), root)


@each_row("pattern", ["(a|aa)+$", "(a+)+b", "(a|a)*c", "(.*)*x"])
def test_patterns_take_linear_time(pattern: str) -> None:
    """SPEC section 4: `match` and `search` run on an engine whose time is linear."""
    assert find(f"$[?search(@, '{pattern}')]", ["a" * 100_000 + "!"]) == []


@each_row(
    ("pattern", "text", "matches"),
    [
        ("a.c", "a\u2028c", True),
        ("a.c", "a\nc", False),
        ("[a-c-]+", "a-b", True),
        ("[^a]", "b", True),
        ("a{2,3}", "aaa", True),
        ("(ab|c)*", "abcab", True),
        (r"\p{Lu}\P{L}", "A1", True),
        (r"\.\n", ".\n", True),
        ("", "", True),
        (".", "\ud800", True),
    ],
)
def test_an_iregexp_matches_by_its_own_rules(pattern: str, text: str, matches: bool) -> None:
    """RFC 9485."""
    assert compile_pattern(pattern, whole=True).matches(text) is matches


@each_row(
    "pattern",
    [r"\d", r"\w+", "(?:a)", "(?i)a", "a*?", "a**", "[[:alpha:]]", "[a", "(", ")", "a{,2}", "*a",
     r"\1", r"[\d]", "{1}", "|*", "(" * 200 + ")" * 200, "a" * 1_001, r"\p{Greek}", "]"],
)  # fmt: skip
def test_what_is_no_iregexp_is_refused(pattern: str) -> None:
    """RFC 9535 section 2.4.6: it matches nothing."""
    assert translate(pattern) is None


@each_row("pattern", ["(((a{1000}){1000}){1000})", "a{5000}", "[z-a]", r"\p{Cn}"])
def test_what_the_engine_does_not_take_matches_nothing(pattern: str) -> None:
    """A limit is no error."""
    assert compile_pattern(pattern, whole=False).matches("a" * 10) is False
