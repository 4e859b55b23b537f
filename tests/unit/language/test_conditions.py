"""Conditions on an answer: what stands behind `?` in a filter (SPEC section 4, RFC 9535 section 2.3.5)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpath_rfc9535 import find

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.conditions import compile_condition, find_mismatches, find_slips, holds
from scheduler_service.language.jsonpath import Stopped
from tests.rows import each_row


def tried(text: str, value: object) -> bool | Stopped:
    return holds(compile_condition(text), value)


@each_row(
    ("text", "value", "verdict"),
    [
        ("@.code == 0", {"code": 0}, True),
        ("@.code == 0", {"code": 0.0}, True),
        ("@.code == 0", {"code": "0"}, False),
        ("@.code == 0", {"code": False}, False),
        ("@.code == 0", {}, False),
        ("@.code == 0", [], False),
        ("@.success == true || @.status == 'ok'", {"status": "ok"}, True),
        ("@ == 'ok'", "ok", True),
        ("@ > 3", 4, True),
        ("@ == null", None, True),
        ("@[0].ok == true", [{"ok": True}], True),
        ("length(@) > 1", [1, 2], True),
        ("!@.items[?@.ok != true]", {"items": [{"ok": True}, {"ok": False}]}, False),
        ("!@.items[?@.ok != $.want]", {"items": [{"ok": 1}], "want": 1}, True),
        ("$.code == 0", {"code": 0}, True),
        ("@.结果 == '成功'", {"结果": "成功"}, True),
        ("match(@.state, 'DONE|OK')", {"state": "OK"}, True),
        (" @.code == 0\n", {"code": 0}, True),
    ],
)
def test_a_condition_is_true_of_an_answer_or_not(text: str, value: object, verdict: bool) -> None:
    """`@` is the answer's JSON, of any kind; `$` is the answer as well."""
    assert tried(text, value) is verdict


@each_row(
    ("text", "words"),
    [
        ("@.code = 0", "write =="),
        ("@.code === 0", "write == or !="),
        ("@.a == 1 & @.b == 2", "write && in place of &"),
        ("@.a == 1 | @.b == 2", "write || in place of |"),
        ("@.a == 1 and @.b == 2", "write &&"),
        ("code == 0", "@ is the answer"),
        (".code == 0", "@ is the answer"),
        ("@code == 0", "write a dot behind @"),
        ("@.status == ok", "write a text in quotes"),
        ("@.status == “ok”", "straight quotes"),
        ("@.ok == True", "write true, false or null"),
        ("${code} == 0", "no template"),
        ("@.code in [0, 200]", "compare with each value"),
        ("?@.code == 0", "leave out the \\?"),
        ("@.a <> 1", "write !="),
        ("@.a =~ /x/", "write match"),
        ("@.a.length() > 0", "write length"),
        ("@.a][0", "no single condition"),
        ("@.a], $[?@.b", "column 5"),
        ("true", "must be compared"),
        ("@.items[*].ok == true", "not comparable"),
        ("", "unexpected end"),
        ("(" * 300 + "@" + ")" * 300, "nests"),
        ("@.a == 1 || " * 200 + "@.a == 1", "characters"),
    ],
)
def test_what_is_no_condition_is_refused_with_a_remedy(text: str, words: str) -> None:
    """SPEC section 4: checked when the job is created."""
    with pytest.raises(ExpressionError) as caught:
        compile_condition(text)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(caught.value.full_message)


@each_row(
    ("text", "codes"),
    [
        ("@.code == '0'", ["text_compared"]),
        ("'200' == @.code", ["text_compared"]),
        ("@.success != 'true'", ["text_compared"]),
        ("@.success", ["exists_only"]),
        ("match(@.a, '[')", ["pattern_unread"]),
        ("!search(@.a, 'a{99999999}') && @.b == 1", []),
        ("search(@.a, 'a{99999999}')", ["pattern_unread"]),
        ("match(@.a, 'ok|done')", []),
        ("@.data && @.code == '0'", ["exists_only", "text_compared"]),
        ("!@.error", []),
        ("@.code == 0", []),
        ("@.status == 'ok'", []),
        ("@.items[?@.ok]", []),
        ("not a condition", []),
    ],
)
def test_what_is_valid_and_probably_a_slip_is_found(text: str, codes: list[str]) -> None:
    """A text never equals a number, and a member that is false exists."""
    assert [one.code for one in find_slips(text)] == codes


@each_row(
    ("text", "answer", "words"),
    [
        ("@.code == '0'", {"code": 0}, ["@.code is a number here and is compared with a text: never equal"]),
        ("@.code == 0", {"code": "0"}, ["@.code is a text here and is compared with a number: never equal"]),
        (
            "@.ok == 1",
            {"ok": True},
            ["@.ok is true or false here and is compared with a number: never equal"],
        ),
        ("@['a b'].c == 0", {"code": 0}, ["@['a b'].c is not in this answer"]),
        ("@.code == 0 && @.msg == null", {"code": 0}, []),
        ("!(@.code == 1)", {"code": 0}, []),
    ],
)
def test_a_comparison_that_cannot_hold_of_an_answer_is_named(
    text: str, answer: object, words: list[str]
) -> None:
    """So that who tries it on the last answer sees why."""
    assert [one.message for one in find_mismatches(text, answer)] == words


def test_a_condition_that_visits_too_much_is_given_up() -> None:
    """Whatever an answer holds, the service goes on."""
    assert isinstance(tried("@..[?$..[?$..[?@.x]]]", [[[]] * 100] * 100), Stopped)
    assert isinstance(tried("search(@, '(a?){1000}b')", "a" * 1_000_000), Stopped)


NAMES = ["a", "b", "code", "长"]
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "a", "b", "0"])
answers: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
)
steps = st.sampled_from([f".{name}" for name in NAMES] + ["[0]", "[-1]", "['a']"])
members = st.lists(steps, min_size=1, max_size=3).map(lambda found: "@" + "".join(found))
places = members | st.just("@")
literals = st.sampled_from(["0", "1", "-2", "0.5", "'a'", '"0"', "true", "false", "null"])
operands = places | literals | places.map("length({})".format)
comparisons = st.builds(
    "{} {} {}".format, operands, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), operands
)
searches = places.map("{}[?@.a == 1]".format) | places.map("match({}, 'a|b')".format)
# The library takes `@` alone for its value, where RFC 9535 asks whether it is there.
tests = comparisons | members | searches
conditions = st.recursive(
    tests,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["&&", "||"]), inner)
        | inner.map("!({})".format)
    ),
    max_leaves=5,
)


@given(conditions, answers)
def test_a_condition_selects_what_the_library_selects(text: str, answer: object) -> None:
    """As the one filter of a JSONPath over the answer alone, which the library evaluates in its own way."""
    assert tried(text, answer) is (len(find(f"$[?{text}]", [answer])) == 1)
