"""The pictures of the README: they are there, and can be drawn anew from a service that runs."""

import struct
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.checkout import ROOT
from tests.console.pictures import FOLDER, HEIGHT, NAMES, WIDTH, draw, fill
from tests.console.service import ConsoleService

MOST_BYTES = 250_000


def test_the_readme_shows_both() -> None:
    """Each with a text for those who do not see it; small enough for a page that many open."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"](docs/pictures/{name})" in text
        assert (FOLDER / name).stat().st_size <= MOST_BYTES


@pytest.mark.long
def test_they_are_drawn_anew(browser: Browser, tmp_path: Path) -> None:
    """As `python -m tests.console.pictures` does; of the size that the README has."""
    with ConsoleService() as service:
        fill(service, rounds=2)
        draw(browser, service, tmp_path)
    for name in NAMES:
        assert _size(tmp_path / name) == _size(FOLDER / name) == (WIDTH, HEIGHT)


def _size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG (its header, RFC 2083 section 4.1.1)."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
