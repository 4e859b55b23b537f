"""JSONPath under limits: nothing from outside hangs (SPEC section 4, RFC 9535)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.iregexp import compile_pattern, translate
from scheduler_service.language.jsonpath import Missing, TooMuch, compile_path, evaluate

ALPHABET = st.sampled_from(
    [*"$@.[]()?*,:'\"!=<>&|-01e ab\\", "match(", "count(", "$.a", "@.b", "..", "&&", "1e400"]
)


def find(path: str, root: object) -> object:
    return evaluate(compile_path(path), root)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("path", "value"), [("$.a[*]", [1, None]), ("$.b[*]", []), ("$..x", []), ("$.a[:1]", [1])]
)
def test_any_other_path_gives_an_array(path: str, value: object) -> None:
    """SPEC section 4: perhaps an empty one."""
    assert not compile_path(path).singular
    assert find(path, {"a": [1, None]}) == value


def test_true_is_not_one() -> None:
    """RFC 9535 section 2.3.5.2.2, at any depth; integers are compared exactly."""
    assert find("$[?@.a == $[1].a]", [{"a": [1]}, {"a": [True]}]) == [{"a": [True]}]
    big = 12345678901234567890
    assert find(f"$[?@ == {big}]", [big, big + 1]) == [big]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    assert isinstance(find(path, root), TooMuch)


def test_a_result_that_multiplies_a_large_value_is_given_up() -> None:
    """A path may name one large value many times."""
    path = "$[" + ",".join(["'a'"] * 100) + "]"
    assert isinstance(find(path, {"a": "x" * 1_000_000}), TooMuch)


@pytest.mark.parametrize("pattern", ["(a|aa)+$", "(a+)+b", "(a|a)*c", "(.*)*x"])
def test_patterns_take_linear_time(pattern: str) -> None:
    """SPEC section 4: `match` and `search` run on an engine whose time is linear."""
    assert find(f"$[?search(@, '{pattern}')]", ["a" * 100_000 + "!"]) == []


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "pattern",
    [r"\d", r"\w+", "(?:a)", "(?i)a", "a*?", "a**", "[[:alpha:]]", "[a", "(", ")", "a{,2}", "*a",
     r"\1", r"[\d]", "{1}", "|*", "(" * 200 + ")" * 200, "a" * 1_001, r"\p{Greek}", "]"],
)  # fmt: skip
def test_what_is_no_iregexp_is_refused(pattern: str) -> None:
    """RFC 9535 section 2.4.6: it matches nothing."""
    assert translate(pattern) is None


@pytest.mark.parametrize("pattern", ["(((a{1000}){1000}){1000})", "a{5000}", "[z-a]", r"\p{Cn}"])
def test_what_the_engine_does_not_take_matches_nothing(pattern: str) -> None:
    """A limit is no error."""
    assert compile_pattern(pattern, whole=False).matches("a" * 10) is False


@given(st.lists(ALPHABET, max_size=30).map("".join))
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_path_or_an_expression_error(text: str) -> None:
    """Parsers raise only their error, and a compiled path can be evaluated."""
    try:
        path = compile_path("$" + text)
    except ExpressionError:
        return
    evaluate(path, {"a": [1, {"b": "x"}], "b": None})
