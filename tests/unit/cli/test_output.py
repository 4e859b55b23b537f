"""How results are shown (SPEC section 16)."""

import io
import json
import os
import sys
from typing import Any

import pytest
import yaml

from scheduler_service.cli.output import (
    Column,
    Format,
    RowsPage,
    at,
    length_text,
    moment_text,
    note,
    show,
    show_as,
    show_rows,
    spell_out_what_streams_lack,
    text_of,
)
from tests.rows import each_row

ROWS = [{"jobId": "a" * 200, "state": None}, {"jobId": "b", "state": "active"}]


def test_a_row_is_one_line_without_colour_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """However long it is, so that other programs can read it (16)."""
    show(ROWS, Format.TABLE, ("jobId", "state"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["jobId", "state"], ["a" * 200, "-"], ["b", "active"]]
    assert "\x1b" not in "".join(lines)
    # A table that is not all is not shown as if it were
    show_as({"items": ROWS, "nextCursor": "xyz"}, Format.TABLE, RowsPage(("jobId",)))
    assert "--cursor xyz" in capsys.readouterr().err
    show_as({"items": ROWS, "nextCursor": None}, Format.TABLE, RowsPage(("jobId",)))
    assert capsys.readouterr().err == ""
    # An empty list is a message
    page = {"items": [], "nextCursor": None}
    show_as(page, Format.TABLE, RowsPage(("jobId", "state"), "no jobs; create one"))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "no jobs; create one\n")
    show_as(page, Format.JSON, RowsPage(("jobId", "state"), "no jobs; create one"))
    assert json.loads(capsys.readouterr().out) == page


def test_programs_get_json_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    """The same data, whole (16)."""
    page = {"items": ROWS, "nextCursor": None, "text": "é\x1b"}
    show_as(page, Format.JSON, RowsPage(("jobId",)))
    assert json.loads(capsys.readouterr().out) == page
    show_as(page, Format.YAML, RowsPage(("jobId",)))
    assert yaml.safe_load(capsys.readouterr().out) == page


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_that_lacks_a_character_gets_a_stand_in(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs get the same data, escaped as their form has it; no output ends in a stack trace (16)."""
    page = {"items": ROWS, "nextCursor": None, "text": "\u9031\u5831 \u2192 \x7f\U0001f600"}
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    spell_out_what_streams_lack()

    def printed(stream: io.TextIOWrapper) -> str:
        stream.flush()
        raw: Any = stream.buffer
        text = raw.getvalue().decode(encoding)
        raw.seek(0)
        raw.truncate()
        return str(text)

    show(page, Format.JSON)
    assert json.loads(printed(out)) == page
    show(page, Format.YAML)
    assert yaml.safe_load(printed(out)) == page
    show([page], Format.TABLE, ("text",))
    assert printed(out).splitlines()[1] == "\\u9031\\u5831 -> \\x7f\\U0001f600"
    note("\u2026 \u9031")
    dots = "..." if encoding != "cp1252" else "\u2026"
    assert printed(err) == f"{dots} \\u9031\n"


def test_a_cell_cannot_drive_the_terminal() -> None:
    """Names and texts come from others: control characters are written as escapes."""
    assert text_of("a\x1b[31mb\nc\u202e") == "a\\x1b[31mb\\nc\\u202e"
    assert text_of("job测试2 é") == "job测试2 é"
    assert text_of({"a": "é"}) == '{"a": "é"}'
    assert text_of(None) == "-"


def printed(monkeypatch: pytest.MonkeyPatch, width: int, rows: list[dict[str, str]]) -> list[str]:
    """What a terminal of this width shows of a table, without its styles."""
    reader, writer = os.openpty()
    columns = (Column("jobId", free=True), "state", at("next"), Column("kind", spare=True))
    with open(writer, "w", encoding="utf-8") as terminal, monkeypatch.context() as patch:  # noqa: PTH123
        patch.setattr("sys.stdout", terminal)
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "dumb")
        show_rows(rows, columns)
        terminal.flush()
        text = os.read(reader, 65_536).decode()
    os.close(reader)
    return [line.rstrip() for line in text.splitlines()]


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare columns are left out, long texts folded; moments and states stay whole (16)."""
    row = {"jobId": "夜" * 30, "state": "active", "next": "2026-01-31T09:00:00.000Z", "kind": "cron"}
    lines = printed(monkeypatch, 60, [row])
    assert lines[0].split() == ["jobId", "state", "next"]
    assert lines[1].endswith("  active  2026-01-31 09:00:00Z")
    assert [line.count("夜") for line in lines[1:]] == [15, 15]
    wide = printed(monkeypatch, 120, [row])
    assert wide[0].split() == ["jobId", "state", "next", "kind"]
    assert wide[1].split() == ["夜" * 30, "active", "2026-01-31", "09:00:00Z", "cron"]


@each_row(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (12_500, "12.5 s"),
        (59_999, "60.0 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (3_600_000, "1 h"),
        (187_200_000, "2 d 4 h"),
        (None, None),
    ],
)
def test_a_length_has_two_units_at_most(milliseconds: float | None, text: str | None) -> None:
    """As much as a person wants to know."""
    assert length_text(milliseconds) == text


def test_a_moment_is_shown_in_its_zone() -> None:
    """To the second; what is no moment stays."""
    assert moment_text("2026-01-31T09:00:00.123Z") == "2026-01-31 09:00:00Z"
    assert moment_text("2026-01-31T10:00:00.123+01:00") == "2026-01-31 10:00:00+01:00"
    assert moment_text(None) is None


def test_lines_for_people_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """What a target says is in errors and notes too; the ends of lines stay."""
    note("a\x1b[31mb\x9bc\u202e\nd")
    assert capsys.readouterr().err == "a\\x1b[31mb\\x9bc\\u202e\nd\n"
    # Json has no control characters either
    show({"said": "a\x1b\x7f\x9bé\u202e"}, Format.JSON)
    out = capsys.readouterr().out
    assert [letter for letter in out if not letter.isprintable() and letter != "\n"] == []
    assert json.loads(out) == {"said": "a\x1b\x7f\x9bé\u202e"}
    # Yaml has no unseen characters either: also in the names of members; what was meant is read back
    data = {"a\u202eb": ["\u2066x\x9b", "plain \u4e2d", "line\nanother\u200f"], "b": "\u202e"}
    show(data, Format.YAML)
    said = capsys.readouterr().out
    assert all(letter.isprintable() or letter == "\n" for letter in said)
    assert "\u4e2d" in said
    assert yaml.safe_load(said) == data


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML, Format.TABLE])
def test_half_a_character_is_shown_by_its_number(capsys: pytest.CaptureFixture[str], form: Format) -> None:
    """JSON may have one, no terminal and no file has."""
    show({"said": "a\ud800"}, form)
    assert "a\\ud800" in capsys.readouterr().out.lower()
