"""Comments, strings, templates and regular expressions of JavaScript are told apart from code."""

import pytest

from scheduler_service.console.source import ModuleError, read_source
from tests.rows import each_row


@each_row(
    ("text", "code"),
    [
        ('a = "x // y"; // z', "a = ;"),
        ("a = 'it\\'s'; b", "a = ; b"),
        ("a /* { */ b", "a b"),
        ("`t ${ a } u` + b", "{ a } + b"),
        ("`a ${ {x: `b ${c}`} } d`; e", "{ {x: {c} } } ; e"),
        ("`a \\` \\${b}` ; c", "; c"),
        ('x = /[/`]\\/"/g; y', "x = ; y"),
        ("x = a / b / c; `y`", "x = a / b / c;"),
        ("return /`/.test(x)", "return .test(x)"),
        ("(a + b) / 2; d[0] / 3", "(a + b) / 2; d[0] / 3"),
        ("// `\nb", "b"),
    ],
)
def test_what_is_no_code_is_blank(text: str, code: str) -> None:
    """The mask has the length and the lines of the text; what stands in `${…}` is code."""
    source = read_source("x.js", text)
    assert " ".join(source.code.split()) == code
    assert (len(source.code), len(source.plain)) == (len(text), len(text))


def test_strings_stay_where_only_comments_are_blank() -> None:
    """As the path of an import does."""
    assert read_source("x.js", 'a "b" /* c */ d').plain == 'a "b"         d'


@each_row(
    ("text", "what"),
    [
        ("\na = 'b", "a string"),
        ("\n`a ${b}", "a template"),
        ("a\n/* b", "a comment"),
        ("\n`${a", "a template"),
    ],
)
def test_what_does_not_end_is_refused(text: str, what: str) -> None:
    """With its file and line."""
    with pytest.raises(ModuleError, match=rf"^core/x\.js:2: {what} "):
        read_source("core/x.js", text)
