"""JSONPath and its patterns under limits: nothing from outside hangs (SPEC section 4, RFC 9535, 9485)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.iregexp import compile_pattern, translate
from scheduler_service.language.jsonpath import Missing, NameEnvironment, Stopped, compile_path, evaluate
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


NAMES = [
    "作业",
    "作业状态",
    "a作业1",
    "_作",
    "é",
    "éé",
    "\u1100\u1101",
    "\ud7ff\ue000",
    "𠀀𠀁",
    "作𠀀b9",
    "😀😀",
    "\U0010ffff\U0010fffd",
]
EDGES = "\x80\u10ff\u1100\u4e00\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff"
"""The ends of the ranges, and of what the library's token reads."""

first = st.sampled_from("aZ_" + EDGES) | st.characters(min_codepoint=0x80, exclude_categories=["Cs"])
names = st.builds(str.__add__, first, st.text(first | st.sampled_from("09"), max_size=5))


@each_row("name", NAMES)
def test_a_name_beyond_ascii_is_a_name(name: str) -> None:
    """After a dot, after two, in a filter on both sides, and within what a filter compares."""
    root = {name: [{name: 1, "b": 2}, {name: 3, "b": 3}]}
    assert evaluate(compile_path(f"$.{name}[0].{name}"), root) == 1
    assert evaluate(compile_path(f"$..{name}[?@.b == 3].b"), root) == [3]
    assert evaluate(compile_path(f"$.{name}[?@.{name} == @.b].b"), root) == [3]
    assert evaluate(compile_path(f"$.{name}[?@.{name} == $.{name}[0].{name}].b"), root) == [2]
    assert evaluate(
        compile_path(f'$.{name}[?count(@.{name}) == 1 && match("{name}", "{name}")].b'), root
    ) == [2, 3]


@given(names)
def test_every_name_finds_its_member(name: str) -> None:
    """The short form and the one in brackets mean the same."""
    assert evaluate(compile_path(f"$.{name}"), {name: 1}) == 1
    assert evaluate(compile_path(f"$..{name}"), {"x": {name: 1}}) == [1]
    assert compile_path(f"$.{name}").steps == compile_path(f"$['{name}']").steps == (name,)


@each_row("path", ["$.1作", "$.作 业", "$.作-业", "$.\x7f", "$.作\x7f", "$.作\ud800", "$.", "$..", "$.作["])
def test_what_is_no_name_is_refused(path: str) -> None:
    """ASCII other than letters, digits and '_', a digit in front, half a character."""
    with pytest.raises(ExpressionError):
        compile_path(path)


@given(st.text(st.sampled_from("$@.[]()?*,:'\"!=<>&|-01e ab_\\"), max_size=20))
def test_ascii_is_read_as_the_library_reads_it(text: str) -> None:
    """The same queries, and the same errors at the same place."""
    assert read(NameEnvironment(), "$" + text) == read(JSONPathEnvironment(), "$" + text)


def read(environment: JSONPathEnvironment, query: str) -> object:
    try:
        return str(environment.compile(query))
    except JSONPathError as error:
        return error.args[0], None if error.token is None else error.token.index
    except (ValueError, OverflowError) as error:
        return type(error)


def test_true_is_not_one() -> None:
    """RFC 9535 section 2.3.5.2.2, at any depth; integers are compared exactly."""
    assert find("$[?@.a == $[1].a]", [{"a": [1]}, {"a": [True]}]) == [{"a": [True]}]
    big = 12345678901234567890
    assert find(f"$[?@ == {big}]", [big, big + 1]) == [big]


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


def test_what_is_no_i_regexp_matches_nothing() -> None:
    """RFC 9535 section 2.4.6: the result is false."""
    assert not compile_pattern("(?=a)", whole=False).matches("a")


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
