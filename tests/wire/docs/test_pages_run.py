"""Pages that a reader follows: all their commands run, and print what the page shows."""

import re
from pathlib import Path

import pytest

from tests.rows import each_row
from tests.unit.docs.pages import ROOT, read
from tests.wire.docs.executor import executor, file_of

TUTORIAL = "docs/tutorial.md"
QUESTIONS = "docs/how-do-i.md"
COMING_FROM = sorted(f"docs/coming-from/{path.name}" for path in ROOT.glob("docs/coming-from/*.md"))
PAGES = (TUTORIAL, QUESTIONS, *(pytest.param(page, marks=pytest.mark.long) for page in COMING_FROM))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_followed(page: str, tmp_path: Path) -> None:
    """From its first line to its last, in a folder with the target of the tutorial."""
    with executor(tmp_path) as reader:
        if page != TUTORIAL:
            reader.save("target.py", file_of(TUTORIAL, "target.py"))
        assert reader.follow(page, read(page)) > 5


@each_row("page", COMING_FROM)
def test_who_comes_from_elsewhere_finds_the_same_parts(page: str) -> None:
    """The words, the own job step by step, what is different, and what is not there."""
    headings = re.findall("^## (.*)$", read(page), re.MULTILINE)
    words, steps, different, missing = headings
    assert words == "The words"
    assert steps.endswith("step by step")
    assert (different, missing) == ("What is different", "What Punctual does not have")


def test_there_is_a_page_for_each_model() -> None:
    """For those who come from the schedulers that most people know."""
    assert len(COMING_FROM) >= 5


def test_there_are_thirty_answers() -> None:
    """At least, each under a heading of its own."""
    assert len(re.findall("^## ", read(QUESTIONS), re.MULTILINE)) >= 30
