"""Files of definitions: JSON, JSON5 and YAML, every error with its line and column (SPEC section 16)."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import json5
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.cli.documents import (
    LONGEST_BYTES,
    MOST_BYTES,
    DocumentKind,
    read_document,
    read_documents,
    read_one,
    read_sources,
)
from scheduler_service.cli.errors import CommandError, Exit
from scheduler_service.cli.json5 import LONGEST_INTEGER, Json5Error, Json5Reader
from tests.rows import each_row

LAUGHS = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))


def refusal(folder: Path, name: str, text: str) -> str:
    """What is said of a file that cannot be read."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CommandError) as caught:
        read_document(path)
    assert caught.value.code is Exit.USAGE
    return caught.value.message.removeprefix(str(path))


def read(folder: Path, name: str, text: str) -> Any:
    """The value of a file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_document(path).value


@each_row(
    "text",
    ["", "{", "[1 2]", "{a}", "{a:}", "NaN", "Infinity", "'a", "01", "1x", "{a:1,a:2}", "1 2", '"\\u12"'],
)
def test_what_json_cannot_hold_is_refused(text: str) -> None:
    """Also names that are given twice, and numbers that are none."""
    with pytest.raises(Json5Error):
        Json5Reader(text).read()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", '{"a": 1,}', " is not valid JSON: Expecting property name"),
        ("a.json", '{\n  "a": tru\n}', "line 2, column 8"),
        ("a.json", "// no\n{}", "line 1, column 1"),
        ("a.json", '{"NaN": "\\"NaN",\n "a": NaN}', "NaN is not a JSON number at line 2, column 7"),
        ("a.json", "[1, -Infinity]", "-Infinity is not a JSON number at line 1, column 5"),
        ("a.json", '{"a": 1,\n "a": 2}', "'a' is given twice at line 2, column 2"),
        ("a.json", "[" * 300 + "]" * 300, "nested too deeply"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.json5", "{\n a: 1\n b: 2}", "',' or '}' is expected here at line 3, column 2"),
        ("a.yaml", "a: [1\nb: 2\n", "is not valid YAML"),
        ("a.yaml", "a: 1\n\tb: 2\n", "line 2, column 1"),
        ("a.yaml", "a: !!timestamp 2023-10-01\n", "with the values of JSON"),
        ("a.yaml", "a: &x [*x]\n", "with the values of JSON"),
        ("a.yaml", "a: 1\nb: 2\na: 3\n", "the name 'a' is given twice at line 3, column 1"),
        (
            "a.yaml",
            "t:\n  period: */5 * * * *\n",
            'line 2, column 12; write the value in quotes: "*/5 * * * *"',
        ),
        ("a.yaml", "period: @daily\n", 'write the value in quotes: "@daily"'),
        ("a.yaml", "- ? * * * *\n", "is not valid YAML"),
        ("a.yaml", "period: ? * * * *\n", 'write the value in quotes: "? * * * *"'),
        ("a.yaml", "- period: *\n", 'write the value in quotes: "*"'),
        ("a.yaml", "text: at 9: go\n", 'write the value in quotes: "at 9: go"'),
        ("a.yaml", "url: {{host}}\n", 'write the value in quotes: "{{host}}"'),
        ("a.yaml", "timer: {period: * * * * *, dueTime: 0s}\n", 'write the value in quotes: "* * * * *"'),
        ("a.yaml", "- [a, @daily]\n", 'write the value in quotes: "@daily"'),
        ("a.yaml", "request: [{url: ${BASE}/x, method: GET}]\n", 'write the value in quotes: "${BASE}/x"'),
        ("a.yaml", "a: 1\n\tb: 2\n", "; indent with blanks, not with tabs"),
        ("a.yaml", LAUGHS, "its aliases expand to more than 1000000 values"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_column(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Exit code 2, the file's name, what is wrong, and where (16)."""
    assert said in refusal(tmp_path, name, text)


def test_yaml_has_the_values_of_json(tmp_path: Path) -> None:
    """No dates, no `yes`, no octal numbers: what a definition means is not guessed (16)."""
    text = "a: 2023-10-01 09:00:01\nb: yes\nc: 1:30\nd: 010\ne: [1, 2.5, true, null, ~]\nf:\n"
    assert read(tmp_path, "a.yml", text) == {
        "a": "2023-10-01 09:00:01",
        "b": "yes",
        "c": "1:30",
        "d": "010",
        "e": [1, 2.5, True, None, None],
        "f": None,
    }
    # A file may begin with a byte order mark: as some editors write it
    assert read(tmp_path, "a.json", "\ufeff{}") == {}
    # A merge key is refused by name: it is no value of JSON; a name in quotes is one
    text = "- labels: &all {team: a}\n- labels:\n    <<: *all\n"
    with pytest.raises(CommandError, match=r"merge keys \(<<\) are not read at line 3, column 5; write its"):
        read(tmp_path, "a.yaml", text)
    assert read(tmp_path, "a.yaml", "'<<': {team: a}") == {"<<": {"team": "a"}}


