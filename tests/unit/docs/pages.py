"""The pages of the documentation, and what stands in their fences."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def read(name: str) -> str:
    """A page by its path from the root of the checkout."""
    return (ROOT / name).read_text(encoding="utf-8")


def fences(text: str, language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return [body for named, body in _FENCE.findall(text) if named == language]


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
