"""CONTRIBUTING.md: the table of changes and the picture of the house are true."""

import re
import tomllib

from tests.rows import each_row
from tests.unit.docs.pages import ROOT, fences, read

PAGE = "CONTRIBUTING.md"
PATH = re.compile(r"`([a-z_]+(?:/[\w.]+)+)`")


def changes() -> dict[str, list[str]]:
    """change → the paths to open."""
    _, _, table = read(PAGE).partition("## Where do I change X")
    cells = [line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")]
    return {change: PATH.findall(where) for change, where in cells[2:]}


def floors() -> set[str]:
    """The packages that import-linter knows; those in brackets are optional."""
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    names = {name.strip() for layer in layers for name in layer.split("|")}
    return {name for name in names if not name.startswith(("(", "__"))}


@each_row(("change", "paths"), changes().items())
def test_every_file_to_open_exists(change: str, paths: list[str]) -> None:
    """Below scheduler_service, or from the root of the checkout; each row names one at least."""
    assert paths, change
    missing = [
        path for path in paths if not any((ROOT / top / path).exists() for top in ("scheduler_service", "."))
    ]
    assert missing == []


def test_there_are_many_of_them() -> None:
    """And no change stands twice."""
    _, _, table = read(PAGE).partition("## Where do I change X")
    assert len(changes()) == len([line for line in table.splitlines() if line.startswith("| ")]) - 2
    assert len(changes()) >= 25


def test_the_picture_shows_every_floor() -> None:
    """The packages of the contract of floors."""
    picture = fences(read(PAGE), "text")[0]
    assert {name for name in floors() if not re.search(rf"\b{name}\b", picture)} == set()