def test_a_file_that_is_no_text_or_not_there_is_named(tmp_path: Path) -> None:
    """Exit code 2 with the reason."""
    path = tmp_path / "a.json"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(CommandError, match=r"not UTF-8: .* at line \d+ .*; save it as UTF-8"):
        read_document(path)
    with pytest.raises(CommandError, match="No such file"):
        read_document(tmp_path / "none.json")
    with pytest.raises(CommandError, match="directory"):
        read_document(tmp_path)
    # Files together have a limit: a folder that is the wrong one is not read to its end
    for number in range(MOST_BYTES // LONGEST_BYTES + 1):
        (tmp_path / f"{number}.json").write_bytes(b" " * LONGEST_BYTES)
    with pytest.raises(CommandError, match="together are larger than 64 MiB"):
        read_sources([tmp_path])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '[\n  {"request": [{"url":\n     "x"}]}\n]'),
        ("a.json5", "[\n  {request: [{url:\n     'x'}]}\n]"),
        ("a.yaml", "\n- request:\n  - {url:\n     x}\n"),
    ],
)
def test_values_are_found_by_their_pointer(tmp_path: Path, name: str, text: str) -> None:
    """What a check says of `/0/request/0/url` is shown at that value's line and column (16)."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    document = read_document(path)
    assert document.place_of("/0/request/0/url").split(":")[0] in ("3", "4")
    assert document.place_of("/0/request/0/url").endswith(":6")
    assert document.place_of("/0/request/0/missing") == document.place_of("/0/request/0")


def test_a_yaml_file_has_any_number_of_documents(tmp_path: Path) -> None:
    """With the places in the file; one in which nothing is written is none; a command for one says so."""
    path = tmp_path / "a.yaml"
    path.write_text("# first\na: 1\n---\n---\n- b: 2\n- c\n...\n---\n# last\n", encoding="utf-8")
    documents = read_documents(path)
    assert [one.value for one in documents] == [{"a": 1}, [{"b": 2}, "c"]]
    assert [one.place_of("/a") for one in documents] == ["2:4", "5:1"]
    assert documents[1].place_of("/0/b") == "5:6"
    with pytest.raises(CommandError, match="holds 2 documents; give a file with one"):
        read_document(path)
    path.write_text("\n---\n", encoding="utf-8")
    assert (read_documents(path), read_document(path).value) == ([], None)
    assert "line 3" in refusal(tmp_path, "b.yaml", "a: 1\n---\nb: ]\n")
    assert "aliases expand to more" in refusal(tmp_path, "b.yaml", "---\n".join(["x: 1\n", LAUGHS]))


def test_standard_input_is_yaml_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it begins: so that what is exported can be piped into apply (16)."""
    for text, value in (('\n [{"a": 1}]', [{"a": 1}]), ("a: 1\n", {"a": 1}), ("- a: b\n", [{"a": "b"}])):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert read_document(Path("-")).value == value
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{a: 1}")))
    with pytest.raises(CommandError, match="standard input is not valid JSON"):
        read_document(Path("-"))


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    """With the folders in it; what begins with a dot and other kinds of files are left out (16)."""
    for name in ("b.json", "a/z.YAML", "a/b.json5", "c.jsonc", ".git/x.json", ".x.yml", "a.txt", "d/e/f.yml"):
        path = tmp_path / "all" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[]", encoding="utf-8")
    (tmp_path / "linked.yml").write_text("[]", encoding="utf-8")
    (tmp_path / "all" / "e.yml").symlink_to(tmp_path / "linked.yml")
    found = [str(Path(one.name).relative_to(tmp_path)) for one in read_sources([tmp_path / "all"])]
    assert found == [
        f"all/{name}" for name in ("a/b.json5", "a/z.YAML", "b.json", "c.jsonc", "d/e/f.yml", "e.yml")
    ]
    (tmp_path / "all" / "z").symlink_to(tmp_path / "all" / "a")
    with pytest.raises(CommandError, match="z is a link to a folder, which is not followed"):
        read_sources([tmp_path / "all"])


def test_a_file_with_one_thing_may_say_what_it_is(tmp_path: Path) -> None:
    """What is exported is taken by `jobs create`, `calendars put` and `services apply`, too (16)."""
    path = tmp_path / "a.json"
    path.write_text('{"kind": "Calendar",\n "name": "office", "week": [1]}', encoding="utf-8")
    assert read_one(path, DocumentKind.CALENDAR, "office").value == {"week": [1]}
    for kind, name, said in (
        (DocumentKind.CALENDAR, "other", "2:10: name 'office' is not 'other'"),
        (DocumentKind.JOB, None, "1:10: kind 'Calendar' is not 'Job'"),
    ):
        with pytest.raises(CommandError, match=said):
            read_one(path, kind, name)
    path.write_text('{"jobId": "a", "name": "x"}', encoding="utf-8")
    assert read_one(path, DocumentKind.JOB).value == {"jobId": "a", "name": "x"}


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
    """The package json5, but for NaN and Infinity, which JSON cannot hold, and a name that is given twice."""
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
