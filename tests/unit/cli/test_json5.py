"""JSON5 as people write it, every error with its place (https://spec.json5.org)."""

import contextlib
import json
from typing import Any

import json5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.cli.json5 import LONGEST_INTEGER, Json5Error, Json5Reader
from tests.rows import each_row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 1, "\t"]), st.booleans())
@settings(deadline=None)
def test_all_json_is_json5(value: Any, indent: Any, ascii_only: bool) -> None:
    """Whatever the standard library writes is read as the same value."""
    assert Json5Reader(json.dumps(value, indent=indent, ensure_ascii=ascii_only)).read() == value


@given(st.text(alphabet="{}[]:,'\"\\/*ab1.-+e \n\tu0x", max_size=40))
@settings(deadline=None)
def test_what_is_no_json5_is_refused_in_its_place(text: str) -> None:
    """Any text is read or refused, with a place inside the text; nothing else happens."""
    with contextlib.suppress(Json5Error):
        Json5Reader(text).read()
        return
    with pytest.raises(Json5Error) as caught:
        Json5Reader(text).read()
    assert 0 <= caught.value.at <= len(text)


PIECES = [*"{}[]:,'\"\\/*ab1.-+e \n\tu0x", "true", "null", "NaN", "Infinity", "//", "/*", "*/", "0x1", "1e5"]


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_another_reader_of_json5_agrees(text: str) -> None:
    """What is read has the value that the package json5 gives it; what is refused it refuses too.

    But for NaN and Infinity, which JSON cannot hold, and a name that is given twice.
    """
    try:
        value = Json5Reader(text).read()
    except Json5Error as error:
        if error.message.startswith(("a value is expected", "the name")):
            return
        with pytest.raises(ValueError):
            json5.loads(text)
        return
    assert json5.loads(text) == value


@each_row(
    ("text", "value"),
    [
        ("// one\n{a: 1, /* two */ 'b': 'it\\'s',}", {"a": 1, "b": "it's"}),
        ("[0x1F, +1, .5, 5., -2e3,]", [31, 1, 0.5, 5.0, -2000.0]),
        (f"-0x{'f' * LONGEST_INTEGER}", float("-inf")),
        ('"\\u00e9\\x41\\\nB\\v"', "éAB\v"),
        ('"\\ud83d\\ude00"', "😀"),
        ("{$a_1: null, true: true}", {"$a_1": None, "true": True}),
    ],
)
def test_json5_is_for_people(text: str, value: Any) -> None:
    """Comments, trailing commas, plain names and single quotes, as the specification of JSON5 says."""
    assert Json5Reader(text).read() == value
