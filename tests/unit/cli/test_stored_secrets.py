"""punctual secrets: what it sends and prints, over a service (SPEC section 14)."""

import io
import json
import sys
from pathlib import Path

import pytest

from tests.http_program import Asked, HttpProgram, Said
from tests.rows import each_row
from tests.unit.cli.running import Ran, enveloped


class Piped:
    """A standard input that is a pipe."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)

    def isatty(self) -> bool:
        return False


SENT = list[tuple[str, bytes]]
STORED = {
    "items": [
        {"name": "SHOP_TOKEN", "source": "stored", "values": 1, "createdAt": None, "updatedAt": None},
        {"name": "DB", "source": "file", "values": 2, "createdAt": None, "updatedAt": None},
    ],
    "canStore": True,
}


def scheduler(sent: SENT) -> HttpProgram:
    """A program that takes all, and lists two secrets."""

    def answer(asked: Asked) -> Said:
        sent.append((asked.method, asked.body))
        return enveloped(STORED if asked.method == "GET" else None)

    return HttpProgram(answer)


@each_row(
    ("content", "arguments", "sent"),
    [
        (b"t0p secret\n", (), {"value": "t0p secret", "keepEarlier": False}),
        (b"t0p\r\n", ("--keep-earlier",), {"value": "t0p", "keepEarlier": True}),
        (b"two\nlines\n\n", ("-f", "-"), {"value": "two\nlines\n", "keepEarlier": False}),
    ],
)
def test_a_value_is_read_from_the_standard_input(
    ran: Ran, monkeypatch: pytest.MonkeyPatch, content: bytes, arguments: tuple[str, ...], sent: object
) -> None:
    """Without the line end behind it; nothing of it is printed."""
    got: SENT = []
    monkeypatch.setattr(sys, "stdin", Piped(content))
    with scheduler(got) as program:
        code, printed, said = ran("secrets", "set", "SHOP_TOKEN", *arguments, "--url", program.url)
    assert code == 0, said
    assert [(method, json.loads(body)) for method, body in got] == [("PUT", sent)]
    assert "SHOP_TOKEN" in said
    assert "t0p" not in printed + said


def test_or_from_a_file(ran: Ran, tmp_path: Path) -> None:
    """One that is not there, or is no text, is refused before anything is sent."""
    path, got = tmp_path / "token.txt", SENT()
    path.write_text("of the file\n", encoding="utf-8")
    with scheduler(got) as program:
        assert ran("secrets", "set", "A", "--file", str(path), "--url", program.url)[0] == 0
        assert json.loads(got[0][1])["value"] == "of the file"
        code, _, said = ran("secrets", "set", "A", "-f", str(tmp_path / "none"), "--url", program.url)
        assert (code, "cannot be read" in said) == (2, True), said
        path.write_bytes(b"\xff\xfe")
        code, _, said = ran("secrets", "set", "A", "-f", str(path), "--url", program.url)
        assert (code, "no text in UTF-8" in said) == (2, True), said
        code, _, said = ran("secrets", "set", "no name", "-f", str(path), "--url", program.url)
        assert code == 2, said
    assert len(got) == 1


def test_names_are_listed_and_deleted(ran: Ran) -> None:
    """With source and dates; there are no values to print."""
    got: SENT = []
    with scheduler(got) as program:
        code, printed, said = ran("secrets", "list", "--url", program.url)
        assert code == 0, said
        assert "SHOP_TOKEN" in printed
        assert "file" in printed
        assert ran("secrets", "delete", "SHOP_TOKEN", "--url", program.url)[0] == 0
    assert [method for method, _ in got] == ["GET", "DELETE"]
