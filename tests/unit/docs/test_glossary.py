"""docs/glossary.md: each state has its row, no word has two; CONTRIBUTING.md names each package."""

import re
from typing import get_args

from client_sdk.models import answers
from scheduler_service.domain.execution import DeliveryState
from tests.unit.docs.pages import ROOT, read, rows

PAGE = "docs/glossary.md"


def words() -> list[str]:
    """The first cells of all rows but the headings."""
    headings = ("---", "meaning", "`failureType`")
    return [cells[0] for cells in rows(read(PAGE)) if cells[1] not in headings]


def closed_words() -> set[str]:
    """Those of the sets that JSON knows; the kinds of a drift have a table of their own in services.md."""
    sets = (
        answers.ExecutionState, answers.FailureType, answers.FiringOutcome, answers.InstanceState,
        answers.ItemStatus, answers.JobState, answers.RetryReason, answers.TimerKind, answers.TriggeredBy,
    )  # fmt: skip
    return {str(word) for one in sets for word in get_args(get_args(one)[0])} | {*map(str, DeliveryState)}


def test_every_closed_word_of_the_wire_is_explained() -> None:
    """In the part about them, set as code."""
    _, _, part = read(PAGE).partition("## Words of the wire")
    explained = set(re.findall(r"`(\w+)`", part.partition("\n## ")[0]))
    assert closed_words() - explained == set()
    assert len(closed_words()) > 30


def test_what_is_confused_is_told_apart() -> None:
    """`failed` waits for a retry, `terminated` is an end."""
    assert "**`failed` and `terminated`.**" in read(PAGE)


def test_the_floors_are_the_packages() -> None:
    """Those directly below scheduler_service, each once in the picture of the house."""
    picture = read("CONTRIBUTING.md").partition("```text\n")[2].partition("```")[0]
    floors = re.findall(r"^  (\w+(?: \| \w+)*)  ", picture, re.MULTILINE)
    packages = sorted(path.parent.name for path in ROOT.glob("scheduler_service/*/__init__.py"))
    assert sorted(" | ".join(floors).split(" | ")) == packages
    assert len(packages) > 10


def test_no_word_has_two_rows() -> None:
    """One word, one meaning."""
    assert sorted(words()) == sorted(set(words()))


def test_the_pages_for_readers_and_contributors_link_to_it() -> None:
    """Where somebody begins to read."""
    assert "(docs/glossary.md)" in read("README.md")
    assert "(docs/glossary.md)" in read("CONTRIBUTING.md")
