"""The decisions: one page each, each number given once, all of them in the index."""

import re
from collections import Counter
from pathlib import Path

PAGES = sorted((Path(__file__).parents[3] / "docs" / "decisions").glob("[0-9]*.md"))


def test_each_decision_has_a_number_of_its_own() -> None:
    """The number of the file is that of its title, and no other page's."""
    numbers = [int(page.name[:4]) for page in PAGES]
    titles = [re.match(r"# (\d+)\. \S", page.read_text()) for page in PAGES]
    assert [int(title[1]) for title in titles if title] == numbers
    assert len(set(numbers)) == len(numbers) > 0


def test_the_index_has_each_decision_once() -> None:
    """By its number and its title, in the words of its page."""
    rows = re.findall(
        r"^\| (\d+) \| \[(.+)\]\((.+)\) \|$", (PAGES[0].parent / "README.md").read_text(), re.MULTILINE
    )
    titled = [re.match(r"# (\d+)\. (.+)", page.read_text()) for page in PAGES]
    assert Counter(rows) == Counter(
        (title[1], title[2], page.name) for page, title in zip(PAGES, titled, strict=True) if title
    )
