"""The editor's own modules, tried in the page: JSON with places, edits of a text, changes of two."""

from typing import Any

import pytest

from tests.console.browsing import Console, evaluate

TEXT = '{\n  "a": 12345678901234567890,\n  "request": [{"url": "x"}, {"url": "y"}]\n}'


def run(console: Console, body: str, argument: Any = None) -> Any:
    """What `body` returns; `editor` has what the editor's modules export."""
    load = "const own = await import(new URL('screens/editor.en.js', core.ASSETS).href);"
    load += "const editor = { ...core, ...own };"
    return evaluate(console("#/settings"), f"{load} {body}", argument)


def test_what_is_no_json_is_found_where_it_begins(console: Console) -> None:
    """The first thing that is wrong, and its place."""
    texts = ['{"a":1,}', '{"a":}', "{a:1}", "[1 2]", '{"a":1,"a":2}', "", '{"a":"\n"}', "{} x", "[1,", "01"]
    read = "try { editor.readTree(text); return null; } catch (fault) { return [fault.code, fault.offset]; }"
    assert run(console, f"return argument.map((text) => {{ {read} }});", texts) == [
        ["trailing", 6],
        ["value", 5],
        ["key", 1],
        ["comma", 3],
        ["twice", 7],
        ["end", 0],
        ["string", 5],
        ["after", 3],
        ["end", 3],
        ["after", 1],
    ]


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ('editor.withValue(text, ["b"], 1)', TEXT.replace("\n}", ',\n  "b": 1\n}')),
        ('editor.withValue(text, ["request", 1, "n"], [1])', TEXT.replace('"y"}', '"y", "n": [1]}')),
        ('editor.withValue(text, ["a"], undefined)', TEXT.replace('"a": 12345678901234567890,\n  ', "")),
        ('editor.withItem(text, ["request"], 1, 5)', TEXT.replace('}, {"url": "y"', '}, 5, {"url": "y"')),
        (
            'editor.withSwapped(text, ["request"], 0, 1)',
            TEXT.replace("x", "z").replace("y", "x").replace("z", "y"),
        ),
        (
            'editor.without(editor.without(text, ["request", 0]), ["request", 0])',
            TEXT.split("[")[0] + "[]\n}",
        ),
        ('editor.partOf(text, ["a"])', "12345678901234567890"),
    ],
)
def test_an_edit_leaves_the_rest_of_the_text_alone(console: Console, edit: str, expected: str) -> None:
    """Order, spacing and numbers stay as they are written."""
    assert run(console, f"const text = argument; return {edit};", TEXT) == expected


def test_changes_of_two_meet_only_in_one_member(console: Console) -> None:
    """Different members go together; the same one, or one that was removed, does not."""
    merge = "return argument.map(([base, mine, theirs]) => editor.mergeValues(base, mine, theirs));"
    base = {"a": 1, "b": {"c": 1, "d": 1}}
    assert run(
        console,
        merge,
        [
            [base, {**base, "a": 2}, {**base, "b": {"c": 1, "d": 2}}],
            [base, {**base, "a": 2}, {**base, "a": 3}],
            [base, {"a": 1}, {**base, "b": {"c": 2, "d": 1}}],
            [base, {**base, "a": 2}, {"b": base["b"]}],
            [base, {**base, "e": 1}, {**base, "f": 1}],
        ],
    ) == [
        {"conflicts": [], "taken": [["b", "d"]]},
        {"conflicts": ["/a"], "taken": []},
        {"conflicts": ["/b"], "taken": []},
        {"conflicts": ["/a"], "taken": []},
        {"conflicts": [], "taken": [["f"]]},
    ]
