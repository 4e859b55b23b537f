"""Names in a JSONPath: every character of RFC 9535, of all planes (SPEC section 4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError

from scheduler_service.domain.errors import ExpressionError
from scheduler_service.language.jsonpath import compile_path, evaluate
from scheduler_service.language.jsonpath_parser import NameEnvironment
from tests.rows import each_row

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
