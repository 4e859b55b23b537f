"""docs/events.md: every kind of event and every member has its place, and nothing else."""

from typing import get_args

from client_sdk.models import answers
from scheduler_service.domain.occurrences import OccurrenceKind
from tests.unit.docs.pages import read, rows


def test_every_kind_has_a_row() -> None:
    """And there is no row of a kind that is gone."""
    _, _, section = read("docs/events.md").partition("\n## Kinds\n")
    named = {cells[0].strip("`") for cells in rows(section.partition("\n## ")[0]) if "`" in cells[0]}
    assert named == {kind.value for kind in OccurrenceKind}


def test_the_sdk_knows_every_kind() -> None:
    """Its words are those of the service."""
    (words, *_) = get_args(answers.EventKind)
    assert set(get_args(words)) == {kind.value for kind in OccurrenceKind}


def test_every_member_is_named() -> None:
    """On the page, in camelCase."""
    page = read("docs/events.md")
    members = [field.alias or name for name, field in answers.Event.model_fields.items()]
    assert [name for name in members if f"`{name}`" not in page] == []
