"""The pages of the documentation, and what stands in their fences."""

import ast
import gc
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMED_TEST = re.compile(r"`(tests/[\w/]+/test_\w+\.py)::(test_\w+)`")
"""A test as pages name it: file and function."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FUNCTION = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)
_NAME = re.compile(r"`([\w.-]+)`:\n\n?\Z")


class Fence(NamedTuple):
    """A fenced block: `line` is that of its first line in the page, from 1.

    `name` is the file of which the paragraph before it says the content ("Save this as `hello.json`:").
    """

    language: str
    body: str
    line: int
    name: str | None


@cache
def read(name: str) -> str:
    """A page by its path from the root of the checkout."""
    return (ROOT / name).read_text(encoding="utf-8")


def fenced(text: str) -> list[Fence]:
    """All fenced blocks, in order."""
    found = []
    for match in _FENCE.finditer(text):
        named = _NAME.search(text, 0, match.start())
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Fence(match[1], match[2], line, named[1] if named else None))
    return found


def fences(text: str, language: str) -> list[str]:
    """The bodies of the fenced blocks of one language, in order."""
    return [fence.body for fence in fenced(text) if fence.language == language]


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """The names that headings have in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of all tables."""
    lines = re.findall(r"^\| (.*) \|$", prose(text), re.MULTILINE)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines]


@cache
def functions_of(path: str) -> frozenset[str]:
    """The names of the tests that a file defines at its top level; empty where there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    return frozenset(_FUNCTION.findall(file.read_text(encoding="utf-8")))


def parse_fresh(path: Path) -> ast.Module:
    """The tree of a program. It holds no garbage: to look for some takes four times as long as to make it."""
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        gc.enable()


def definitions() -> list[tuple[str, dict[str, Any]]]:
    """(page, definition) of every definition that a page shows."""
    found = []
    for page in PAGES:
        for text in fences(page.read_text(encoding="utf-8"), "json"):
            value = json.loads(text)
            found += [(page.name, one) for one in (value if isinstance(value, list) else [value])]
    return found
