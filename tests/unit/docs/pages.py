"""The pages of the documentation, and what stands in their fences."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"`([\w.-]+)`:\n\n?\Z")


class Fence(NamedTuple):
    """A fenced block: `line` is that of its first line in the page, from 1.

    `name` is the file of which the paragraph before it says the content ("Save this as `hello.json`:").
    """

    language: str
    body: str
    line: int
    name: str | None


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
