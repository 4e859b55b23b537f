"""How results are shown (SPEC section 16)."""

import json

import pytest
import yaml

from scheduler_service.cli.output import Format, show, show_page, text_of

ROWS = [{"jobId": "a" * 200, "state": None}, {"jobId": "b", "state": "active"}]


def test_a_row_is_one_line_without_colour_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """However long it is, so that other programs can read it (16)."""
    show(ROWS, Format.TABLE, ("jobId", "state"))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["jobId", "state"], ["a" * 200, "-"], ["b", "active"]]
    assert "\x1b" not in "".join(lines)


def test_a_list_says_where_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """A table that is not all is not shown as if it were."""
    show_page({"items": ROWS, "nextCursor": "xyz"}, Format.TABLE, ("jobId",))
    assert "--cursor xyz" in capsys.readouterr().err
    show_page({"items": ROWS, "nextCursor": None}, Format.TABLE, ("jobId",))
    assert capsys.readouterr().err == ""


def test_programs_get_json_or_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    """The same data, whole (16)."""
    page = {"items": ROWS, "nextCursor": None, "text": "é\x1b"}
    show_page(page, Format.JSON, ("jobId",))
    assert json.loads(capsys.readouterr().out) == page
    show_page(page, Format.YAML, ("jobId",))
    assert yaml.safe_load(capsys.readouterr().out) == page


def test_an_empty_list_is_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing to show is no error."""
    show([], Format.TABLE, ("jobId", "state"))
    assert capsys.readouterr().out == "jobId  state\n"


def test_a_cell_cannot_drive_the_terminal() -> None:
    """Names and texts come from others: control characters are written as escapes."""
    assert text_of("a\x1b[31mb\nc\u202e") == "a\\x1b[31mb\\nc\\u202e"
    assert text_of("job测试2 é") == "job测试2 é"
    assert text_of({"a": "é"}) == '{"a": "é"}'
    assert text_of(None) == "-"
